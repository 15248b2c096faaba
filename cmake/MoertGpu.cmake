# Decides which GPU backends are built, and says in one line each why or why not. Sets MOERT_HAVE_CUDA and
# MOERT_HAVE_HIP, and enables the languages. Included in file scope: languages cannot be enabled in a function.
set(MOERT_CUDA_ARCHITECTURES "" CACHE STRING "CUDA architectures as CMake names them; empty: what cmake/MoertCuda.cmake says")
set(MOERT_HIP_ARCHITECTURES "" CACHE STRING "HIP architectures, e.g. gfx90a;gfx942; empty: what cmake/MoertHip.cmake says")

# moert_gpu_say(TEXT): a line of the log, and of gpu-backends.txt in the build folder.
file(REMOVE "${PROJECT_BINARY_DIR}/gpu-backends.txt")
function(moert_gpu_say text)
  message(STATUS "MoERT: ${text}")
  file(APPEND "${PROJECT_BINARY_DIR}/gpu-backends.txt" "${text}\n")
endfunction()

# moert_gpu_absent(NAME REASON): the backend is left out; where it was asked for, that is an error.
function(moert_gpu_absent name reason)
  if(MOERT_ENABLE_${name} STREQUAL "ON")
    message(FATAL_ERROR "MoERT: MOERT_ENABLE_${name}=ON, but ${reason}")
  endif()
  moert_gpu_say("${name} backend no: ${reason}")
endfunction()

# moert_gpu_probe(RESULT COMPILER ARGUMENT...): compiles a program with an empty kernel with these arguments, and links
# it where they have no -c. RESULT is empty where that works, else the first line of the compiler's that tells of an error.
function(moert_gpu_probe result compiler)
  set(kernel "${PROJECT_BINARY_DIR}/CMakeFiles/moert_probe.cu")
  file(WRITE "${kernel}" "__attribute__((global)) void probe() {}\nint main() { return 0; }\n")
  execute_process(COMMAND "${compiler}" ${ARGN} -std=c++17 "${kernel}" -o "${kernel}.o"
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  set(${result} "" PARENT_SCOPE)
  if(NOT code STREQUAL "0")
    string(REGEX MATCH "[^\n]*(error|fatal|cannot find|undefined reference)[^\n]*" line "${text}")
    if(NOT line)
      set(line "exit code ${code}")
    endif()
    set(${result} "${line}" PARENT_SCOPE)
  endif()
endfunction()

# What holds for both before anything is looked for.
function(moert_gpu_wanted result name)
  string(TOUPPER "${MOERT_ENABLE_${name}}" value)
  set(MOERT_ENABLE_${name} "${value}" PARENT_SCOPE)
  set(MOERT_HAVE_${name} OFF PARENT_SCOPE)
  set(${result} OFF PARENT_SCOPE)
  if(NOT value MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "MoERT: MOERT_ENABLE_${name}=${MOERT_ENABLE_${name}}, expected AUTO, ON or OFF")
  elseif(value STREQUAL "OFF")
    moert_gpu_absent(${name} "MOERT_ENABLE_${name}=OFF")
  elseif(MOERT_SANITIZE)
    moert_gpu_absent(${name} "MOERT_SANITIZE=${MOERT_SANITIZE}, and GPU code is not built with sanitizers")
  else()
    set(${result} ON PARENT_SCOPE)
  endif()
endfunction()

# moert_gpu_kernels(TARGET LANGUAGE): what targets with kernels have in common. With tests, what the compiler says about
# each kernel's registers is kept beside its object (OBJECT.resources), for the tests to read.
function(moert_gpu_kernels target language)
  target_include_directories(${target} PRIVATE port)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
    ${language}_STANDARD 17 ${language}_STANDARD_REQUIRED ON ${language}_EXTENSIONS OFF
    ${language}_VISIBILITY_PRESET hidden)
  if(MOERT_BUILD_TESTS)
    set_target_properties(${target} PROPERTIES
      RULE_LAUNCH_COMPILE "\"${PROJECT_SOURCE_DIR}/tests/toolkits/keep_resources\" <OBJECT>")
  endif()
endfunction()

# moert_gpu_plugin(NAME LANGUAGE KIND): what the plugins of both languages have in common. KIND is that of their devices.
function(moert_gpu_plugin name language kind)
  set(target moert_plugin_${name})
  list(JOIN CMAKE_${language}_ARCHITECTURES "," architectures)
  target_compile_definitions(${target} PRIVATE
    MOERT_GPU_WORD="${name}" MOERT_GPU_KIND="${kind}" MOERT_GPU_ARCHITECTURES="${architectures}")
  moert_gpu_kernels(${target} ${language})
  # The C++ compiler links, so that nothing of a toolkit's own folders gets into the file.
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX SKIP_BUILD_RPATH ON)
endfunction()

# moert_gpu_add_objects(PLUGIN TARGET): links an object library into the plugin, and into what else is made of its objects.
function(moert_gpu_add_objects plugin target)
  target_sources(${plugin} PRIVATE $<TARGET_OBJECTS:${target}>)
  set_property(TARGET ${plugin} APPEND PROPERTY MOERT_MORE_OBJECTS $<TARGET_OBJECTS:${target}>)
endfunction()

moert_gpu_wanted(MOERT_WANT_CUDA CUDA)
if(MOERT_WANT_CUDA)
  include(MoertCuda)
endif()
moert_gpu_wanted(MOERT_WANT_HIP HIP)
if(MOERT_WANT_HIP)
  # CMake keeps one prologue of precompiled headers for all languages, and clang's is not g++'s.
  set(prologue "${CMAKE_PCH_PROLOGUE}")
  include(MoertHip)
  set(CMAKE_PCH_PROLOGUE "${prologue}")
endif()
