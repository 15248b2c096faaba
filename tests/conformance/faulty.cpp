// A plugin that is another one with a fault: shows that the suite finds the fault.
// SPDX-License-Identifier: Apache-2.0
//
// MOERT_FAULTY_TARGET names the file of the other plugin, MOERT_FAULT the fault. Only the feature that
// has the fault is offered.
#include <dlfcn.h>
#include <moert/abi/capturer.h>
#include <moert/abi/entry.h>
#include <moert/abi/quant_method.h>
#include <moert/abi/routed_experts.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <moert/sdk/tensor.hpp>
#include <string_view>
#include <vector>

#include "faulty.hpp"

namespace moert::faulty {
namespace {

// The tables of the other plugin.
const moert_routed_experts_t* experts;
const moert_quant_method_t* quant;
const moert_capturer_t* capturer;

// --- routed_experts -----------------------------------------------------------------------------

using Forward = moert_code_t(void*, const moert_experts_args_t*, moert_error_t*);

size_t row_bytes(const moert_tensor_t& t) {
  return static_cast<size_t>(dtype_bytes(t.dtype, t.shape[1]));
}
unsigned char* row(const moert_tensor_t& t, int64_t r) {
  return static_cast<unsigned char*>(t.data) + dtype_bytes(t.dtype, r * t.strides[0]);
}

moert_code_t padding_is_expert_0(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  if (args->ids == nullptr) return experts->forward(self, args, e);
  const auto* first = static_cast<const int32_t*>(args->ids->data);
  std::vector<int32_t> ids(first, first + element_count(*args->ids));
  for (int32_t& id : ids) id = id == -1 ? 0 : id;
  moert_tensor_t changed = *args->ids;
  changed.data = ids.empty() ? nullptr : ids.data();
  moert_experts_args_t copy = *args;
  copy.ids = &changed;
  return experts->forward(self, &copy, e);
}

moert_code_t weights_are_1(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  if (args->weights == nullptr) return experts->forward(self, args, e);
  std::vector<float> ones(static_cast<size_t>(element_count(*args->weights)), 1.0f);
  moert_tensor_t changed = *args->weights;
  changed.data = ones.empty() ? nullptr : ones.data();
  moert_experts_args_t copy = *args;
  copy.weights = &changed;
  return experts->forward(self, &copy, e);
}

moert_code_t one_byte_too_far(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  const moert_code_t code = experts->forward(self, args, e);
  if (code == MOERT_OK && args->out->shape[0] > 0)
    row(*args->out, args->out->shape[0] - 1)[row_bytes(*args->out)] = 0;
  return code;
}

moert_code_t padded_rows_unwritten(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  const moert_code_t code = experts->forward(self, args, e);
  for (int64_t t = 0; code == MOERT_OK && t < args->out->shape[0]; ++t) {
    bool any = false;
    for (int64_t j = 0; j < args->ids->shape[1]; ++j)
      any |= row_of<const int32_t>(*args->ids, t)[j] != -1;
    if (!any) std::memset(row(*args->out, t), 0xff, row_bytes(*args->out));
  }
  return code;
}

moert_code_t one_token_differs(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  const moert_code_t code = experts->forward(self, args, e);
  if (code == MOERT_OK && args->out->shape[0] == 1) *row(*args->out, 0) ^= 1;
  return code;
}

moert_code_t nan_spreads(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  const moert_code_t code = experts->forward(self, args, e);
  if (code != MOERT_OK) return code;
  bool nan = false;
  for (int64_t t = 0; t < args->hidden->shape[0]; ++t)
    nan |= std::isnan(read_f32(*args->hidden, t * args->hidden->strides[0]));
  for (int64_t t = 0; nan && t < args->out->shape[0]; ++t)
    std::memset(row(*args->out, t), 0xff, row_bytes(*args->out));
  return code;
}

moert_code_t writes_first(void* self, const moert_experts_args_t* args, moert_error_t* e) {
  if (args->out != nullptr)
    for (int64_t t = 0; t < args->out->shape[0]; ++t)
      std::memset(row(*args->out, t), 0, row_bytes(*args->out));
  return experts->forward(self, args, e);
}

moert_code_t takes_pieces_twice(void* self, const moert_piece_t* piece, moert_error_t* e) {
  const moert_code_t code = experts->load(self, piece, e);
  return code == MOERT_ALREADY_EXISTS ? int32_t{MOERT_OK} : code;
}

moert_code_t says_nothing(void* self, const moert_piece_t* piece, moert_error_t* e) {
  const moert_code_t code = experts->load(self, piece, e);
  if (e != nullptr) e->message[0] = '\0';
  return code;
}

moert_code_t misses_nothing(void* self, moert_error_t*) {
  experts->finish(self, nullptr);
  return MOERT_OK;
}

moert_code_t bundles_expert_0(void* self, int64_t expert, void* bundle, uint64_t bytes,
                              const moert_stream_t* stream, moert_error_t* e) {
  return experts->read_expert(self, expert == 4 ? 0 : expert, bundle, bytes, stream, e);
}

// Another function, with the numbers that it takes.
template <class Change>
moert_code_t create_with(const moert_host_t* host, const moert_moe_problem_t* problem,
                         const moert_kv_t* options, uint32_t n, void** self, moert_error_t* e,
                         Change change) {
  moert_activation_t activation = *problem->activation;
  change(activation);
  moert_moe_problem_t copy = *problem;
  copy.activation = &activation;
  return experts->create(host, &copy, options, n, self, e);
}

moert_code_t drops_the_limit(const moert_host_t* host, const moert_moe_problem_t* problem,
                             const moert_kv_t* options, uint32_t n, void** self, moert_error_t* e) {
  return create_with(host, problem, options, n, self, e, [](moert_activation_t& a) {
    if (std::string_view(a.name) != "swiglustep") a.limit = 0;
  });
}

moert_code_t situ_is_silu(const moert_host_t* host, const moert_moe_problem_t* problem,
                          const moert_kv_t* options, uint32_t n, void** self, moert_error_t* e) {
  return create_with(host, problem, options, n, self, e, [](moert_activation_t& a) {
    if (std::string_view(a.name) == "situ") a = {sizeof a, 0, "silu", 0, 0, 0};
  });
}

moert_code_t clamps_before_the_step(const moert_host_t* host, const moert_moe_problem_t* problem,
                                    const moert_kv_t* options, uint32_t n, void** self,
                                    moert_error_t* e) {
  return create_with(host, problem, options, n, self, e, [](moert_activation_t& a) {
    if (std::string_view(a.name) == "swiglustep") a.name = "silu";
  });
}

moert_code_t ignores_flags(const moert_host_t* host, const moert_moe_problem_t* problem,
                           moert_support_t* out, moert_error_t* e) {
  moert_moe_problem_t copy{};
  std::memcpy(&copy, problem, std::min<size_t>(problem->struct_size, sizeof copy));
  copy.struct_size = sizeof copy;
  copy.flags &= 0xffffu;
  return experts->supports(host, &copy, out, e);
}

// --- quant_method and capturer ------------------------------------------------------------------

moert_code_t reads_densely(void* self, const moert_tensor_t* weight, int64_t first, int64_t rows,
                           float* out, int64_t stride, moert_error_t* e) {
  moert_tensor_t copy = weight == nullptr ? moert_tensor_t{} : *weight;
  const int64_t strides[] = {copy.rank == 2 ? copy.shape[1] : 0, 1};
  if (copy.rank != 2 || copy.strides[0] < 0 || copy.strides[0] > 100)
    return quant->decode(self, weight, first, rows, out, stride, e);
  copy.strides = strides;
  return quant->decode(self, &copy, first, rows, out, stride, e);
}

moert_code_t ignores_companions(void* self, const moert_tensor_t* weight, moert_error_t* e) {
  moert_tensor_t copy = *weight;
  copy.quant = nullptr;
  return quant->check(self, &copy, e);
}

moert_code_t forgets_drops(void*, int64_t, int64_t, moert_error_t*) { return MOERT_OK; }

moert_code_t forgets_commits(void*, int64_t, int64_t, moert_error_t*) { return MOERT_OK; }

moert_code_t begin_with(void* self, const moert_capture_step_t* step, uint32_t flags,
                        moert_error_t* e) {
  moert_capture_step_t copy = *step;
  copy.flags = (copy.flags & ~uint32_t{MOERT_CAPTURE_STEP_COMMIT}) | flags;
  return capturer->begin(self, &copy, e);
}
moert_code_t commits_at_once(void* self, const moert_capture_step_t* step, moert_error_t* e) {
  return begin_with(self, step, MOERT_CAPTURE_STEP_COMMIT, e);
}
moert_code_t never_commits_at_end(void* self, const moert_capture_step_t* step, moert_error_t* e) {
  return begin_with(self, step, 0, e);
}

moert_code_t ends_when_told_to_abort(void* self, moert_error_t* e) {
  return capturer->end(self, e);
}

// Rows that were dropped after they had been committed read as absent.
std::map<std::pair<void*, int64_t>, int64_t> dropped;  // object and sequence -> from position
moert_code_t remembers_drops(void* self, int64_t sequence, int64_t position, moert_error_t* e) {
  dropped[{self, sequence}] = position;
  return capturer->drop(self, sequence, position, e);
}
// Another object may come to live at its address.
void forgets_drops(void* self) {
  std::erase_if(dropped, [self](const auto& entry) { return entry.first.first == self; });
  capturer->destroy(self);
}
moert_code_t hides_dropped(void* self, moert_capture_rows_t* rows, moert_error_t* e) {
  const moert_code_t code = capturer->read(self, rows, e);
  for (int64_t r = 0; code == MOERT_OK && rows->sequences != nullptr && r < rows->written; ++r) {
    const auto found = dropped.find({self, rows->sequences[r]});
    if (found != dropped.end() && rows->sequences[r] == 2 && rows->positions[r] >= found->second)
      rows->present[r] = 0;
  }
  return code;
}

// The rows before the one that is refused stay.
moert_code_t keeps_what_it_refused(void* self, const moert_capture_record_t* record,
                                   moert_error_t* e) {
  const moert_code_t code = capturer->record(self, record, e);
  if (code != MOERT_INVALID_ARGUMENT || record->layer != 1) return code;
  const auto* first = static_cast<const int32_t*>(record->ids->data);
  std::vector<int32_t> ids(first, first + element_count(*record->ids));
  ids.back() = 0;
  moert_tensor_t changed = *record->ids;
  changed.data = ids.data();
  moert_capture_record_t copy = *record;
  copy.ids = &changed;
  capturer->record(self, &copy, nullptr);
  return code;
}

moert_code_t counts_pending_rows(void* self, moert_capture_counts_t* out, moert_error_t* e) {
  const moert_code_t code = capturer->counts(self, out, e);
  out->rows += out->pending;
  return code;
}

// Of two rows of one token the first one's ids are given for both.
moert_code_t keeps_the_first_of_two(void* self, moert_capture_rows_t* rows, moert_error_t* e) {
  const moert_code_t code = capturer->read(self, rows, e);
  for (int64_t r = 0; code == MOERT_OK && rows->sequences != nullptr && r < rows->written; ++r)
    for (int64_t before = 0; before < r; ++before)
      if (rows->sequences[before] == rows->sequences[r] &&
          rows->positions[before] == rows->positions[r] && rows->layer == 0)
        std::memcpy(rows->ids + r * 2, rows->ids + before * 2, 2 * sizeof(int32_t));
  return code;
}

// 255 stands for "nothing": the mistake that an unsigned byte with a sentinel makes.
moert_code_t expert_255_is_absent(void* self, moert_capture_rows_t* rows, moert_error_t* e) {
  const moert_code_t code = capturer->read(self, rows, e);
  for (int64_t r = 0; code == MOERT_OK && rows->layer == 1 && r < rows->written; ++r)
    if (rows->present[r] != 0 && rows->ids[r * 8] == 255) rows->present[r] = 0;
  return code;
}

// --- the plugin ---------------------------------------------------------------------------------

moert_routed_experts_t own_experts;
moert_quant_method_t own_quant;
moert_capturer_t own_capturer;

// Puts the fault into a copy of the table; true if the name is one of this kind's.
bool spoil_experts(std::string_view fault) {
  const std::pair<std::string_view, Forward*> forwards[] = {
      {"padding_is_expert_0", padding_is_expert_0},
      {"weights_are_1", weights_are_1},
      {"one_byte_too_far", one_byte_too_far},
      {"padded_rows_unwritten", padded_rows_unwritten},
      {"one_token_differs", one_token_differs},
      {"nan_spreads", nan_spreads},
      {"writes_first", writes_first}};
  for (const auto& [name, forward] : forwards) {
    if (fault != name) continue;
    own_experts.forward = forward;
    return true;
  }
  if (fault == "takes_pieces_twice")
    own_experts.load = takes_pieces_twice;
  else if (fault == "says_nothing")
    own_experts.load = says_nothing;
  else if (fault == "misses_nothing")
    own_experts.finish = misses_nothing;
  else if (fault == "bundles_expert_0")
    own_experts.read_expert = bundles_expert_0;
  else if (fault == "drops_the_limit")
    own_experts.create = drops_the_limit;
  else if (fault == "situ_is_silu")
    own_experts.create = situ_is_silu;
  else if (fault == "clamps_before_the_step")
    own_experts.create = clamps_before_the_step;
  else if (fault == "ignores_flags")
    own_experts.supports = ignores_flags;
  else
    return false;
  return true;
}

bool spoil_quant(std::string_view fault) {
  if (fault == "reads_densely")
    own_quant.decode = reads_densely;
  else if (fault == "ignores_companions")
    own_quant.check = ignores_companions;
  else
    return false;
  return true;
}

bool spoil_capturer(std::string_view fault) {
  if (fault == "forgets_drops")
    own_capturer.drop = forgets_drops;
  else if (fault == "forgets_commits")
    own_capturer.commit = forgets_commits;
  else if (fault == "commits_at_once")
    own_capturer.begin = commits_at_once;
  else if (fault == "never_commits_at_end")
    own_capturer.begin = never_commits_at_end;
  else if (fault == "ends_when_told_to_abort")
    own_capturer.abort = ends_when_told_to_abort;
  else if (fault == "keeps_what_it_refused")
    own_capturer.record = keeps_what_it_refused;
  else if (fault == "counts_pending_rows")
    own_capturer.counts = counts_pending_rows;
  else if (fault == "keeps_the_first_of_two")
    own_capturer.read = keeps_the_first_of_two;
  else if (fault == "drops_what_was_committed")
    own_capturer.drop = remembers_drops, own_capturer.read = hides_dropped,
    own_capturer.destroy = forgets_drops;
  else if (fault == "expert_255_is_absent")
    own_capturer.read = expert_255_is_absent;
  else
    return false;
  return true;
}

template <class Table>
const void* spoil(const moert_feature_t& feature, const Table*& theirs, Table& own,
                  bool (*put)(std::string_view), std::string_view fault) {
  theirs = static_cast<const Table*>(feature.table);
  own = *theirs;
  return put(fault) ? &own : nullptr;
}

const void* spoiled(const moert_feature_t& feature, std::string_view fault) {
  const std::string_view kind = feature.kind;
  if (kind == MOERT_KIND_ROUTED_EXPERTS)
    return spoil(feature, experts, own_experts, spoil_experts, fault);
  if (kind == MOERT_KIND_ROUTER) return spoil(feature, router, own_router, spoil_router, fault);
  if (kind == MOERT_KIND_QUANT_METHOD) return spoil(feature, quant, own_quant, spoil_quant, fault);
  if (kind == MOERT_KIND_CAPTURER)
    return spoil(feature, capturer, own_capturer, spoil_capturer, fault);
  return nullptr;
}

const moert_plugin_t* target() {
  const char* path = std::getenv("MOERT_FAULTY_TARGET");
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : dlsym(library, MOERT_ENTRY_SYMBOL);
  if (symbol == nullptr) return nullptr;
  const moert_host_info_t host = {sizeof host, MOERT_ABI_MAJOR, MOERT_ABI_MINOR, 0, "faulty"};
  return reinterpret_cast<moert_plugin_query_fn>(symbol)(&host);
}

const moert_plugin_t* build() {
  static moert_feature_t feature;
  static const moert_feature_t* const features[] = {&feature};
  static moert_plugin_t plugin;
  const moert_plugin_t* other = target();
  const char* fault = std::getenv("MOERT_FAULT");
  for (uint32_t i = 0; other != nullptr && fault != nullptr && i < other->n_features; ++i) {
    feature = *other->features[i];
    feature.table = spoiled(feature, fault);
    if (feature.table == nullptr) continue;
    plugin = *other;
    plugin.features = features;
    plugin.n_features = 1;
    return &plugin;
  }
  return nullptr;
}

}  // namespace
}  // namespace moert::faulty

MOERT_DEFINE_NOTE("org.moert.faulty", "0.1.0", 0u);
extern "C" MOERT_EXPORT const moert_plugin_t* moert_plugin_query_v1(const moert_host_info_t*) {
  static const moert_plugin_t* const plugin = moert::faulty::build();
  return plugin;
}
