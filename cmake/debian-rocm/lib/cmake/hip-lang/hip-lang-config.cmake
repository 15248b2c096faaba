# What CMake's HIP language asks ROCm for, answered for Debian's packages: the runtime library, and a target that
# everything with HIP sources is linked with.
if(NOT TARGET hip-lang::device)
  file(GLOB runtime "/usr/lib/*/libamdhip64.so")
  add_library(hip-lang::amdhip64 SHARED IMPORTED)
  set_target_properties(hip-lang::amdhip64 PROPERTIES IMPORTED_LOCATION "${runtime}")
  add_library(hip-lang::host INTERFACE IMPORTED)
  target_link_libraries(hip-lang::host INTERFACE hip-lang::amdhip64)
  add_library(hip-lang::device INTERFACE IMPORTED)
  target_link_libraries(hip-lang::device INTERFACE hip-lang::host)
  target_link_options(hip-lang::device INTERFACE "$<$<LINK_LANGUAGE:HIP>:--hip-link>")
endif()
set(_CMAKE_HIP_DEVICE_RUNTIME_TARGET hip-lang::device)
