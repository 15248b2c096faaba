# The sources that every backend compiles. Host sources are C++20 for the C++ compiler; kernel sources are C++17, in
# the backend's own language.
set(MOERT_GPU_DIR "${CMAKE_CURRENT_LIST_DIR}")
set(MOERT_GPU_HOST_SOURCES
  device.cpp
  device_memory.cpp
  faults.cpp
  prepare.cpp
  tensors.cpp
  capture/memory.cpp
  capture/turns.cpp
  dense/numbers.cpp
  upload.cpp
  experts/activation.cpp
  experts/experts.cpp
  experts/formats.cpp
  experts/gemm.cpp
  experts/input_scales.cpp
  experts/mlp_problem.cpp
  experts/mlps.cpp
  experts/packed.cpp
  experts/pieces.cpp
  experts/row_rule.cpp
  experts/shared.cpp
  experts/special.cpp
  experts/treatment.cpp
  experts/weight_source.cpp
  router/params.cpp
  router/router.cpp
  router/rule.cpp
  router/simulated.cpp
  router/tensors.cpp
  runner/expert_map.cpp
  runner/forward.cpp
  runner/runner.cpp
  runner/space.cpp
)
set(MOERT_GPU_KERNEL_SOURCES
  capture/record.cu
  dense/factors.cu
  experts/combine.cu
  experts/gemm_bf16.cu
  experts/gemm_f32.cu
  experts/gemm_fp8.cu
  experts/gemm_mxfp4.cu
  experts/pack.cu
  experts/plan.cu
  experts/rows.cu
  router/logits.cu
  router/route.cu
  runner/stages.cu
)
list(TRANSFORM MOERT_GPU_HOST_SOURCES PREPEND "${MOERT_GPU_DIR}/")
list(TRANSFORM MOERT_GPU_KERNEL_SOURCES PREPEND "${MOERT_GPU_DIR}/")
