// What tells the backends apart at compile time. The build defines, for all sources of a backend:
//   MOERT_GPU_WORD  "cuda": in names of features and in messages
//   MOERT_GPU_KIND  "cuda": the four letters of its kind of device
// SPDX-License-Identifier: Apache-2.0
//
// A feature class of plugins/gpu names itself so:
//   static constexpr FeatureInfo kFeature = gpu::feature(MOERT_GPU_WORD ".experts", MOERT_RANK_BEST);
#pragma once

#include <moert/abi/tensor.h>
#include <moert/sdk/adapter.hpp>

#if !defined(MOERT_GPU_WORD) || !defined(MOERT_GPU_KIND)
#error "the build of a GPU backend defines MOERT_GPU_WORD and MOERT_GPU_KIND"
#endif

namespace moert::gpu {

static_assert(sizeof(MOERT_GPU_KIND) == 5, "a kind of device has four letters");
inline constexpr uint32_t kDeviceKind =
    MOERT_DEVICE_KIND(MOERT_GPU_KIND[0], MOERT_GPU_KIND[1], MOERT_GPU_KIND[2], MOERT_GPU_KIND[3]);

inline constexpr moert_kv_t kCaps[] = {{"device", MOERT_GPU_WORD}};

constexpr FeatureInfo feature(const char* name, int32_t rank, uint32_t flags = 0) {
  return {name, rank, flags, kCaps, 1};
}

}  // namespace moert::gpu
