// The HIP backend: the features of plugins/gpu under its own name.
// SPDX-License-Identifier: Apache-2.0
#include "../gpu/features.hpp"

MOERT_PLUGIN("org.moert." MOERT_GPU_WORD, MOERT_GPU_WORD, "MoERT", "0.1.0", MOERT_GPU_FEATURES)
