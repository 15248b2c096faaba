# moert_add_plugin(NAME SOURCES file... [LIBRARIES lib...] [OUTPUT_DIR dir] [INSTALL_DIR dir] [NO_INSTALL])
# Makes libmoert_NAME.so with one exported symbol, no dependency on the core, and nothing undefined.
# Used here and, through find_package(moert), by projects that make plugins of their own. The target is
# moert_plugin_NAME. A project without C++ gets the C headers alone.
set(MOERT_PLUGIN_MAP "${CMAKE_CURRENT_LIST_DIR}/plugin.map")

function(moert_add_plugin name)
  cmake_parse_arguments(PLUGIN "NO_INSTALL" "OUTPUT_DIR;INSTALL_DIR" "SOURCES;LIBRARIES" ${ARGN})
  if(PLUGIN_UNPARSED_ARGUMENTS OR NOT PLUGIN_SOURCES)
    message(FATAL_ERROR "moert_add_plugin(${name}): SOURCES file... is required, and these words are not "
      "understood: '${PLUGIN_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT PLUGIN_OUTPUT_DIR)
    set(PLUGIN_OUTPUT_DIR "${MOERT_PLUGIN_DIR}")
  endif()
  if(NOT PLUGIN_INSTALL_DIR)
    set(PLUGIN_INSTALL_DIR "${MOERT_INSTALL_PLUGIN_DIR}")
  endif()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  set(headers moert::abi)
  if(CXX IN_LIST languages)
    set(headers moert::sdk)
  endif()
  set(target moert_plugin_${name})
  add_library(${target} MODULE ${PLUGIN_SOURCES})
  target_link_libraries(${target} PRIVATE
    ${headers} $<TARGET_NAME_IF_EXISTS:moert_options> ${PLUGIN_LIBRARIES})
  set_target_properties(${target} PROPERTIES
    PREFIX lib OUTPUT_NAME "moert_${name}" POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    INSTALL_RPATH "" LINK_DEPENDS "${MOERT_PLUGIN_MAP}")
  if(PLUGIN_OUTPUT_DIR)
    set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PLUGIN_OUTPUT_DIR}")
  endif()
  target_link_options(${target} PRIVATE
    "-Wl,--version-script=${MOERT_PLUGIN_MAP}" -Wl,--exclude-libs,ALL
    -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now)
  if(NOT MOERT_SANITIZE)  # the sanitizer's own symbols come from the program
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  if(NOT PLUGIN_NO_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION "${PLUGIN_INSTALL_DIR}" COMPONENT plugins)
  endif()
endfunction()
