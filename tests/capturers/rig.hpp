// A capturer of libmoert_capture as a program uses it, and decisions that follow from the token alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <moert/abi/capturer.h>

#include <map>
#include <string>
#include <vector>

#include "capture/capture_info.hpp"

namespace moert::capture::testing {

using Options = std::map<std::string, std::string>;

struct Model {
  std::vector<int64_t> layer_ids = {1, 2, 7}, experts = {256, 300, 8}, k = {4, 2, 8};
  uint32_t what = MOERT_CAPTURE_IDS | MOERT_CAPTURE_WEIGHTS | MOERT_CAPTURE_MARGINS;
  int64_t max_tokens = 4096;
};
// Rows of about 1 KB, ids alone.
Model wide_model();

// What the rig records for a token: any other id, weight or margin is wrong.
int32_t id_of(RowKey token, int64_t layer_id, int64_t slot, int64_t experts);
float weight_of(RowKey token, int64_t layer_id, int64_t slot);
float margin_of(RowKey token, int64_t layer_id);

struct Answer {
  moert_code_t code = MOERT_OK;
  std::string message;
  bool ok() const { return code == MOERT_OK; }
};
::testing::AssertionResult went_well(const Answer& answer);
#define EXPECT_OK(call) EXPECT_TRUE(went_well(call))

class Capturer {
 public:
  // Nothing is made if that fails: see created().
  Capturer(const std::string& feature, const Options& options, Model model = {});
  ~Capturer() { close(); }
  Capturer(const Capturer&) = delete;
  Capturer& operator=(const Capturer&) = delete;

  const Answer& created() const { return created_; }
  const Model& model() const { return model_; }
  void close();  // destroy
  // A step with all layers. Stops at the first call that fails; a step whose begin succeeded is ended.
  Answer step(const std::vector<RowKey>& tokens, bool commit = true);
  // The same without one layer, committed.
  Answer step_without(const std::vector<RowKey>& tokens, uint32_t layer);
  Answer commit(int64_t sequence, int64_t position = INT64_MAX);
  Answer drop(int64_t sequence, int64_t position);
  Answer flush();
  moert_capture_counts_t counts();

  struct ReadRow {
    RowKey token;
    bool present = false;  // in all layers; being present in some only is a failure
  };
  // All rows, in pieces of `piece`: each layer that is present must have what the token says.
  std::vector<ReadRow> read_all(int64_t piece = 1000);

 private:
  template <class Call>
  Answer call(const Call& body);
  Answer step_of(const std::vector<RowKey>& tokens, bool commit, uint32_t but_layer);
  Answer record(const std::vector<RowKey>& tokens, uint32_t layer);
  void read_piece(uint32_t layer, int64_t first, int64_t piece, std::vector<ReadRow>& rows);

  const moert_capturer_t* table_ = nullptr;
  Model model_;
  void* self_ = nullptr;
  Answer created_;
  std::vector<int32_t> ids_;  // of a record, kept so that a step allocates little
  std::vector<float> weights_, margins_;
};

// `count` tokens of a sequence.
std::vector<RowKey> tokens(int64_t sequence, int64_t first, int64_t count);

}  // namespace moert::capture::testing
