// SPDX-License-Identifier: Apache-2.0
#include "util/self.hpp"

#include <dlfcn.h>
#include <link.h>

namespace moert {

std::filesystem::path running_object() {
  Dl_info info{};
  link_map* map = nullptr;
  const void* here = reinterpret_cast<const void*>(&running_object);
  if (::dladdr1(here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 ||
      map == nullptr)
    return {};
  // The program itself has no name there, and its argv[0] may be relative to a folder long left.
  const std::filesystem::path file = map->l_name[0] == '\0' ? "/proc/self/exe" : map->l_name;
  std::error_code ignored;
  return std::filesystem::canonical(file, ignored);
}

}  // namespace moert
