// Base64 of RFC 4648: the usual alphabet, padded, without line breaks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace moert::capture {

std::string base64(std::string_view bytes);

// False if `text` is not what base64() makes of some bytes; `problem` then says why.
bool from_base64(std::string_view text, std::string* bytes, std::string* problem);

}  // namespace moert::capture
