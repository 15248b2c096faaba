// The simulated GPU as a plugin for tests: the same features as cuda and hip have.
// SPDX-License-Identifier: Apache-2.0
#include "../../plugins/gpu/features.hpp"

MOERT_PLUGIN("org.moert." MOERT_GPU_WORD, MOERT_GPU_WORD, "MoERT", "0.1.0", MOERT_GPU_FEATURES)
