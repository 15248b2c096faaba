// Layouts drawn by chance: whatever a rule can say is written element by element and read back.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>

#include "unit/weights/numbered.hpp"
#include "weights/rules.hpp"

namespace moert::weights {
namespace {

using spec::Target;
using spec::TensorRule;

using Matrix = std::vector<std::vector<float>>;

enum class Form { split, stacked, flat };

Matrix turned(const Matrix& m) {
  Matrix result(m.front().size(), std::vector<float>(m.size()));
  for (size_t r = 0; r < m.size(); ++r)
    for (size_t c = 0; c < m[r].size(); ++c) result[c][r] = m[r][c];
  return result;
}

// One model, one layout, one file.
class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {
    model.hidden_size = number(1, 7);
    model.num_layers = 3;
    layer_.layer_id = number(0, 2);
    layer_.intermediate_size = number(1, 6);
    layer_.routing.num_experts = number(1, 5);
    layer_.routing.zero_experts = number(0, 2);
    layer_.routing.top_k = 1;
    layer_.gated = coin();
    layer_.bias = coin();
    layer_.latent_size = coin() ? number(1, 4) : 0;
    form_ = static_cast<Form>(number(0, 2));
    layout_.name = "drawn";
    if (layer_.gated && form_ != Form::flat && coin())
      add(coin() ? std::vector<uint32_t>{0, 1} : std::vector<uint32_t>{1, 0});
    else
      for (const uint32_t part :
           layer_.gated ? std::vector<uint32_t>{0, 1} : std::vector<uint32_t>{1})
        add({part});
    add({MOERT_PART_DOWN});
    std::shuffle(layout_.rules.begin(), layout_.rules.end(), random_);
    for (const TensorRule& rule : layout_.rules) store(rule);
    add_router();
    add_latent();
    std::shuffle(edit.tensors.begin(), edit.tensors.end(), random_);
    tensors.experts = {layout_};
    model.layers = {layer_};
  }

  // Of one expert's part: rows are outputs. Numbers say where they belong.
  Matrix wanted(int64_t expert, uint32_t part, uint32_t role) const {
    const int64_t width = layer_.latent_size != 0 ? layer_.latent_size : model.hidden_size;
    const int64_t out = part == MOERT_PART_DOWN ? width : layer_.intermediate_size;
    const int64_t in = role == MOERT_ROLE_BIAS   ? 1
                       : part == MOERT_PART_DOWN ? layer_.intermediate_size
                                                 : width;
    Matrix m(static_cast<size_t>(out), std::vector<float>(static_cast<size_t>(in)));
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i)
        m[static_cast<size_t>(o)][static_cast<size_t>(i)] =
            static_cast<float>((((expert * 3 + part) * 2 + role) * 10 + o) * 10 + i);
    return m;
  }
  std::vector<uint32_t> parts() const {
    return layer_.gated ? std::vector<uint32_t>{0, 1, 2} : std::vector<uint32_t>{1, 2};
  }
  std::string text() const {
    std::string result = form_ == Form::split ? "split" : form_ == Form::flat ? "flat" : "stacked";
    for (const TensorRule& rule : layout_.rules) {
      result += "; " + rule.pattern + (rule.transposed ? " transposed" : "") +
                (rule.interleaved ? " interleaved" : "") + ":";
      for (const uint32_t part : rule.parts) result += " " + std::to_string(part);
    }
    return result;
  }

  spec::Model model;
  spec::Tensors tensors;
  testing::SafetensorsEdit edit;
  bool gate_transposed = false, latent_transposed = false;

