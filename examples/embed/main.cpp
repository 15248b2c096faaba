// Embeds the runtime: loads a checkpoint's MoE layers, runs one on a few rows, prints where the rows
// went. Usage: embed CHECKPOINT_FOLDER
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>

#include <moert/moert.hpp>

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: embed CHECKPOINT_FOLDER\n"), 2;
  try {
    moert::Runtime runtime;
    moert::ModelOptions options;
    options.dtype = "f32";
    moert::Model model = runtime.load(argv[1], options);
    const moert::LayerInfo& layer = model.layers().front();
    const int64_t tokens = 4;
    std::vector<float> hidden(static_cast<size_t>(tokens * layer.hidden_size)), out(hidden.size());
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = static_cast<float>(i % 7) - 3;
    moert::RoutingResult routing;
    model.forward(layer.layer_id, hidden.data(), tokens, out.data(), &routing);
    for (int64_t t = 0; t < tokens; ++t) {
      std::printf("token %d:", static_cast<int>(t));
      for (int64_t j = 0; j < routing.top_k; ++j)
        std::printf(" %d (%.3f)", routing.ids[t * routing.top_k + j],
                    routing.weights[t * routing.top_k + j]);
      std::printf("  first output %.4f\n", out[t * layer.hidden_size]);
    }
    return 0;
  } catch (const moert::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
