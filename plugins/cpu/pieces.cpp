// Which tensors of which MLP are to come, and which have.
// SPDX-License-Identifier: Apache-2.0
#include "pieces.hpp"

namespace moert::cpu {
namespace {

constexpr const char* kParts[] = {"gate", "up", "down"};
constexpr const char* kRoles[] = {"weight", "bias"};

std::string title(int64_t expert, uint32_t part, uint32_t role) {
  return "expert " + std::to_string(expert) + ", " + kParts[part] + " " + kRoles[role];
}

}  // namespace

Pieces::Pieces(const MlpShape& shape, int64_t count) : shape_(shape), count_(count) {
  loaded_.assign(index(count, 0, 0), 0);
}

bool Pieces::has(uint32_t part, uint32_t role) const {
  return (part != MOERT_PART_GATE || shape_.gated) && (role != MOERT_ROLE_BIAS || shape_.biased);
}

std::string Pieces::expect(const moert_piece_t& piece) const {
  must_understand(piece.flags, 0, "piece");
  if (piece.role == MOERT_ROLE_LORA_A || piece.role == MOERT_ROLE_LORA_B)
    throw PluginError(MOERT_UNIMPLEMENTED, "adapters (LoRA) cannot be loaded here");
  if (piece.part > MOERT_PART_DOWN || piece.role > MOERT_ROLE_BIAS)
    throw PluginError(MOERT_INVALID_ARGUMENT, "part " + std::to_string(piece.part) + ", role " +
                                                  std::to_string(piece.role) + " is no tensor");
  if (piece.expert < 0 || piece.expert >= count_)
    throw PluginError(MOERT_INVALID_ARGUMENT, "expert " + std::to_string(piece.expert) +
                                                  " is not in [0, " + std::to_string(count_) + ")");
  std::string what = title(piece.expert, piece.part, piece.role);
  if (!has(piece.part, piece.role))
    throw PluginError(MOERT_INVALID_ARGUMENT, what + ": experts of this layer have no such tensor");
  if (loaded_[index(piece.expert, piece.part, piece.role)] != 0)
    throw PluginError(MOERT_ALREADY_EXISTS, what + " was loaded before");
  if (piece.tensor == nullptr) throw PluginError(MOERT_INVALID_ARGUMENT, what + " is missing");
  return what;
}

void Pieces::expect_complete() const {
  for (int64_t mlp = 0; mlp < count_; ++mlp)
    for (uint32_t role = 0; role < 2; ++role)
      for (uint32_t part = 0; part < 3; ++part)
        if (has(part, role) && loaded_[index(mlp, part, role)] == 0)
          throw PluginError(MOERT_FAILED_PRECONDITION,
                            title(mlp, part, role) + " was never loaded");
}

}  // namespace moert::cpu
