// The features that every GPU backend has. A new one: include its header, and append its class.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/plugin.hpp>

#include "capture/memory.hpp"
#include "device.hpp"
#include "experts/experts.hpp"
#include "experts/shared.hpp"
#include "router/router.hpp"
#include "runner/runner.hpp"

// Classes, separated by commas: MOERT_PLUGIN(id, word, vendor, version, MOERT_GPU_FEATURES).
#define MOERT_GPU_FEATURES                                                                     \
  moert::gpu::GpuDevice, moert::gpu::GpuExperts, moert::gpu::GpuMemory, moert::gpu::GpuRouter, \
      moert::gpu::GpuRunner, moert::gpu::GpuShared
