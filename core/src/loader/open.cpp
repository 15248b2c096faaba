// The only user of Boost.DLL: opens a library and finds its entry.
// SPDX-License-Identifier: Apache-2.0
#define BOOST_DLL_USE_STD_FS
#include "loader/open.hpp"

#include <dlfcn.h>

#include <string_view>

#include <boost/dll/shared_library.hpp>

namespace moert::loader {

namespace {

// Boost has no mode for "never unmap", but hands the bits on as they are.
boost::dll::load_mode::type open_mode() {
  namespace load_mode = boost::dll::load_mode;
  return static_cast<load_mode::type>(load_mode::rtld_now | load_mode::rtld_local | RTLD_NODELETE);
}

// Boost wraps the dynamic linker's sentence in words of its own.
std::string linker_text(std::string_view text) {
  constexpr std::string_view kBegin = "(dlerror system message: ";
  if (const size_t at = text.find(kBegin); at != std::string_view::npos) {
    text.remove_prefix(at + kBegin.size());
    text = text.substr(0, text.rfind(')'));
  }
  return std::string(text);
}

}  // namespace

Opened open_library(const std::filesystem::path& path) {
  Opened result;
  const FloatGuard guard;
  try {
    boost::dll::shared_library library;
    library.load(path, open_mode());
    result.mapped = true;
    if (library.has(MOERT_ENTRY_SYMBOL))
      result.query =
          &library.get<const moert_plugin_t*(const moert_host_info_t*)>(MOERT_ENTRY_SYMBOL);
  } catch (const std::exception& e) {
    if (!result.mapped) result.error = linker_text(e.what());
  } catch (...) {
    if (!result.mapped) result.error = "one of its constructors threw an exception";
  }
  return result;
}

}  // namespace moert::loader
