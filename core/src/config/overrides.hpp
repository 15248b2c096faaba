// Values that stand above a file: flags, --set, environment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/config.hpp"
#include "config/yaml_node.hpp"

namespace moert::config {

// Puts an override into a document; it must be checked afterwards, which also finds keys that do not
// exist. A value of null takes the key out, so that its default applies. Throws Error(usage).
void apply(YamlNode& document, const Override& override_);

// "device" and "spec.device" are the same key: this is the second form.
std::string full_key(const std::string& key);

}  // namespace moert::config
