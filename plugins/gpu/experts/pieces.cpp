// Which tensors of which expert are to come, and which have.
// SPDX-License-Identifier: Apache-2.0
#include "pieces.hpp"

namespace moert::gpu {
namespace {

std::string title(int64_t expert, uint32_t part, uint32_t role) {
  constexpr const char* kPartNames[] = {"gate", "up", "down"};
  constexpr const char* kRoleNames[] = {"weight", "bias"};
  return "expert " + std::to_string(expert) + ", " + kPartNames[part] + " " + kRoleNames[role];
}

}  // namespace

Pieces::Pieces(const MlpSizes& sizes, int64_t experts)
    : sizes_(sizes), experts_(experts), loaded_(index(experts, 0, 0), 0) {}

bool Pieces::has(uint32_t part, uint32_t role) const {
  return (part != MOERT_PART_GATE || sizes_.gated) && (role != MOERT_ROLE_BIAS || sizes_.biased);
}

std::string Pieces::expect(const moert_piece_t& piece) const {
  must_understand(piece.flags, 0, "piece");
  if (piece.role == MOERT_ROLE_LORA_A || piece.role == MOERT_ROLE_LORA_B)
    throw PluginError(MOERT_UNIMPLEMENTED, "adapters (LoRA) cannot be loaded here");
  if (piece.part >= kParts || piece.role >= kRoles)
    throw PluginError(MOERT_INVALID_ARGUMENT, "part " + std::to_string(piece.part) + ", role " +
                                                  std::to_string(piece.role) + " is no tensor");
  if (piece.expert < 0 || piece.expert >= experts_)
    throw PluginError(MOERT_INVALID_ARGUMENT, "expert " + std::to_string(piece.expert) +
                                                  " is not in [0, " + std::to_string(experts_) +
                                                  ")");
  std::string what = title(piece.expert, piece.part, piece.role);
  if (!has(piece.part, piece.role))
    throw PluginError(MOERT_INVALID_ARGUMENT, what + ": experts of this layer have no such tensor");
  if (loaded_[index(piece.expert, piece.part, piece.role)] != 0)
    throw PluginError(MOERT_ALREADY_EXISTS, what + " was loaded before");
  if (piece.tensor == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, what + " is missing");
  return what;
}

void Pieces::expect_complete() const {
  for (int64_t expert = 0; expert < experts_; ++expert)
    for (uint32_t role = 0; role < kRoles; ++role)
      for (uint32_t part = 0; part < kParts; ++part)
        if (has(part, role) && loaded_[index(expert, part, role)] == 0)
          throw PluginError(MOERT_FAILED_PRECONDITION,
                            title(expert, part, role) + " was never loaded");
}

}  // namespace moert::gpu
