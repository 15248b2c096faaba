// The embedding API: load, run, replay, padding, statistics, errors.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>

#include <moert/moert.hpp>

namespace {

using namespace moert;

ModelOptions f32_rows(int64_t max_tokens = 16) {
  ModelOptions options;
  options.max_tokens = max_tokens;
  options.dtype = "f32";
  return options;
}

std::vector<float> rows(int64_t tokens, int64_t width) {
  std::vector<float> values(static_cast<size_t>(tokens * width));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 37) % 11) / 5.0f - 1;
  return values;
}

// A tensor of a golden file: an embedding program has no reader of ours. Finds the name and its offsets.
template <class T>
std::vector<T> golden(const std::string& file, const std::string& name) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const size_t entry = bytes.find('"' + name + '"'), list = bytes.find("\"data_offsets\"", entry);
  const size_t bracket = bytes.find('[', list), comma = bytes.find(',', bracket);
  if (entry > header || comma > header + 8) throw std::out_of_range(name);
  const size_t begin = std::stoull(bytes.substr(bracket + 1));
  const size_t end = std::stoull(bytes.substr(comma + 1));
  std::vector<T> values((end - begin) / sizeof(T));
  std::memcpy(values.data(), bytes.data() + 8 + header + begin, end - begin);
  return values;
}

class Embed : public testing::Test {
 protected:
  // A layer over the rows of its golden file: ids exactly, outputs as f32 allows.
  void expect_golden(Model& model, const LayerInfo& layer, const std::string& folder,
                     const ForwardOptions& options, RoutingResult& routing) {
    const std::string file = data_ + folder + "/golden.safetensors";
    const std::string prefix = "layers." + std::to_string(layer.layer_id) + ".";
    const auto hidden = golden<float>(file, prefix + "hidden_states");
    const auto want = golden<float>(file, prefix + "output");
    const auto tokens = static_cast<int64_t>(hidden.size()) / layer.hidden_size;
    std::vector<float> out(hidden.size());
    model.forward(layer.layer_id, hidden.data(), tokens, out.data(), &routing, options);
    EXPECT_EQ(routing.ids, golden<int32_t>(file, prefix + "topk_ids")) << prefix;
    const auto weights = golden<float>(file, prefix + "topk_weights");
    ASSERT_EQ(routing.weights.size(), weights.size());
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(routing.weights[i], weights[i], 1e-5f);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      difference += std::pow(static_cast<double>(out[i]) - static_cast<double>(want[i]), 2);
      norm += std::pow(static_cast<double>(want[i]), 2);
    }
    EXPECT_LT(std::sqrt(difference), 1e-5 * std::sqrt(norm)) << prefix << " of " << folder;
  }

  Runtime runtime_;
  const std::string data_ = MOERT_DATA;
};

TEST_F(Embed, LayersSayWhatServesThem) {
  const Model model = runtime_.load(data_ + "/deepseek-v3-f32", f32_rows());
  ASSERT_EQ(model.layers().size(), 2u);
  const LayerInfo& layer = model.layers().front();
  EXPECT_EQ(layer.layer_id, 1) << "layer 0 is dense";
  EXPECT_EQ(layer.num_experts, 16);
  EXPECT_EQ(layer.top_k, 4);
  EXPECT_EQ(layer.scheme, "f32");
  EXPECT_EQ(layer.candidates.at("routed_experts"), "cpu.simd");
  EXPECT_EQ(layer.candidates.at("shared_experts"), "cpu.simd");
  EXPECT_NE(model.explain().find("layers 1-2"), std::string::npos) << model.explain();
}

TEST_F(Embed, ReplayOfItsOwnRoutesGivesTheSameBits) {
  for (const char* name : {"/olmoe-f32", "/deepseek-v3-f32", "/mixtral-bf16"}) {
    Model model = runtime_.load(data_ + name, f32_rows());
    const LayerInfo& layer = model.layers().back();
    const std::vector<float> hidden = rows(7, layer.hidden_size);
    std::vector<float> out(hidden.size()), again(hidden.size());
    RoutingResult routing, replayed;
    model.forward(layer.layer_id, hidden.data(), 7, out.data(), &routing);
    ASSERT_EQ(routing.ids.size(), static_cast<size_t>(7 * layer.top_k));
    for (const float margin : routing.margins) EXPECT_GE(margin, 0);
    ForwardOptions forced;
    forced.forced_ids = routing.ids.data();
    model.forward(layer.layer_id, hidden.data(), 7, again.data(), &replayed, forced);
    EXPECT_EQ(out, again) << name;
    EXPECT_EQ(routing.ids, replayed.ids);
    EXPECT_EQ(routing.weights, replayed.weights);
  }
}

