// SPDX-License-Identifier: Apache-2.0
#include "weights/scale_window.hpp"

#include <moert/sdk/tensor.hpp>

namespace moert::weights {
namespace {

int64_t along(int64_t size, int64_t block) {
  return block == 0 ? 1 : size / block + (size % block != 0 ? 1 : 0);
}

// A shape that holds the scales, and how far apart they are in it.
struct Form {
  std::vector<int64_t> shape;
  int64_t expert = 0, down = 0, right = 0;  // strides
  int64_t half = 0;                         // of halves that have a scale each
};

// Adds the strides of a dense tensor. A stride of a dimension that is left out stays 0.
Form form_of(const ScaleGrid& grid, int64_t down, int64_t right, bool has_down, bool has_right) {
  Form form;
  const bool transposed = grid.rule->transposed;
  if (grid.rule->stacked && !grid.rule->flat) form.shape.push_back(grid.experts);
  const auto add = [&form](int64_t size) { form.shape.push_back(size); };
  if (transposed && has_right) add(right);
  if (has_down) add(down);
  if (!transposed && has_right) add(right);
  int64_t stride = 1;
  const auto take = [&stride](int64_t size) {
    const int64_t here = stride;
    stride *= size;
    return here;
  };
  if (!transposed && has_right) form.right = take(right);
  if (has_down) form.down = take(down);
  if (transposed && has_right) form.right = take(right);
  form.expert = stride;
  return form;
}

std::vector<Form> forms_of(const ScaleGrid& grid) {
  const spec::TensorRule& rule = *grid.rule;
  // A flat tensor has its experts one after the other along the dimension that is stored first.
  const int64_t rows = rule.flat && !rule.transposed ? grid.out * grid.experts : grid.out;
  const int64_t cols = rule.flat && rule.transposed ? grid.in * grid.experts : grid.in;
  const int64_t down = along(rows, grid.block.rows), right = along(cols, grid.block.cols);
  std::vector<Form> forms = {form_of(grid, down, right, true, true)};
  if (grid.block.cols == 0) forms.push_back(form_of(grid, down, 1, true, false));
  if (grid.block.rows != 0 || grid.block.cols != 0) return forms;
  forms.push_back(form_of(grid, 1, 1, false, false));
  if (rule.parts.size() == 2) {  // a scale for each half
    for (Form form : {form_of(grid, 2, 1, true, true), form_of(grid, 2, 1, true, false)}) {
      form.half = form.down;
      forms.push_back(form);
    }
  }
  for (const size_t rank : {0u, 1u}) forms.push_back({std::vector<int64_t>(rank, 1), 0, 0, 0, 0});
  return forms;
}

std::string across(const char* what, int64_t block, int64_t size) {
  return "expected blocks that end where gate, up and the experts end: " + std::to_string(block) +
         " " + what + " do not divide " + std::to_string(size);
}

}  // namespace

bool scale_window(const std::vector<int64_t>& shape, const ScaleGrid& grid, int64_t expert,
                  int64_t half, Window* window, std::string* problem) {
  const std::vector<Form> forms = forms_of(grid);
  const Form* form = nullptr;
  for (const Form& each : forms)
    if (form == nullptr && each.shape == shape) form = &each;
  if (form == nullptr) {
    const std::vector<int64_t>& usual = forms.front().shape;
    *problem = "expected " + moert::shape_text(usual.data(), static_cast<uint32_t>(usual.size()));
    return false;
  }
  const spec::TensorRule& rule = *grid.rule;
  const auto halves = static_cast<int64_t>(rule.parts.size());
  const int64_t out = grid.out / halves, block = grid.block.rows, wide = grid.block.cols;
  const bool alternate = rule.interleaved && halves > 1;
  const bool is_below = rule.flat && !rule.transposed, is_beside = rule.flat && rule.transposed;
  const int64_t before = (is_below ? expert * grid.out : 0) + (alternate ? 0 : half * out);
  if (block > 1 && (before % block != 0 || alternate ||
                    (is_below && grid.experts > 1 && grid.out % block != 0))) {
    *problem = across("rows", block, out);
    return false;
  }
  if (is_beside && wide > 1 && grid.experts > 1 && grid.in % wide != 0) {
    *problem = across("columns", wide, grid.in);
    return false;
  }
  const int64_t step = alternate && block == 1 ? halves : 1;
  window->shape = {along(out, block), along(grid.in, wide)};
  window->strides = {form->down * step, form->right};
  window->first = (rule.stacked && !rule.flat ? expert * form->expert : 0) + half * form->half;
  if (is_beside && wide != 0) window->first += expert * grid.in / wide * form->right;
  if (block != 0) window->first += (before / block + (alternate ? half : 0)) * form->down;
  return true;
}

}  // namespace moert::weights
