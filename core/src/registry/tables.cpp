// Which entries a kind has, and which of them a plugin may leave out (the kind's header says so).
// SPDX-License-Identifier: Apache-2.0
#include "registry/tables.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <tuple>

#include <moert/abi/capturer.h>
#include <moert/abi/device.h>
#include <moert/abi/moe_runner.h>
#include <moert/abi/pluggable_layer.h>
#include <moert/abi/quant_method.h>

namespace moert::registry {

namespace {

constexpr uint32_t kLargest = 64u << 10;  // a larger struct_size is garbage

template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&from)[N]) {
    std::copy_n(from, N, text);
  }  // implicit: a template argument
};

moert_code_t absent(const char* entry, moert_error_t* error) noexcept {
  if (error != nullptr && error->struct_size >= sizeof *error) {
    error->code = MOERT_UNIMPLEMENTED;
    error->native_code = 0;
    std::strncpy(error->where, entry, sizeof error->where - 1);
    std::strncpy(error->message, "the plugin leaves this function out", sizeof error->message - 1);
  }
  return MOERT_UNIMPLEMENTED;
}

// What stands for an entry of type F that a plugin leaves out.
template <class F, Name kName>
struct Stub;
template <class... A, Name kName>
struct Stub<moert_code_t (*)(A...), kName> {
  static moert_code_t call(A... args) noexcept {
    moert_error_t* const error = std::get<sizeof...(A) - 1>(std::tuple<A...>(args...));
    return absent(kName.text, error);
  }
};
template <class... A, Name kName>
struct Stub<void (*)(A...), kName> {
  static void call(A...) noexcept {}
};

template <auto kMember, Name kName>
struct EntryOf;
template <class Table, class F, F Table::* kMember, Name kName>
struct EntryOf<kMember, kName> {
  static bool present(const void* table) {
    return static_cast<const Table*>(table)->*kMember != nullptr;
  }
  static void fill(void* table) { static_cast<Table*>(table)->*kMember = &Stub<F, kName>::call; }
};

// quant_method.h: without this entry activations are left alone, which is not an error.
void fill_quantize_activations(void* table) {
  static_cast<moert_quant_method_t*>(table)->quantize_activations =
      [](void*, float*, int64_t, int64_t, const moert_tensor_t*, moert_error_t*) -> moert_code_t {
    return MOERT_OK;
  };
}

template <class Table>
std::shared_ptr<void> copy_table(const void* table, uint32_t bytes) {
  auto full = std::make_shared<Table>();
  std::memset(full.get(), 0, sizeof(Table));
  std::memcpy(full.get(), table, std::min<size_t>(bytes, sizeof(Table)));
  full->struct_size = sizeof(Table);
  return full;
}

std::string no_problem(const void*) { return {}; }

std::string device_problem(const void* table) {
  const auto* device = static_cast<const moert_device_t*>(table);
  return device->kind == 0 ? "its device kind is 0, it must be MOERT_DEVICE_KIND(...)" : "";
}

#define REQUIRED(Table, entry)                                                                    \
  Entry {                                                                                         \
    #entry, true, &EntryOf<&Table::entry, #entry>::present, &EntryOf<&Table::entry, #entry>::fill \
  }
#define OPTIONAL(Table, entry)                                                                     \
  Entry {                                                                                          \
    #entry, false, &EntryOf<&Table::entry, #entry>::present, &EntryOf<&Table::entry, #entry>::fill \
  }
// `last` is the last member of revision 1.
#define KIND(id, Table, last, entries, problem) \
  Kind { id, offsetof(Table, last) + sizeof(Table::last), entries, &copy_table<Table>, problem }

