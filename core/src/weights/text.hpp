// Text from files, made fit for a message: a header may hold anything, a terminal should not see it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace moert::weights {

// `text` with control characters escaped, cut after `most` bytes.
std::string shown(std::string_view text, size_t most = 200);

}  // namespace moert::weights