TEST_F(Embed, ForcedIdsThatMakeNoSenseAreRefused) {
  Model model = runtime_.load(data_ + "/olmoe-f32", f32_rows());
  const LayerInfo& layer = model.layers().front();
  const std::vector<float> hidden = rows(1, layer.hidden_size);
  std::vector<float> out(hidden.size());
  const std::vector<std::vector<int32_t>> bad = {{0, 0, 1}, {0, 1, 8}, {-1, 0, 1}};
  for (const std::vector<int32_t>& ids : bad) {
    ForwardOptions forced;
    forced.forced_ids = ids.data();
    EXPECT_THROW(model.forward(layer.layer_id, hidden.data(), 1, out.data(), nullptr, forced),
                 Error);
  }
}

TEST_F(Embed, PaddedRowsAreZeroAndNotCounted) {
  Model model = runtime_.load(data_ + "/deepseek-v3-f32", f32_rows());
  const LayerInfo& layer = model.layers().front();
  const std::vector<float> hidden = rows(3, layer.hidden_size);
  std::vector<float> out(hidden.size());
  const uint8_t valid[] = {1, 0, 1};
  ForwardOptions options;
  options.valid = valid;
  RoutingResult routing;
  model.forward(layer.layer_id, hidden.data(), 3, out.data(), &routing, options);
  const auto width = static_cast<size_t>(layer.hidden_size), k = static_cast<size_t>(layer.top_k);
  for (size_t h = width; h < 2 * width; ++h) EXPECT_EQ(out[h], 0);
  for (size_t j = k; j < 2 * k; ++j) EXPECT_EQ(routing.ids[j], -1);
  const std::vector<int64_t> counts = model.load_statistics(layer.layer_id, true);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 2 * layer.top_k);
  const std::vector<int64_t> reset = model.load_statistics(layer.layer_id);
  EXPECT_EQ(std::accumulate(reset.begin(), reset.end(), int64_t{0}), 0);
}

// What stands in a padded row is nobody's: neither its forced ids nor its token are looked at, whoever marks it.
TEST_F(Embed, StaleNumbersOfPaddedRowsAreNoError) {
  Model model = runtime_.load(data_ + "/deepseek-v4-f32", f32_rows());
  const std::vector<float> hidden = rows(3, model.layers()[0].hidden_size);
  std::vector<float> out(hidden.size());
  const uint8_t valid[] = {1, 0, 1};
  const int64_t tokens[] = {1, INT64_MAX, 2};
  const int64_t sequences[] = {0, 0, 0}, positions[] = {0, 0, 1};
  for (const bool by_step : {false, true})
    for (const LayerInfo& layer : model.layers()) {
      const auto k = static_cast<size_t>(layer.top_k);
      std::vector<int32_t> forced(3 * k, -1);
      for (size_t j = 0; j < k; ++j) forced[k + j] = INT32_MAX - static_cast<int32_t>(j % 2);
      ForwardOptions options;
      options.token_ids = tokens;
      options.forced_ids = forced.data();
      if (by_step)
        model.begin_step({3, sequences, positions, valid});
      else
        options.valid = valid;
      RoutingResult routing;
      model.forward(layer.layer_id, hidden.data(), 3, out.data(), &routing, options);
      if (by_step) model.end_step();
      for (size_t j = 0; j < 3 * k; ++j) EXPECT_EQ(routing.ids[j] == -1, j / k == 1) << j;
    }
}

// A step's marks say nothing of rows of another number.
TEST_F(Embed, RowsUnlikeTheStepsAreRefused) {
  Model model = runtime_.load(data_ + "/deepseek-v4-f32", f32_rows());
  const std::vector<float> hidden = rows(3, model.layers()[0].hidden_size);
  std::vector<float> out(hidden.size());
  const int64_t tokens[] = {1, 2, 3}, one[] = {0};
  const uint8_t valid[] = {1};
  ForwardOptions options;
  options.token_ids = tokens;
  model.begin_step({1, one, one, valid});
  try {
    model.forward(0, hidden.data(), 3, out.data(), nullptr, options);
    FAIL() << "three rows in a step of one";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_NE(error.problem().find("3 rows in a step of 1"), std::string::npos) << error.what();
  }
}

TEST_F(Embed, NoTokensIsFineAndTooManyAreAnError) {
  Model model = runtime_.load(data_ + "/mixtral-f32", f32_rows(4));
  const LayerInfo& layer = model.layers().front();
  RoutingResult routing;
  model.forward(layer.layer_id, nullptr, 0, nullptr, &routing);
  EXPECT_EQ(routing.tokens, 0);
  const std::vector<float> hidden = rows(5, layer.hidden_size);
  std::vector<float> out(hidden.size());
  try {
    model.forward(layer.layer_id, hidden.data(), 5, out.data());
    FAIL() << "five tokens in a context of four";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_NE(std::string(error.what()).find("5 tokens"), std::string::npos) << error.what();
  }
  EXPECT_THROW(model.forward(99, hidden.data(), 1, out.data()), Error);
}

