// Holds what a checkpoint's layers compute against what they computed before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "runtime/quantize.hpp"

namespace moert::runtime {

// The layers' outputs for the job's hidden states, in a file of their own; nothing where the job has none.
class LayerOutputs {
 public:
  // Loads and runs the checkpoint by the reference; the file is written in `folder`. Throws Error.
  LayerOutputs(Session& session, const config::Families& families, const QuantizeJob& job,
               const std::filesystem::path& checkpoint, const std::filesystem::path& folder,
               const std::function<void()>& poll);
  LayerOutputs(const LayerOutputs&) = delete;
  LayerOutputs& operator=(const LayerOutputs&) = delete;
  ~LayerOutputs() { remove(); }

  bool empty() const { return file_.empty(); }
  const std::filesystem::path& file() const { return file_; }
  void remove() const;

 private:
  std::filesystem::path file_;
};

// Fills in the changes of the layers that have such outputs.
void compare(const LayerOutputs& before, const LayerOutputs& after,
             std::vector<QuantizedLayer>& layers);

}  // namespace moert::runtime