constexpr Entry kDevice[] = {
    REQUIRED(moert_device_t, count),
    REQUIRED(moert_device_t, info),
    REQUIRED(moert_device_t, alloc),
    REQUIRED(moert_device_t, free),
    REQUIRED(moert_device_t, alloc_host),
    REQUIRED(moert_device_t, free_host),
    REQUIRED(moert_device_t, stream_create),
    REQUIRED(moert_device_t, stream_destroy),
    REQUIRED(moert_device_t, stream_synchronize),
    REQUIRED(moert_device_t, copy_to_device),
    REQUIRED(moert_device_t, copy_to_host),
    REQUIRED(moert_device_t, copy),
    REQUIRED(moert_device_t, fill),
    REQUIRED(moert_device_t, event_create),
    REQUIRED(moert_device_t, event_destroy),
    REQUIRED(moert_device_t, event_record),
    REQUIRED(moert_device_t, event_wait),
    REQUIRED(moert_device_t, event_synchronize),
    REQUIRED(moert_device_t, event_elapsed),
    OPTIONAL(moert_device_t, graph_begin),
    OPTIONAL(moert_device_t, graph_end),
    OPTIONAL(moert_device_t, graph_launch),
    OPTIONAL(moert_device_t, graph_destroy),
};

constexpr Entry kQuantMethod[] = {
    REQUIRED(moert_quant_method_t, supports),
    REQUIRED(moert_quant_method_t, create),
    REQUIRED(moert_quant_method_t, destroy),
    REQUIRED(moert_quant_method_t, parameters),
    REQUIRED(moert_quant_method_t, round_sizes),
    REQUIRED(moert_quant_method_t, check),
    REQUIRED(moert_quant_method_t, decode),
    OPTIONAL(moert_quant_method_t, encode),
    Entry{"quantize_activations", false,
          &EntryOf<&moert_quant_method_t::quantize_activations, "quantize_activations">::present,
          &fill_quantize_activations},
};

constexpr Entry kRoutedExperts[] = {
    REQUIRED(moert_routed_experts_t, supports),    REQUIRED(moert_routed_experts_t, create),
    REQUIRED(moert_routed_experts_t, destroy),     REQUIRED(moert_routed_experts_t, load),
    REQUIRED(moert_routed_experts_t, finish),      REQUIRED(moert_routed_experts_t, workspace),
    REQUIRED(moert_routed_experts_t, forward),     OPTIONAL(moert_routed_experts_t, bundle_bytes),
    OPTIONAL(moert_routed_experts_t, read_expert), OPTIONAL(moert_routed_experts_t, write_expert),
};

constexpr Entry kRouter[] = {
    REQUIRED(moert_router_t, supports), REQUIRED(moert_router_t, create),
    REQUIRED(moert_router_t, destroy),  REQUIRED(moert_router_t, load),
    REQUIRED(moert_router_t, finish),   REQUIRED(moert_router_t, workspace),
    REQUIRED(moert_router_t, logits),   REQUIRED(moert_router_t, route),
};

constexpr Entry kSharedExperts[] = {
    REQUIRED(moert_shared_experts_t, supports), REQUIRED(moert_shared_experts_t, create),
    REQUIRED(moert_shared_experts_t, destroy),  REQUIRED(moert_shared_experts_t, load),
    REQUIRED(moert_shared_experts_t, finish),   REQUIRED(moert_shared_experts_t, workspace),
    REQUIRED(moert_shared_experts_t, forward),
};

constexpr Entry kCapturer[] = {
    REQUIRED(moert_capturer_t, supports), REQUIRED(moert_capturer_t, create),
    REQUIRED(moert_capturer_t, destroy),  REQUIRED(moert_capturer_t, begin),
    REQUIRED(moert_capturer_t, record),   REQUIRED(moert_capturer_t, end),
    REQUIRED(moert_capturer_t, abort),    REQUIRED(moert_capturer_t, drop),
    REQUIRED(moert_capturer_t, commit),   REQUIRED(moert_capturer_t, flush),
    OPTIONAL(moert_capturer_t, read),     REQUIRED(moert_capturer_t, counts),
};

