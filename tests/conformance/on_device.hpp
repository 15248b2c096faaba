// Tests of features on a device whose memory the host cannot read; on the processor there are none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plugin.hpp"

namespace moert::conformance {

void add_experts_on_device(const Feature& feature);
void add_router_on_device(const Feature& feature);

}  // namespace moert::conformance
