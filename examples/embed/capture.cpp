// Captures where tokens go, writes it down, and sends them the same way again: equal bits come out.
// Usage: embed_capture CHECKPOINT_FOLDER CAPTURE_FILE
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>

#include <moert/moert.hpp>

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: embed_capture CHECKPOINT CAPTURE\n"), 2;
  try {
    moert::Runtime runtime;
    moert::ModelOptions options;
    options.dtype = "f32";
    moert::Model model = runtime.load(argv[1], options);
    // Two requests in one batch: three tokens of request 7, the fifth token of request 9.
    const std::vector<int64_t> sequences = {7, 7, 7, 9}, positions = {0, 1, 2, 4};
    const moert::StepRows rows = {4, sequences.data(), positions.data()};
    const auto run_layers = [&] {
      std::vector<float> hidden, out;
      for (int64_t i = 0; i < 4 * model.layers().front().hidden_size; ++i)
        hidden.push_back(static_cast<float>(i * i % 17) / 8 - 1);
      out = hidden;
      model.begin_step(rows);
      for (const moert::LayerInfo& layer : model.layers()) {
        model.forward(layer.layer_id, hidden.data(), 4, out.data());
        hidden = out;
      }
      model.end_step();
      return out;
    };
    moert::Capture capture = model.capture({"memory", {"ids", "weights", "margins"}, {}});
    const std::vector<float> first = run_layers();
    capture.write(argv[2]);
    std::printf("captured %d tokens\n", static_cast<int>(capture.counts().rows));
    model.replay(argv[2]);
    const bool same = run_layers() == first;
    std::printf("replay gives %s\n", same ? "the same bits" : "OTHER BITS");
    return same ? 0 : 1;
  } catch (const moert::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
