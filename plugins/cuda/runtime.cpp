// plugins/gpu/runtime.hpp over the CUDA runtime, which is linked in: the file needs the driver alone, and loads without.
// SPDX-License-Identifier: Apache-2.0
#include "../gpu/runtime.hpp"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#include "../gpu/backend.hpp"
#include "../gpu/toolkit/enqueue.hpp"
#include "architectures.hpp"

#define GPU(name) cuda##name
#include "../gpu/toolkit/calls.inc"

namespace moert::gpu {

const Backend kBackend = {MOERT_GPU_WORD, kDeviceKind};

namespace {

[[noreturn]] void unavailable(const std::string& why, cudaError_t error = cudaSuccess) {
  throw PluginError(MOERT_UNAVAILABLE, why, error);
}

// "13.0" of 13000
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

// The runtime leaves the number alone where it fails.
int devices_of_driver() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  static_cast<void>(cudaGetLastError());
  const int version = driver_version();
  if (version == 0) unavailable("no NVIDIA driver: libcuda.so.1 is not there", error);
  if (error == cudaErrorInsufficientDriver)
    unavailable("the NVIDIA driver is too old: it serves CUDA " + version_text(version) +
                    ", this plugin needs " + version_text(CUDART_VERSION),
                error);
  if (error != cudaSuccess && error != cudaErrorNoDevice)
    unavailable(std::string("the NVIDIA driver does not start: ") + cudaGetErrorString(error),
                error);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  unavailable("the NVIDIA driver has no device" +
                  (visible == nullptr ? std::string()
                                      : std::string(", CUDA_VISIBLE_DEVICES is '") + visible + "'"),
              error);
}

int attribute(int native, cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, native), "an attribute of a device");
  return value;
}

std::string architecture_of(int native) {
  return "sm_" + std::to_string(attribute(native, cudaDevAttrComputeCapabilityMajor)) +
         std::to_string(attribute(native, cudaDevAttrComputeCapabilityMinor));
}

std::string name_of(int native) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, native), "the properties of a device");
  return properties.name;
}

bool has_kernels(int native) {
  static const std::vector<Architecture> ours = parsed(MOERT_GPU_ARCHITECTURES);
  const int major = attribute(native, cudaDevAttrComputeCapabilityMajor);
  const int minor = attribute(native, cudaDevAttrComputeCapabilityMinor);
  for (const Architecture& one : ours)
    if (one.serves(major, minor)) return true;
  return false;
}

std::vector<int> usable_devices() {
  const int count = devices_of_driver();
  std::vector<int> usable;
  std::string others;
  for (int native = 0; native < count; ++native) {
    if (has_kernels(native))
      usable.push_back(native);
    else
      others += (others.empty() ? "" : ", ") + name_of(native) + " is " + architecture_of(native);
  }
  if (usable.empty())
    unavailable("no device has kernels in this file: " + others + ", and there are those of " +
                names(parsed(MOERT_GPU_ARCHITECTURES)));
  return usable;
}

DeviceFacts facts_of(int native) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, native), "the properties of a device");
  DeviceFacts facts;
  facts.name = properties.name;
  facts.architecture = architecture_of(native);
  facts.driver = "CUDA " + version_text(driver_version());
  facts.memory = properties.totalGlobalMem;
  facts.multiprocessors = properties.multiProcessorCount;
  facts.warp = 32;
  facts.shared_bytes =
      static_cast<uint32_t>(attribute(native, cudaDevAttrMaxSharedMemoryPerBlockOptin));
  facts.layout = LayoutId::nv;
  facts.graphs = true;
  return facts;
}

// A launch asks for more than 48 KiB in vain where this was not said before.
void allow_shared(const void* kernel, size_t own) {
  int native = 0;
  check(cudaGetDevice(&native), "the current device");
  const int all = attribute(native, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             all - static_cast<int>(own)),
        "allowing a kernel " + std::to_string(all) + " bytes of shared memory");
}

cudaError_t host_malloc(void** out, uint64_t bytes) {
  return cudaHostAlloc(out, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
}

cudaError_t host_free(void* pointer) { return cudaFreeHost(pointer); }

}  // namespace
}  // namespace moert::gpu
