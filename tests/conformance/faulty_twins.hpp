// Two objects in one, of which the second has the columns between the projections the other way round: sums come out the
// same but for their rounding. What is recorded is computed by the second, everything else by the first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <moert/sdk/tensor.hpp>
#include <vector>

#include "faulty.hpp"

namespace moert::faulty {

// A piece whose tensor runs backwards along I.
class Turned {
 public:
  explicit Turned(const moert_piece_t& piece) : piece_(piece) {
    if (piece.part > MOERT_PART_DOWN || piece.tensor->rank == 0) return;
    const bool down = piece.part == MOERT_PART_DOWN;
    if (down && piece.role == MOERT_ROLE_BIAS) return;
    const moert_tensor_t& from = *piece.tensor;
    const int64_t rows = from.shape[0], cols = from.rank == 2 ? from.shape[1] : 1;
    const size_t size = static_cast<size_t>(dtype_bytes(from.dtype, 1));
    bytes_.resize(size * static_cast<size_t>(rows * cols));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t at = (down ? r : rows - 1 - r) * from.strides[0] +
                           (from.rank == 2 ? (down ? cols - 1 - c : c) * from.strides[1] : 0);
        std::memcpy(&bytes_[size * static_cast<size_t>(r * cols + c)],
                    static_cast<const char*>(from.data) + dtype_bytes(from.dtype, at), size);
      }
    view_ = TensorView(bytes_.data(), from.dtype, from.shape, from.rank, from.flags);
    view_.set_quant(from.quant);
    piece_.tensor = view_;
  }
  Turned(const Turned&) = delete;
  Turned& operator=(const Turned&) = delete;
  const moert_piece_t* get() const { return &piece_; }

 private:
  moert_piece_t piece_;
  std::vector<char> bytes_;
  TensorView view_{static_cast<void*>(nullptr), MOERT_DTYPE_F32, {0}};
};

// Functions of routed or shared experts; kTable is the table of the other plugin.
template <auto& kTable>
struct Twins {
  void* first = nullptr;
  void* second = nullptr;

  static void* first_of(void* self) {
    return self == nullptr ? nullptr : static_cast<Twins*>(self)->first;
  }
  static void* second_of(void* self) { return static_cast<Twins*>(self)->second; }

  template <class Problem>
  static moert_code_t supports(const moert_host_t* host, const Problem* problem,
                               moert_support_t* out, moert_error_t* e) {
    const moert_code_t code = kTable->supports(host, problem, out, e);
    out->flags &= ~uint32_t{MOERT_SUPPORT_DETERMINISTIC};
    return code;
  }

  template <class Problem>
  static moert_code_t create(const moert_host_t* host, const Problem* problem,
                             const moert_kv_t* options, uint32_t n, void** self, moert_error_t* e) {
    auto* twins = new Twins;
    moert_code_t code = kTable->create(host, problem, options, n, &twins->first, e);
    if (code == MOERT_OK) code = kTable->create(host, problem, options, n, &twins->second, e);
    if (code == MOERT_OK)
      *self = twins;
    else
      destroy(twins);
    return code;
  }

  static void destroy(void* self) {
    if (self == nullptr) return;
    for (void* one : {first_of(self), second_of(self)})
      if (one != nullptr) kTable->destroy(one);
    delete static_cast<Twins*>(self);
  }

  static moert_code_t load(void* self, const moert_piece_t* piece, moert_error_t* e) {
    const moert_code_t code = kTable->load(first_of(self), piece, e);
    return code == MOERT_OK ? kTable->load(second_of(self), Turned(*piece).get(), e) : code;
  }

  static moert_code_t finish(void* self, moert_error_t* e) {
    const moert_code_t code = kTable->finish(first_of(self), e);
    return code == MOERT_OK ? kTable->finish(second_of(self), e) : code;
  }

  static moert_code_t workspace(void* self, int64_t tokens, uint64_t* bytes, moert_error_t* e) {
    return kTable->workspace(first_of(self), tokens, bytes, e);
  }

  template <class Args>
  static moert_code_t forward(void* self, const Args* args, moert_error_t* e) {
    return kTable->forward(recording ? second_of(self) : first_of(self), args, e);
  }

  static moert_code_t bundle_bytes(void* self, uint64_t* bytes, moert_error_t* e) {
    return kTable->bundle_bytes(first_of(self), bytes, e);
  }
  static moert_code_t read_expert(void* self, int64_t expert, void* bundle, uint64_t bytes,
                                  const moert_stream_t* stream, moert_error_t* e) {
    return kTable->read_expert(first_of(self), expert, bundle, bytes, stream, e);
  }
  static moert_code_t write_expert(void* self, int64_t expert, const void* bundle, uint64_t bytes,
                                   const moert_stream_t* stream, moert_error_t* e) {
    return kTable->write_expert(first_of(self), expert, bundle, bytes, stream, e);
  }

  template <class Table>
  static void put(Table& table) {
    table.supports = supports;
    table.create = create;
    table.destroy = destroy;
    table.load = load;
    table.finish = finish;
    table.workspace = workspace;
    table.forward = forward;
    if constexpr (requires { table.bundle_bytes; }) {
      table.bundle_bytes = bundle_bytes;
      table.read_expert = read_expert;
      table.write_expert = write_expert;
    }
  }
};

}  // namespace moert::faulty
