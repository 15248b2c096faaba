# cmake -DHEADER=moert/abi/x.h -DFILE=... -DINCLUDE=... -DSCRATCH=... -DCOMPILERS=cc|c++|...
#       -DSTANDARDS=c11,... -DFLAGS=... -P compile_header.cmake
# Compiles the header alone, twice included, in every standard with every compiler. Compilers are
# separated by "|": the C compiler, then the C++ compiler of one family, and so on.
string(REPLACE "|" ";" compilers "${COMPILERS}")
string(REPLACE "," ";" standards "${STANDARDS}")
separate_arguments(flags UNIX_COMMAND "${FLAGS}")

# clang lays a struct out, and so warns of padding, only where its size is asked for.
set(source "#include <${HEADER}>\n#include <${HEADER}>\n")
file(READ "${FILE}" text)
string(REGEX MATCHALL "typedef struct [a-z_0-9]+ {" structs "${text}")
foreach(found ${structs})
  string(REGEX REPLACE "typedef struct ([a-z_0-9]+) {" "\\1" name "${found}")
  string(APPEND source "extern char size_of_${name}[sizeof(${name}_t)];\n")
endforeach()
if(text MATCHES "define MOERT_DEFINE_NOTE")
  string(APPEND source "MOERT_DEFINE_NOTE(\"org.example.header\", \"1.0.0\", 0u);\n")
endif()

set(failed FALSE)
set(tried 0)
foreach(standard ${standards})
  set(extension c)
  set(offset 0)
  if(standard MATCHES "\\+\\+")
    set(extension cpp)
    set(offset 1)
  endif()
  file(WRITE "${SCRATCH}.${extension}" "${source}")
  list(LENGTH compilers count)
  math(EXPR last "${count} / 2 - 1")
  foreach(family RANGE ${last})
    math(EXPR index "${family} * 2 + ${offset}")
    list(GET compilers ${index} compiler)
    execute_process(
      COMMAND "${compiler}" -std=${standard} -I "${INCLUDE}" ${flags} -fsyntax-only "${SCRATCH}.${extension}"
      RESULT_VARIABLE code ERROR_VARIABLE errors)
    math(EXPR tried "${tried} + 1")
    if(NOT code EQUAL 0)
      message("${compiler} -std=${standard}:\n${errors}")
      set(failed TRUE)
    endif()
  endforeach()
endforeach()
if(failed OR tried EQUAL 0)
  message(FATAL_ERROR "${HEADER} does not compile alone everywhere (${tried} ways tried)")
endif()