// DeepSeek-V4: the first layer routes by the tokens' numbers.
TEST_F(Embed, TokenIdsChooseExperts) {
  Model model = runtime_.load(data_ + "/deepseek-v4-f32", f32_rows(48));
  ASSERT_EQ(model.layers().size(), 2u);
  EXPECT_TRUE(model.layers()[0].needs_token_ids);
  EXPECT_FALSE(model.layers()[1].needs_token_ids);
  const auto ids = golden<int64_t>(data_ + "/deepseek-v4-f32/golden.safetensors", "input_ids");
  ForwardOptions with_ids;
  with_ids.token_ids = ids.data();
  RoutingResult routing, other;
  expect_golden(model, model.layers()[0], "/deepseek-v4-f32", with_ids, routing);
  for (const float margin : routing.margins) EXPECT_EQ(margin, HUGE_VALF) << "nothing was compared";
  // The other layer takes them or leaves them.
  expect_golden(model, model.layers()[1], "/deepseek-v4-f32", with_ids, other);
  expect_golden(model, model.layers()[1], "/deepseek-v4-f32", {}, other);
}

TEST_F(Embed, MissingTokenIdsAreAnError) {
  Model model = runtime_.load(data_ + "/deepseek-v4-f32", f32_rows());
  const LayerInfo& layer = model.layers().front();
  const std::vector<float> hidden = rows(2, layer.hidden_size);
  std::vector<float> out(hidden.size(), -99);
  const int64_t ids[] = {1, 2};
  ForwardOptions with_ids;
  with_ids.token_ids = ids;
  model.forward(layer.layer_id, hidden.data(), 2, out.data(), nullptr, with_ids);
  std::vector<float> untouched(hidden.size(), -99);
  try {  // those of the call before are not taken
    model.forward(layer.layer_id, hidden.data(), 2, untouched.data());
    FAIL() << "a layer that routes by token ids ran without any";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_NE(error.problem().find("layer 0 routes by token ids"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(untouched, std::vector<float>(hidden.size(), -99));
  const int64_t beyond[] = {1, 48};
  with_ids.token_ids = beyond;
  try {
    model.forward(layer.layer_id, hidden.data(), 2, untouched.data(), nullptr, with_ids);
    FAIL() << "a token that the table does not have";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_NE(error.problem().find("token id 48 of row 1"), std::string::npos) << error.what();
  }
}

// LongCat-Flash: ids from num_experts on give the row back.
TEST_F(Embed, ZeroExpertsAreCounted) {
  Model model = runtime_.load(data_ + "/longcat-flash-f32", f32_rows(48));
  for (const LayerInfo& layer : model.layers()) {
    EXPECT_EQ(layer.num_experts, 8);
    EXPECT_EQ(layer.zero_experts, 4);
    EXPECT_FALSE(layer.needs_token_ids);
    RoutingResult routing;
    expect_golden(model, layer, "/longcat-flash-f32", {}, routing);
    std::vector<int64_t> counts(12);
    for (const int32_t id : routing.ids) ++counts.at(static_cast<size_t>(id));
    EXPECT_GT(std::accumulate(counts.begin() + 8, counts.end(), int64_t{0}), 0);
    EXPECT_EQ(model.load_statistics(layer.layer_id), counts);
  }
  const Model plain = runtime_.load(data_ + "/olmoe-f32", f32_rows());
  EXPECT_EQ(plain.layers().front().zero_experts, 0);
}

struct BadLoad {
  const char* name;
  const char* path;
  ModelOptions options;
  Fault fault;
};

TEST_F(Embed, ErrorsAreMoertErrorsWithTheirFault) {
  ModelOptions pinned = f32_rows(), device = f32_rows(), dtype = f32_rows(), unknown = f32_rows(),
               untaken = f32_rows(), quant = f32_rows();
  pinned.layers["routed_experts"] = "acme.experts";
  device.device = "tpu:0";
  dtype.dtype = "f31";
  unknown.options["routed_experts"]["gem"] = "mma";
  quant.options["quant"]["gemm"] = "mma";
  untaken.options["shared_experts"]["gemm"] = "mma";  // which olmoe has not
  const std::vector<BadLoad> cases = {{"missing path", "/no-such-model", f32_rows(), Fault::usage},
                                      {"unknown pin", "/olmoe-f32", pinned, Fault::refused},
                                      {"absent device", "/olmoe-f32", device, Fault::device},
                                      {"unknown dtype", "/olmoe-f32", dtype, Fault::usage},
                                      {"unknown option", "/olmoe-f32", unknown, Fault::usage},
                                      {"option of no part", "/olmoe-f32", untaken, Fault::usage},
                                      {"option of a format", "/olmoe-f32", quant, Fault::usage}};
  for (const BadLoad& c : cases) {
    try {
      runtime_.load(data_ + c.path, c.options);
      ADD_FAILURE() << c.name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), c.fault) << c.name << "\n" << error.what();
    }
  }
}

TEST_F(Embed, TwoRuntimesInOneProcess) {
  Runtime other;
  const Model one = runtime_.load(data_ + "/olmoe-f32", f32_rows());
  const Model two = other.load(data_ + "/olmoe-f32", f32_rows());
  EXPECT_EQ(one.layers().size(), two.layers().size());
}

}  // namespace
