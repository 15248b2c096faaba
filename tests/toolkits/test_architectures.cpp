// Which devices a build's kernels serve: NVIDIA's rule of versions, and AMD's names.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "../../plugins/cuda/architectures.hpp"
#include "../../plugins/hip/architectures.hpp"

namespace moert::gpu {
namespace {

struct CudaCase {
  const char* list;
  int major, minor;
  bool served;
};

// "Code for X.Y runs on X.Z with Z >= Y; PTX on whatever is later; with an a, on that version alone."
constexpr CudaCase kCudaCases[] = {
    {"80-real", 8, 0, true},
    {"80-real", 8, 6, true},
    {"80-real", 9, 0, false},
    {"80-real", 7, 5, false},
    {"80", 9, 0, true},
    {"80", 7, 5, false},
    {"89", 8, 6, false},
    {"89", 12, 1, true},
    {"89-virtual", 10, 3, true},
    {"90a-real", 9, 0, true},
    {"90a", 9, 0, true},
    {"90a", 10, 0, false},
    {"90a-real", 8, 9, false},
    {"100f-real", 10, 3, true},
    {"100f", 11, 0, false},
    {"120a-real", 12, 0, true},
    {"120a-real", 12, 1, false},
    {"80-real,90a-real", 8, 9, true},
    {"80-real,90a-real", 9, 0, true},
    {"80-real,90a-real", 10, 0, false},
    {"", 9, 0, false},
};

TEST(Architectures, Cuda) {
  for (const CudaCase& tested : kCudaCases) {
    bool served = false;
    for (const Architecture& one : parsed(tested.list))
      served = served || one.serves(tested.major, tested.minor);
    EXPECT_EQ(served, tested.served)
        << tested.list << " on " << tested.major << "." << tested.minor;
  }
}

TEST(Architectures, CudaNames) {
  EXPECT_EQ(names(parsed("80-real,89,90a-real")), "sm_80, sm_89 and later, sm_90a");
  EXPECT_EQ(names(parsed("90a")), "sm_90a");
  EXPECT_EQ(names({}), "");
}

struct HipCase {
  const char* list;
  const char* device;
  bool served, wide;
};

constexpr HipCase kHipCases[] = {
    {"gfx90a,gfx1030", "gfx90a:sramecc+:xnack-", true, true},
    {"gfx90a,gfx1030", "gfx1030", true, false},
    {"gfx90a,gfx1030", "gfx1031", false, false},
    {"gfx90a,gfx1030", "gfx90", false, true},
    {"gfx942:xnack-", "gfx942:sramecc+:xnack-", true, true},
    {"gfx1201", "gfx1201", true, false},
    {"", "gfx90a", false, true},
};

TEST(Architectures, Hip) {
  for (const HipCase& tested : kHipCases) {
    EXPECT_EQ(serves(tested.list, tested.device), tested.served)
        << tested.list << " on " << tested.device;
    EXPECT_EQ(has_wide_warps(tested.device), tested.wide) << tested.device;
  }
}

}  // namespace
}  // namespace moert::gpu
