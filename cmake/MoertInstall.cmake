# Install rules, and the package that other projects find: find_package(moert), pkg-config moert.
# Components: runtime (program, library, families), plugins, dev (headers, package files).
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/moert")
set(exported moert_abi moert_sdk)
set_target_properties(moert_abi PROPERTIES EXPORT_NAME abi)
set_target_properties(moert_sdk PROPERTIES EXPORT_NAME sdk)
if(TARGET moert_shared)
  set_target_properties(moert_shared PROPERTIES EXPORT_NAME moert)
  list(APPEND exported moert_shared)
endif()

install(TARGETS ${exported} EXPORT moert-targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT dev
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/core/include/moert" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT dev FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT moert-targets NAMESPACE moert:: DESTINATION "${package_dir}" COMPONENT dev)

if(TARGET moert)
  file(RELATIVE_PATH bin_to_lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
  set_target_properties(moert PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS moert RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/configs/families" DESTINATION "${CMAKE_INSTALL_DATADIR}/moert"
  COMPONENT runtime FILES_MATCHING PATTERN "*.yaml")

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/moertConfig.cmake.in" moertConfig.cmake
  INSTALL_DESTINATION "${package_dir}" PATH_VARS MOERT_INSTALL_PLUGIN_DIR)
write_basic_package_version_file(moertConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/moertConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/moertConfigVersion.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/MoertPlugin.cmake" "${CMAKE_CURRENT_LIST_DIR}/plugin.map"
  DESTINATION "${package_dir}" COMPONENT dev)

# The .pc file finds its prefix from its own place, so an installed tree can be moved.
set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH MOERT_PC_TO_PREFIX "/prefix/${pkgconfig_dir}" "/prefix")
string(REGEX REPLACE "/$" "" MOERT_PC_TO_PREFIX "${MOERT_PC_TO_PREFIX}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/moert.pc.in" moert.pc @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/moert.pc" DESTINATION "${pkgconfig_dir}" COMPONENT dev)
