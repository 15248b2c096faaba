# cmake -DPROGRAM=... -DSNAPSHOT=... -DACTUAL=... -P compare_layout.cmake
# Fails with a diff where what PROGRAM prints is not what stands in SNAPSHOT.
execute_process(COMMAND "${PROGRAM}" OUTPUT_FILE "${ACTUAL}" RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${code}")
endif()
execute_process(COMMAND diff -u "${SNAPSHOT}" "${ACTUAL}" RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "The layout of the ABI has changed. While the ABI is a draft and the change is "
    "meant:\n  cp ${ACTUAL} ${SNAPSHOT}\nand say why in the commit. Once it is frozen, lines are only "
    "added: docs/abi.md.")
endif()
