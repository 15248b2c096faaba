// Which tests a kind of feature gets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "suite.hpp"

namespace moert::conformance {

void add_device_tests(const Feature& feature);
void add_experts_tests(const Feature& feature);
void add_router_tests(const Feature& feature);
void add_shared_tests(const Feature& feature);
void add_quant_tests(const Feature& feature);
void add_capturer_tests(const Feature& feature);
void add_runner_tests(const Feature& feature);

// 1 if the suite judges this kind, else 0.
int add_tests(const Feature& feature);

}  // namespace moert::conformance
