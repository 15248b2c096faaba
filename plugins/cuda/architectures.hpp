// Which devices the kernels of a build serve, told by the build's list of architectures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace moert::gpu {

// An entry of CMake's CUDA_ARCHITECTURES: "89", "90a-real", "100f-virtual".
struct Architecture {
  int number = 0;      // 10 * major + minor
  char variant = ' ';  // 'a': this device alone; 'f': its family; ' ': any that comes later
  bool code = true, ptx = true;

  // Code runs on devices of its own major version; PTX is compiled by the driver for later ones too.
  bool serves(int major, int minor) const {
    const int device = 10 * major + minor;
    if (variant == 'a') return device == number;
    const bool same_major = major == number / 10;
    return device >= number && (same_major || (ptx && variant == ' '));
  }
};

// Of "80-real,89,90a-real".
inline std::vector<Architecture> parsed(std::string_view list) {
  std::vector<Architecture> all;
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(entry.size() < list.size() ? entry.size() + 1 : list.size());
    Architecture one;
    const char* begin = entry.data();
    const char* end = begin + entry.size();
    const char* rest = std::from_chars(begin, end, one.number).ptr;
    if (rest != end && *rest != '-') one.variant = *rest++;
    const std::string_view kind(rest, static_cast<size_t>(end - rest));
    one.code = kind != "-virtual";
    one.ptx = kind != "-real";
    all.push_back(one);
  }
  return all;
}

// "sm_80, sm_89 and later, sm_90a"
inline std::string names(const std::vector<Architecture>& all) {
  std::string text;
  for (const Architecture& one : all) {
    text += (text.empty() ? "sm_" : ", sm_") + std::to_string(one.number);
    if (one.variant != ' ') text += one.variant;
    if (one.ptx && one.variant == ' ') text += " and later";
  }
  return text;
}

}  // namespace moert::gpu
