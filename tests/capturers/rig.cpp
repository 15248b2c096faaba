// SPDX-License-Identifier: Apache-2.0
#include "capturers/rig.hpp"

#include <algorithm>
#include <moert/sdk/tensor.hpp>
#include <stdexcept>

#include "loader/loader.hpp"
#include "runtime/host_services.hpp"

namespace moert::capture::testing {
namespace {

const moert_capturer_t* table_of(const std::string& feature) {
  static const loader::Result result = [] {
    loader::Options options;
    options.search.push_back({MOERT_CAPTURE_PLUGIN, "test"});
    return loader::load(options, ignore_log);
  }();
  for (const loader::Plugin& plugin : result.plugins)
    for (uint32_t i = 0; i < plugin.descriptor.n_features; ++i)
      if (feature == plugin.descriptor.features[i]->name)
        return static_cast<const moert_capturer_t*>(plugin.descriptor.features[i]->table);
  throw std::runtime_error("no feature " + feature + " in " MOERT_CAPTURE_PLUGIN);
}

const moert_host_t* host() {
  static runtime::HostServices services(1, ignore_log);
  return services.table();
}

uint64_t mixed(RowKey token, int64_t layer_id, int64_t slot) {
  uint64_t x = static_cast<uint64_t>(token.sequence) * 0x9e3779b97f4a7c15u +
               static_cast<uint64_t>(token.position);
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u + static_cast<uint64_t>(layer_id);
  x = (x ^ (x >> 32)) * 0x94d049bb133111ebu + static_cast<uint64_t>(slot);
  return x ^ (x >> 31);
}

}  // namespace

::testing::AssertionResult went_well(const Answer& answer) {
  if (answer.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "code " << answer.code << ": " << answer.message;
}

Model wide_model() {
  Model model;
  model.layer_ids.clear();
  for (int64_t layer = 0; layer < 60; ++layer) model.layer_ids.push_back(layer);
  model.experts.assign(60, 384);
  model.k.assign(60, 8);
  model.what = MOERT_CAPTURE_IDS;
  return model;
}

int32_t id_of(RowKey token, int64_t layer_id, int64_t slot, int64_t experts) {
  return static_cast<int32_t>(mixed(token, layer_id, slot) % static_cast<uint64_t>(experts));
}
float weight_of(RowKey token, int64_t layer_id, int64_t slot) {
  return static_cast<float>(mixed(token, layer_id, slot) >> 48);
}
float margin_of(RowKey token, int64_t layer_id) {
  return static_cast<float>(mixed(token, layer_id, -1) >> 48);
}

std::vector<RowKey> tokens(int64_t sequence, int64_t first, int64_t count) {
  std::vector<RowKey> all;
  for (int64_t i = 0; i < count; ++i) all.push_back({sequence, first + i});
  return all;
}

template <class Call>
Answer Capturer::call(const Call& body) {
  moert_error_t error{};
  error.struct_size = sizeof error;
  const moert_code_t code = body(&error);
  return {code, code == MOERT_OK ? "" : error.message};
}

Capturer::Capturer(const std::string& feature, const Options& options, Model model)
    : table_(table_of(feature)), model_(std::move(model)) {
  std::vector<moert_kv_t> entries;
  for (const auto& [key, value] : options) entries.push_back({key.c_str(), value.c_str()});
  const moert_kv_t facts[] = {{"model", "rig"}, {"hidden_layers", "7"}, {"simulated", "zipf"}};
  const moert_capture_spec_t spec = {sizeof spec,
                                     model_.what,
                                     kCpu,
                                     model_.max_tokens,
                                     static_cast<uint32_t>(model_.layer_ids.size()),
                                     0,
                                     model_.layer_ids.data(),
                                     model_.experts.data(),
                                     model_.k.data(),
                                     facts,
                                     3,
                                     0};
  created_ = call([&](auto* e) {
    return table_->create(host(), &spec, entries.data(), static_cast<uint32_t>(entries.size()),
                          &self_, e);
  });
}

void Capturer::close() {
  if (self_ != nullptr) table_->destroy(std::exchange(self_, nullptr));
}

Answer Capturer::step(const std::vector<RowKey>& tokens, bool commit) {
  return step_of(tokens, commit, UINT32_MAX);
}
Answer Capturer::step_without(const std::vector<RowKey>& tokens, uint32_t layer) {
  return step_of(tokens, true, layer);
}

Answer Capturer::step_of(const std::vector<RowKey>& tokens, bool commit, uint32_t but_layer) {
  std::vector<int64_t> sequences, positions;
  for (const RowKey& token : tokens) {
    sequences.push_back(token.sequence);
    positions.push_back(token.position);
  }
  const moert_capture_step_t step = {sizeof step,
                                     commit ? uint32_t{MOERT_CAPTURE_STEP_COMMIT} : 0u,
                                     static_cast<int64_t>(tokens.size()),
                                     nullptr,
                                     sequences.data(),
                                     positions.data()};
  Answer answer = call([&](auto* e) { return table_->begin(self_, &step, e); });
  if (!answer.ok()) return answer;
  for (uint32_t layer = 0; layer < model_.layer_ids.size() && answer.ok(); ++layer)
    if (layer != but_layer) answer = record(tokens, layer);
  const Answer end = call([&](auto* e) { return table_->end(self_, e); });
  return answer.ok() ? end : answer;
}

Answer Capturer::record(const std::vector<RowKey>& tokens, uint32_t layer) {
  const int64_t k = model_.k[layer], id = model_.layer_ids[layer];
  const auto rows = static_cast<int64_t>(tokens.size());
  ids_.clear();
  weights_.clear();
  margins_.clear();
  for (const RowKey& token : tokens) {
    for (int64_t j = 0; j < k; ++j) {
      ids_.push_back(id_of(token, id, j, model_.experts[layer]));
      weights_.push_back(weight_of(token, id, j));
    }
    margins_.push_back(margin_of(token, id));
  }
  const TensorView ids(ids_.data(), MOERT_DTYPE_I32, {rows, k});
  const TensorView weights(weights_.data(), MOERT_DTYPE_F32, {rows, k});
  const TensorView margins(margins_.data(), MOERT_DTYPE_F32, {rows});
  const moert_capture_record_t record = {sizeof record, 0, layer, 0, ids, weights, margins};
  return call([&](auto* e) { return table_->record(self_, &record, e); });
}

Answer Capturer::commit(int64_t sequence, int64_t position) {
  return call([&](auto* e) { return table_->commit(self_, sequence, position, e); });
}
Answer Capturer::drop(int64_t sequence, int64_t position) {
  return call([&](auto* e) { return table_->drop(self_, sequence, position, e); });
}
Answer Capturer::flush() {
  return call([&](auto* e) { return table_->flush(self_, e); });
}

moert_capture_counts_t Capturer::counts() {
  moert_capture_counts_t counts{};
  counts.struct_size = sizeof counts;
  EXPECT_OK(call([&](auto* e) { return table_->counts(self_, &counts, e); }));
  return counts;
}

std::vector<Capturer::ReadRow> Capturer::read_all(int64_t piece) {
  const int64_t total = counts().rows;
  std::vector<ReadRow> rows(static_cast<size_t>(total));
  for (int64_t first = 0; first <= total; first += piece)
    for (uint32_t layer = 0; layer < model_.layer_ids.size(); ++layer)
      read_piece(layer, first, piece, rows);
  return rows;
}

void Capturer::read_piece(uint32_t layer, int64_t first, int64_t piece, std::vector<ReadRow>& all) {
  const int64_t k = model_.k[layer], id = model_.layer_ids[layer];
  const auto n = static_cast<size_t>(piece);
  std::vector<int32_t> ids(n * static_cast<size_t>(k));
  std::vector<float> weights(ids.size()), margins(n);
  std::vector<uint8_t> present(n);
  std::vector<int64_t> sequences(n), positions(n);
  const bool more = (model_.what & MOERT_CAPTURE_WEIGHTS) != 0;
  moert_capture_rows_t rows = {sizeof rows,
                               layer,
                               first,
                               piece,
                               ids.data(),
                               more ? weights.data() : nullptr,
                               more ? margins.data() : nullptr,
                               present.data(),
                               sequences.data(),
                               positions.data(),
                               -1};
  EXPECT_OK(call([&](auto* e) { return table_->read(self_, &rows, e); }));
  EXPECT_EQ(rows.written, std::clamp<int64_t>(static_cast<int64_t>(all.size()) - first, 0, piece));
  for (int64_t r = 0; r < rows.written; ++r) {
    const auto i = static_cast<size_t>(r);
    const RowKey token = {sequences[i], positions[i]};
    ReadRow& row = all.at(static_cast<size_t>(first + r));
    if (layer == 0) row = {token, present[i] != 0};
    EXPECT_EQ(row.token, token) << "row " << first + r << " of layer index " << layer;
    EXPECT_EQ(row.present, present[i] != 0) << "row " << first + r << " of layer index " << layer;
    bool right = true;
    for (int64_t j = 0; j < k && present[i] != 0; ++j) {
      const auto at = static_cast<size_t>(r * k + j);
      right &= ids[at] == id_of(token, id, j, model_.experts[layer]);
      if (more) right &= weights[at] == weight_of(token, id, j);
    }
    if (more && present[i] != 0) right &= margins[i] == margin_of(token, id);
    EXPECT_TRUE(right) << "row " << first + r << " of layer index " << layer << " is another's";
  }
}

}  // namespace moert::capture::testing
