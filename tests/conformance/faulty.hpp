// The parts of the plugin that has a fault.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/capturer.h>
#include <moert/abi/device.h>
#include <moert/abi/moe_runner.h>
#include <moert/abi/quant_method.h>
#include <moert/abi/routed_experts.h>
#include <moert/abi/router.h>
#include <moert/abi/shared_experts.h>

#include <string_view>

namespace moert::faulty {

// The table of the other plugin's feature that has the fault, and a copy of it for the fault.
extern const moert_routed_experts_t* experts;
extern moert_routed_experts_t own_experts;
extern const moert_shared_experts_t* shared;
extern moert_shared_experts_t own_shared;
extern const moert_router_t* router;
extern moert_router_t own_router;
extern const moert_quant_method_t* quant;
extern moert_quant_method_t own_quant;
extern const moert_capturer_t* capturer;
extern moert_capturer_t own_capturer;
extern const moert_moe_runner_t* runner;
extern moert_moe_runner_t own_runner;
// Of the device the first table is there whichever feature has the fault; NULL: the other plugin has no device.
extern const moert_device_t* device;
extern moert_device_t own_device;

// Between graph_begin and graph_end of that device, where the fault is one that watches it.
extern bool recording;
// Of faulty_runner.cpp: a launch whose runner has the expert map that it had when it was recorded.
moert_code_t launches_with_the_map_recorded(const moert_stream_t* stream, void* graph,
                                            moert_error_t* e);

// The table of the other plugin's first feature of a kind, or NULL.
const void* table_of(std::string_view kind);

// Each puts the fault into the copy; true if the name is one of its kind's. A fault may be of several kinds.
bool spoil_experts(std::string_view fault);
bool spoil_shared(std::string_view fault);
bool spoil_router(std::string_view fault);
bool spoil_quant(std::string_view fault);
bool spoil_capturer(std::string_view fault);
bool spoil_runner(std::string_view fault);
bool spoil_device(std::string_view fault);

}  // namespace moert::faulty
