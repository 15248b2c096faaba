// What tests of shared segments have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>

#include <moert/error.hpp>

#include "capture/segment.hpp"
#include "capturers/rig.hpp"
#include "capturers/surroundings.hpp"

namespace moert::capture::testing {

// Segment "one" of 1 MB.
inline Options segment_options(const TestFolder& folder) {
  return {{"folder", folder.path()}, {"name", "one"}, {"buffer_mb", "1"}};
}

// Whether a row has in every layer what its token says.
inline bool right(const SegmentRows& batch, int64_t row, const Model& model) {
  const RowKey token = batch.key(row);
  const bool more = (model.what & MOERT_CAPTURE_WEIGHTS) != 0;
  std::vector<int32_t> ids(16);
  std::vector<float> weights(16);
  float margin = 0;
  for (size_t l = 0; l < model.layer_ids.size(); ++l) {
    if (!batch.read(row, l, ids.data(), weights.data(), &margin)) return false;
    const int64_t layer = model.layer_ids[l];
    for (int64_t j = 0; j < model.k[l]; ++j) {
      const auto i = static_cast<size_t>(j);
      if (ids[i] != id_of(token, layer, j, model.experts[l])) return false;
      if (more && weights[i] != weight_of(token, layer, j)) return false;
    }
    if (more && margin != margin_of(token, layer)) return false;
  }
  return true;
}

inline void expect_batch(const SegmentRows& batch, const Model& model,
                         const std::vector<RowKey>& want) {
  ASSERT_EQ(batch.rows(), static_cast<int64_t>(want.size()));
  for (size_t r = 0; r < want.size(); ++r) {
    const auto row = static_cast<int64_t>(r);
    EXPECT_EQ(batch.key(row), want[r]) << "row " << r;
    EXPECT_TRUE(right(batch, row, model)) << "row " << r << " is not what was recorded";
  }
}

inline Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {Fault::check, "", "", ""};
}

}  // namespace moert::capture::testing
