# cmake -DCOMPILER=... -DOPTIONS=... -DSOURCES=a.cu;b.cu -DSCRATCH=folder -DNAME=gfx942 -DKERNEL=regex
#       -DFOREIGN=regex -P compile_device.cmake
# Compiles the device code of kernels to the instructions of an architecture that no plugin is built for here. Of each
# source, what the compiler writes or says must tell of no function that somebody else would have to give; all together
# must have a kernel.
file(MAKE_DIRECTORY "${SCRATCH}")
set(kernels 0)
foreach(source ${SOURCES})
  get_filename_component(base "${source}" NAME_WE)
  set(output "${SCRATCH}/${base}.out")
  execute_process(COMMAND "${COMPILER}" ${OPTIONS} "${source}" -o "${output}"
    RESULT_VARIABLE code ERROR_VARIABLE said)
  if(NOT code STREQUAL "0")
    message(SEND_ERROR "${source} for ${NAME}:\n${said}")
    continue()
  endif()
  file(WRITE "${output}.said" "${said}")
  foreach(file "${output}" "${output}.said")
    file(STRINGS "${file}" found REGEX "${KERNEL}")
    list(LENGTH found count)
    math(EXPR kernels "${kernels} + ${count}")
    file(STRINGS "${file}" foreign REGEX "${FOREIGN}")
    if(foreign)
      message(SEND_ERROR "${source} for ${NAME} leaves open: ${foreign}")
    endif()
  endforeach()
endforeach()
if(kernels EQUAL 0)
  message(SEND_ERROR "no source has a kernel for ${NAME}")
endif()
message(STATUS "${kernels} kernels for ${NAME}")
