# cmake -DNM=nm -DOBJDUMP=objdump -DOBJECTS=a.o;b.o [-DSANITIZED=ON] -P check_objects.cmake
# Objects that are compiled for more than every processor has must not define anything that the linker may take for
# another object's: an inline function of the standard library with wide instructions would then run everywhere. Nor
# may anything in them run when the library is opened.
set(checked 0)
foreach(object ${OBJECTS})
  if(NOT object MATCHES "simd/a[vm]x[^/]*\\.o$")
    continue()
  endif()
  math(EXPR checked "${checked} + 1")
  execute_process(COMMAND "${NM}" -C --defined-only "${object}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [WVuwv] [^\n]*" shared "${symbols}")
  list(FILTER shared EXCLUDE REGEX "__odr_asan|__asan|DW\\.ref\\.")
  if(shared)
    message(SEND_ERROR "${object} defines what other objects may define as well: ${shared}")
  endif()
  execute_process(COMMAND "${OBJDUMP}" -h "${object}" OUTPUT_VARIABLE sections COMMAND_ERROR_IS_FATAL ANY)
  if(NOT SANITIZED AND sections MATCHES "\\.(init_array|ctors)")
    message(SEND_ERROR "${object} has code that runs when the library is opened")
  endif()
endforeach()
if(checked LESS 3)
  message(FATAL_ERROR "${checked} objects of wide instructions were found, expected 3: ${OBJECTS}")
endif()