constexpr Entry kMoERunner[] = {
    REQUIRED(moert_moe_runner_t, supports),        REQUIRED(moert_moe_runner_t, create),
    REQUIRED(moert_moe_runner_t, destroy),         REQUIRED(moert_moe_runner_t, load_expert),
    REQUIRED(moert_moe_runner_t, load_router),     REQUIRED(moert_moe_runner_t, load_shared),
    REQUIRED(moert_moe_runner_t, finish),          REQUIRED(moert_moe_runner_t, info),
    REQUIRED(moert_moe_runner_t, workspace),       REQUIRED(moert_moe_runner_t, forward),
    REQUIRED(moert_moe_runner_t, set_expert_map),  REQUIRED(moert_moe_runner_t, expert_map),
    REQUIRED(moert_moe_runner_t, load_statistics), OPTIONAL(moert_moe_runner_t, bundle_bytes),
    OPTIONAL(moert_moe_runner_t, read_expert),     OPTIONAL(moert_moe_runner_t, write_expert),
    OPTIONAL(moert_moe_runner_t, load_layer),
};

constexpr Entry kPluggableLayer[] = {
    REQUIRED(moert_pluggable_layer_t, supports), REQUIRED(moert_pluggable_layer_t, create),
    REQUIRED(moert_pluggable_layer_t, destroy),  REQUIRED(moert_pluggable_layer_t, load),
    REQUIRED(moert_pluggable_layer_t, finish),   REQUIRED(moert_pluggable_layer_t, workspace),
    REQUIRED(moert_pluggable_layer_t, forward),
};

constexpr Kind kKinds[] = {
    KIND(MOERT_KIND_DEVICE, moert_device_t, graph_destroy, kDevice, &device_problem),
    KIND(MOERT_KIND_QUANT_METHOD, moert_quant_method_t, quantize_activations, kQuantMethod,
         &no_problem),
    KIND(MOERT_KIND_ROUTED_EXPERTS, moert_routed_experts_t, write_expert, kRoutedExperts,
         &no_problem),
    KIND(MOERT_KIND_ROUTER, moert_router_t, route, kRouter, &no_problem),
    KIND(MOERT_KIND_SHARED_EXPERTS, moert_shared_experts_t, forward, kSharedExperts, &no_problem),
    KIND(MOERT_KIND_CAPTURER, moert_capturer_t, counts, kCapturer, &no_problem),
    KIND(MOERT_KIND_MOE_RUNNER, moert_moe_runner_t, write_expert, kMoERunner, &no_problem),
    KIND(MOERT_KIND_PLUGGABLE_LAYER, moert_pluggable_layer_t, forward, kPluggableLayer,
         &no_problem),
};

#undef REQUIRED
#undef OPTIONAL
#undef KIND

}  // namespace

const Kind* find_kind(const std::string& id) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const Kind& kind) { return id == kind.id; });
  return found == std::end(kKinds) ? nullptr : found;
}

std::vector<std::string> kind_ids() {
  std::vector<std::string> ids;
  for (const Kind& kind : kKinds) ids.emplace_back(kind.id);
  return ids;
}

std::shared_ptr<const void> take_table(const Kind& kind, const void* table, std::string& problem) {
  const auto fail = [&](std::string text) {
    problem = std::move(text);
    return std::shared_ptr<const void>();
  };
  if (table == nullptr) return fail("its table is NULL");
  if (reinterpret_cast<uintptr_t>(table) % alignof(void*) != 0)
    return fail("its table is not aligned");
  uint32_t size = 0;
  std::memcpy(&size, table, sizeof size);
  if (size < kind.revision1 || size > kLargest)
    return fail("its table has struct_size " + std::to_string(size) + ", revision 1 has " +
                std::to_string(kind.revision1));
  const std::shared_ptr<void> full = kind.copy(table, size);
  for (const Entry& entry : kind.entries) {
    if (entry.present(full.get())) continue;
    if (entry.required)
      return fail(std::string("its required function '") + entry.name + "' is NULL");
    entry.fill(full.get());
  }
  if (std::string text = kind.problem(full.get()); !text.empty()) return fail(std::move(text));
  return full;
}

}  // namespace moert::registry
