# cmake -DCLANG=... -DBITCODE=folder -DSCRATCH=folder -P probe_hip.cmake
# A ROCm of which the runtime library is not there for the linker: the backend is left out, with one line that says why.
# With an empty file for the library the same.
get_filename_component(clang "${CLANG}" REALPATH)
set(rocm "${SCRATCH}/rocm")
file(REMOVE_RECURSE "${SCRATCH}")
file(MAKE_DIRECTORY "${rocm}/llvm/bin" "${rocm}/lib/cmake/hip-lang" "${rocm}/amdgcn")
file(CREATE_LINK "${clang}" "${rocm}/llvm/bin/clang++" SYMBOLIC)
file(CREATE_LINK /usr/include "${rocm}/include" SYMBOLIC)
file(CREATE_LINK "${BITCODE}" "${rocm}/amdgcn/bitcode" SYMBOLIC)
file(WRITE "${rocm}/lib/cmake/hip-lang/hip-lang-config.cmake" "message(FATAL_ERROR \"ROCm is used\")\n")
foreach(library missing empty)
  if(library STREQUAL "empty")
    file(WRITE "${rocm}/lib/libamdhip64.so" "")
  endif()
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env --unset=HIPCXX "ROCM_PATH=${rocm}"
      "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/probe_hip" -B "${SCRATCH}/${library}"
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT code STREQUAL "0")
    message(SEND_ERROR "the library is ${library}: cmake ends with ${code}:\n${text}")
  elseif(NOT text MATCHES "MoERT: HIP backend no: [^\n]* does not compile and link for [^\n]*(amdhip64|__hip)")
    message(SEND_ERROR "the library is ${library}, and this does not say so:\n${text}")
  endif()
endforeach()
