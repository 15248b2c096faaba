// Which tensors of which expert are to come, and which have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/adapter.hpp>

#include <string>
#include <vector>

#include "packed.hpp"

namespace moert::gpu {

// Different experts may be loaded by different threads.
class Pieces {
 public:
  Pieces(const MlpSizes& sizes, int64_t experts);

  bool has(uint32_t part, uint32_t role) const;
  // Throws unless the piece is a weight or bias of these experts that has not come yet. Its title: "expert 3, gate
  // weight".
  std::string expect(const moert_piece_t& piece) const;
  // To be called when the piece lies in its place: one that failed may come again.
  void take(const moert_piece_t& piece) {
    loaded_[index(piece.expert, piece.part, piece.role)] = 1;
  }
  // Throws MOERT_FAILED_PRECONDITION: the first tensor that never came.
  void expect_complete() const;

 private:
  static constexpr uint32_t kParts = 3, kRoles = 2;
  static size_t index(int64_t expert, uint32_t part, uint32_t role) {
    return static_cast<size_t>(expert) * kParts * kRoles + role * kParts + part;
  }
  MlpSizes sizes_;
  int64_t experts_;
  std::vector<uint8_t> loaded_;  // bytes, so that threads that load different experts never meet
};

}  // namespace moert::gpu
