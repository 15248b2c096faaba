// What the stages of a forward hand to each other: records of device pointers, passed to kernels by value.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace moert::gpu {

// A run of positions of one expert: [first, first + rows).
struct Item {
  int32_t expert, first, rows, reserved;
};

// A batch sorted by expert. A slot is t * k + j; a position is a slot's place when slots stand by rising expert, and
// by rising slot within an expert. Slots of id -1 have no position.
struct PlanView {
  int32_t* offsets =
      nullptr;  // [experts + 1]: first position of each expert; the last is their number
  int32_t* slots = nullptr;   // [tokens * k]: slot at each position
  int32_t* places = nullptr;  // [tokens * k]: position of each slot, or -1
  Item* items =
      nullptr;  // [max_items(...)]: runs of at most `item_rows` rows, in order of positions
  int32_t* n_items = nullptr;  // [1]
};

// Runs that a plan can have, known to the host: every expert's last one may be short.
constexpr int64_t max_items(int64_t slots, int64_t experts, int64_t item_rows) {
  const int64_t most = slots / item_rows + experts;
  return most < slots ? most : slots;
}

// Numbers of the batch, and of the weights that meet them, in a matrix product.
enum class Element : uint8_t { bf16, f32 };
constexpr int64_t element_bytes(Element element) { return element == Element::bf16 ? 2 : 4; }

// Rows of the batch as a matrix product reads them. Rows begin at multiples of 16 bytes; what is behind their own
// columns, up to the padded width, is 0.
struct RowsView {
  const void* data = nullptr;
  int64_t stride = 0;  // elements from one row to the next
  const int32_t* slots =
      nullptr;  // row of a position: slots[position] / divisor; NULL: the position itself
  int32_t divisor = 1;
  // Rows of codes: number c of a row is data[c] * scales[row * groups + c / group].
  const float* scales = nullptr;  // NULL: plain numbers
  int32_t groups = 0, group = 0;
};

}  // namespace moert::gpu