 private:
  bool coin() { return number(0, 1) == 1; }
  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  void add(const std::vector<uint32_t>& parts) {
    std::string name = form_ == Form::split ? "{expert}.w" : "w";
    for (const uint32_t part : parts) name += "ABC"[part];
    TensorRule rule = expert_rule(name, parts);
    rule.flat = form_ == Form::flat;
    rule.transposed = coin();
    rule.interleaved = parts.size() == 2 && coin();
    layout_.rules.push_back(rule);
    if (!layer_.bias) return;
    rule.pattern += "_bias";
    rule.role = MOERT_ROLE_BIAS;
    rule.flat = rule.transposed = false;
    layout_.rules.push_back(rule);
  }
  // The matrix of one expert as its tensor holds it: the parts' rows together, turned at last.
  Matrix matrix_of(const TensorRule& rule, int64_t expert) const {
    Matrix rows;
    std::vector<Matrix> parts;
    for (const uint32_t part : rule.parts) parts.push_back(wanted(expert, part, rule.role));
    if (rule.interleaved) {
      for (size_t o = 0; o < parts[0].size(); ++o)
        for (const Matrix& part : parts) rows.push_back(part[o]);
    } else {
      for (const Matrix& part : parts) rows.insert(rows.end(), part.begin(), part.end());
    }
    return rule.transposed ? turned(rows) : rows;
  }
  void store(const TensorRule& rule) {
    const int64_t experts = layer_.routing.num_experts;
    std::vector<float> values;
    std::vector<int64_t> shape;
    for (int64_t e = 0; e < experts; ++e) {
      const Matrix m = matrix_of(rule, e);
      for (const std::vector<float>& row : m) values.insert(values.end(), row.begin(), row.end());
      const auto rows = static_cast<int64_t>(m.size());
      shape = {rows, static_cast<int64_t>(m.front().size())};
      if (rule.role == MOERT_ROLE_BIAS) shape = {rows};
      if (rule.stacked) continue;
      edit.add_f32(expand(rule, layer_.layer_id, e), shape, values);
      values.clear();
    }
    if (!rule.stacked) return;
    if (rule.flat)
      shape[0] *= experts;
    else
      shape.insert(shape.begin(), experts);
    edit.add_f32(expand(rule, layer_.layer_id, 0), shape, values);
  }
  void add_router() {
    gate_transposed = coin();
    tensors.others.push_back(rule_of(Target::router, "l.{layer}.gate", {MOERT_ROUTER_GATE_WEIGHT}));
    tensors.others.back().transposed = gate_transposed;
    add_matrix("gate", layer_.routing.rows(), model.hidden_size, gate_transposed);
  }
  void add_latent() {
    if (layer_.latent_size == 0) return;
    latent_transposed = coin();
    for (const auto& [name, part] :
         {std::pair{"down", MOERT_PART_LATENT_DOWN}, std::pair{"up", MOERT_PART_LATENT_UP}}) {
      tensors.others.push_back(
          rule_of(Target::layer, "l.{layer}." + std::string(name), {static_cast<uint32_t>(part)}));
      tensors.others.back().transposed = latent_transposed;
    }
    add_matrix("down", layer_.latent_size, model.hidden_size, latent_transposed);
    add_matrix("up", model.hidden_size, layer_.latent_size, latent_transposed);
  }
  // 0, 1, 2 ... along the rows of [out, in].
  void add_matrix(const std::string& name, int64_t out, int64_t in, bool transposed) {
    std::vector<float> values;
    for (int64_t r = 0; r < (transposed ? in : out); ++r)
      for (int64_t c = 0; c < (transposed ? out : in); ++c)
        values.push_back(static_cast<float>(transposed ? c * in + r : r * in + c));
    edit.add_f32("l." + std::to_string(layer_.layer_id) + "." + name,
                 transposed ? std::vector<int64_t>{in, out} : std::vector<int64_t>{out, in},
                 values);
  }

  std::mt19937 random_;
  spec::MoELayer layer_;
  spec::Layout layout_;
  Form form_ = Form::split;
};

class DrawnLayouts : public Numbered {
 protected:
  void expect_counting(const Plan& found, Target target, uint32_t part, int64_t out, int64_t in) {
    const Part got = read(found, target, part);
    EXPECT_EQ(got.shape, (std::vector<int64_t>{out, in}));
    for (size_t i = 0; i < got.values.size(); ++i)
      EXPECT_EQ(got.values[i], static_cast<float>(i)) << "part " << part;
  }
  void check(const Draw& draw) {
    model = draw.model;
    tensors = draw.tensors;
    edit = draw.edit;
    const Plan found = plan();
    ASSERT_EQ(texts_of(found), std::vector<std::string>{});
    EXPECT_EQ(found.used, edit.tensors.size());
    for (int64_t e = 0; e < layer().routing.num_experts; ++e)
      for (const uint32_t part : draw.parts())
        for (uint32_t role = 0; role < (layer().bias ? 2u : 1u); ++role) {
          std::vector<float> values;
          for (const std::vector<float>& row : draw.wanted(e, part, role))
            values.insert(values.end(), row.begin(), row.end());
          EXPECT_EQ(read(found, Target::expert, part, e, role).values, values)
              << "expert " << e << ", part " << part << ", role " << role;
        }
    const int64_t h = model.hidden_size, inner = layer().latent_size;
    expect_counting(found, Target::router, MOERT_ROUTER_GATE_WEIGHT, layer().routing.rows(), h);
    if (inner == 0) return;
    expect_counting(found, Target::layer, MOERT_PART_LATENT_DOWN, inner, h);
    expect_counting(found, Target::layer, MOERT_PART_LATENT_UP, h, inner);
  }
};

TEST_F(DrawnLayouts, ReadBackWhatWasWritten) {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    const Draw draw(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + draw.text());
    check(draw);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace moert::weights
