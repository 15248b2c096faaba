// A capturer, and what it must have, kept the slow and obvious way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/abi/capturer.h>

#include <map>

#include "host.hpp"
#include "numbers.hpp"
#include "suite.hpp"

namespace moert::conformance {

struct CapturedLayers {
  std::vector<int64_t> ids, experts, k;
};
// One, two and four bytes for an id, and the largest number of one byte among them.
const CapturedLayers& mixed_layers();

class CapturerRig {
 public:
  static constexpr uint32_t kAll =
      MOERT_CAPTURE_IDS | MOERT_CAPTURE_WEIGHTS | MOERT_CAPTURE_MARGINS;
  using Token = std::pair<int64_t, int64_t>;  // sequence, position
  struct Record {
    std::vector<int32_t> ids;
    std::vector<float> weights, margins;
    int64_t rows = 0;
  };

  explicit CapturerRig(const Feature& feature, uint32_t what = kAll,
                       const CapturedLayers& layers = mixed_layers());
  ~CapturerRig();
  CapturerRig(const CapturerRig&) = delete;
  CapturerRig& operator=(const CapturerRig&) = delete;

  moert_capture_spec_t spec() const;
  moert_code_t begin(const std::vector<Token>& tokens, moert_error_t* e,
                     uint32_t flags = MOERT_CAPTURE_STEP_COMMIT);
  // Random decisions for `rows` rows of a layer; the first and the last expert are among them.
  Record decisions(uint32_t layer, int64_t rows);
  moert_code_t record(uint32_t layer, const Record& r, moert_error_t* e, uint32_t flags = 0,
                      bool with_weights = true);

  struct Step {
    std::vector<uint32_t> absent = {};  // layers that are not recorded
    int64_t padding = 0;                // rows behind the tokens
    std::vector<size_t> empty = {};  // rows without a token that a router could look up: ids of -1
    bool commit = true;              // by MOERT_CAPTURE_STEP_COMMIT
  };
  // A whole step; its rows are expected from now on.
  void step(const std::vector<Token>& tokens) { step(tokens, Step()); }
  void step(const std::vector<Token>& tokens, const Step& how);
  void pending_step(const std::vector<Token>& tokens) { step(tokens, {{}, 0, {}, false}); }
  void commit(int64_t sequence, int64_t position);
  void drop(int64_t sequence, int64_t position);

  void expect_counts();
  // Counts, and everything read back, layer by layer, in pieces of `piece` rows: per token the rows in order
  // of recording, one order for all layers, which only grows at its end. Skips a capturer that keeps none.
  void expect_all(int64_t piece = 7);

  const moert_capturer_t& table;
  TestHost host;
  Place place;
  Random random;
  void* self = nullptr;

 private:
  struct Row {
    Token token;
    std::vector<Record> cells;  // per layer; no ids: absent
  };
  // Rows of a layer as they are read.
  struct Column {
    std::vector<Token> tokens;
    std::vector<Record> cells;
  };
  Row row_of(const std::vector<Token>& tokens, size_t t, const std::vector<Record>& records,
             const Step& how) const;
  template <class Wanted>
  std::vector<Row> taken(const Wanted& wanted);  // pending rows, out of pending_
  Column read_all(uint32_t layer, int64_t piece);
  int64_t read_some(uint32_t layer, int64_t first, int64_t piece, Column& to);
  void expect_cells(uint32_t layer, const Column& column);

  const CapturedLayers layers_;
  const uint32_t what_;
  std::vector<Row> committed_, pending_;  // in order
  std::vector<Token> order_;              // as it was read last
};

// `count` tokens of a sequence.
std::vector<CapturerRig::Token> tokens(int64_t sequence, int64_t first, int64_t count);

}  // namespace moert::conformance
