// plugins/gpu/runtime.hpp over the HIP runtime of ROCm.
// SPDX-License-Identifier: Apache-2.0
#include "../gpu/runtime.hpp"

#include <hip/hip_runtime_api.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "../gpu/backend.hpp"
#include "../gpu/toolkit/enqueue.hpp"
#include "architectures.hpp"

#define GPU(name) hip##name
#include "../gpu/toolkit/calls.inc"

namespace moert::gpu {

const Backend kBackend = {MOERT_GPU_WORD, kDeviceKind};

namespace {

constexpr char kDriver[] = "/dev/kfd";
constexpr char kArchitectures[] = MOERT_GPU_ARCHITECTURES;

[[noreturn]] void unavailable(const std::string& why, hipError_t error = hipSuccess) {
  throw PluginError(MOERT_UNAVAILABLE, why, error);
}

// The variables by which a user hides devices, where they are set.
std::string hidden_by() {
  std::string text;
  for (const char* name : {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
    if (const char* value = std::getenv(name); value != nullptr)
      text += std::string(", ") + name + " is '" + value + "'";
  return text;
}

int devices_of_driver() {
  int count = 0;
  const hipError_t error = hipGetDeviceCount(&count);
  if (error == hipSuccess && count > 0) return count;
  static_cast<void>(hipGetLastError());
  if (access(kDriver, F_OK) != 0)
    unavailable(std::string("no AMD GPU driver: ") + kDriver + " is not there", error);
  if (access(kDriver, R_OK | W_OK) != 0)
    unavailable(std::string(kDriver) + " may not be opened: the user is not in its group", error);
  if (error == hipErrorInsufficientDriver)
    unavailable("the AMD GPU driver is too old for this ROCm", error);
  if (error != hipSuccess && error != hipErrorNoDevice)
    unavailable(std::string("ROCm does not start: ") + hipGetErrorString(error), error);
  unavailable("the AMD GPU driver has no device" + hidden_by(), error);
}

hipDeviceProp_t properties_of(int native) {
  hipDeviceProp_t properties{};
  check(hipGetDeviceProperties(&properties, native), "the properties of a device");
  return properties;
}

std::vector<int> usable_devices() {
  const int count = devices_of_driver();
  std::vector<int> usable;
  std::string others;
  for (int native = 0; native < count; ++native) {
    const hipDeviceProp_t properties = properties_of(native);
    if (serves(kArchitectures, properties.gcnArchName))
      usable.push_back(native);
    else
      others += std::string(others.empty() ? "" : ", ") + properties.name + " is " +
                std::string(bare(properties.gcnArchName));
  }
  if (usable.empty())
    unavailable("no device has kernels in this file: " + others + ", and there are those of " +
                kArchitectures);
  return usable;
}

// "5.2.21153" of 50221153
std::string version_text(int version) {
  return std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100) + "." +
         std::to_string(version % 100000);
}

DeviceFacts facts_of(int native) {
  const hipDeviceProp_t properties = properties_of(native);
  int version = 0;
  check(hipDriverGetVersion(&version), "the version of the driver");
  DeviceFacts facts;
  facts.name = properties.name;
  facts.architecture = bare(properties.gcnArchName);
  facts.driver = "HIP " + version_text(version);
  facts.memory = properties.totalGlobalMem;
  facts.multiprocessors = properties.multiProcessorCount;
  const bool wide = has_wide_warps(facts.architecture);
  facts.warp = wide ? 64 : 32;
  facts.layout = wide ? LayoutId::cdna : LayoutId::rdna;
  facts.shared_bytes = static_cast<uint32_t>(properties.sharedMemPerBlock);
  facts.graphs = true;
  return facts;
}

// Kernels may use all that a block can have, unasked.
void allow_shared(const void*, size_t) {}

hipError_t host_malloc(void** out, uint64_t bytes) {
  return hipHostMalloc(out, bytes, hipHostMallocPortable | hipHostMallocMapped);
}

hipError_t host_free(void* pointer) { return hipHostFree(pointer); }

}  // namespace
}  // namespace moert::gpu
