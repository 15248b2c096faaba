// The style (*.css) and the script (report.js) as they stand in the page: embed.cmake makes the source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace moert::report {

extern const std::string_view kStyle, kScript;
// SHA-256 in base64, as a Content-Security-Policy names what it lets through.
extern const std::string_view kStyleDigest, kScriptDigest;

}  // namespace moert::report
