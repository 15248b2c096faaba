# Output folders and compile options.
# The build tree has the shape of an installed one, so the program finds its plugins and families
# by the same rule in both: bin/moert, lib/moert/plugins-1, share/moert.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/archive")
set(MOERT_PLUGIN_DIR "${PROJECT_BINARY_DIR}/lib/moert/plugins-1")
set(MOERT_INSTALL_PLUGIN_DIR "${CMAKE_INSTALL_LIBDIR}/moert/plugins-1")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

add_library(moert_options INTERFACE)
target_compile_options(moert_options INTERFACE
  # Of the languages of GPUs, whose compilers take other options, plugins/cuda and plugins/hip say the same.
  $<$<COMPILE_LANGUAGE:C,CXX>:
  -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wcast-qual
  # Results must not depend on whether the compiler contracts a multiply and an add.
  -ffp-contract=off
  $<$<BOOL:${MOERT_WERROR}>:-Werror>>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  # gcc 12 takes the inside of std::string for overlapping copies at -O3 (its bug 105651).
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>)
if(MOERT_SANITIZE)
  add_compile_options(-fsanitize=${MOERT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${MOERT_SANITIZE})
endif()

include(MoertPlugin)  # moert_add_plugin()
