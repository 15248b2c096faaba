// SPDX-License-Identifier: Apache-2.0
#include "weights/formats.hpp"

#include <algorithm>

#include <moert/abi/quant_method.h>
#include <moert/sdk/tensor.hpp>

#include "weights/scale_window.hpp"

namespace moert::weights {
namespace {

using spec::WeightFormat;

std::string text_of(const TensorInfo& info) {
  return std::string(moert::dtype_name(info.dtype)) + " " +
         moert::shape_text(info.shape.data(), static_cast<uint32_t>(info.shape.size()));
}

bool is_float(uint32_t dtype) { return dtype >= MOERT_DTYPE_F64 && dtype <= MOERT_DTYPE_BF16; }
bool is_fp8(uint32_t dtype) {
  return dtype >= MOERT_DTYPE_F8_E4M3FN && dtype <= MOERT_DTYPE_F8_E5M2;
}
bool is_byte(uint32_t dtype) { return dtype == MOERT_DTYPE_U8 || dtype == MOERT_DTYPE_I8; }

int64_t product(const std::vector<int64_t>& shape) {
  int64_t all = 1;
  for (const int64_t size : shape) all *= size;
  return all;
}

// One weight on its way to a judgement. Every step returns false once there is a fault.
class Judge {
 public:
  Judge(const StoredWeight& stored, const WeightFormat* announced)
      : stored_(stored), announced_(announced) {}

  Judgement run() {
    decide();
    if (result_.detail.empty()) result_.format = std::move(format_);
    return std::move(result_);
  }

 private:
  bool fault(uint32_t param, const std::string& expected) {
    const TensorInfo* info =
        param == MOERT_PARAM_WEIGHT ? stored_.weight : stored_.companion(param);
    result_.param = param;
    result_.fault = info == nullptr ? Finding::missing : Finding::misshapen;
    if (info != nullptr)
      result_.detail = "is " + text_of(*info) + ", " + expected;
    else
      result_.detail =
          std::string(param_text(param)) + " of " + text_of(*stored_.weight) + ", " + expected;
    return false;
  }
  bool need(uint32_t param, const std::string& expected) {
    return stored_.companion(param) != nullptr || fault(param, expected);
  }
  std::string announced(std::string WeightFormat::* word) const {
    return announced_ != nullptr ? announced_->*word : std::string();
  }
  void option(const char* key, const std::string& value) {
    if (!value.empty() && value != "none") format_.scheme.options.emplace_back(key, value);
  }

  bool decide();
  bool plain();
  bool by_announced_scheme();
  bool fp8();
  bool fp4();
  bool int8();
  bool int4();
  bool scaled(const std::string& prefix);
  bool known_scale_dtype();
  bool find_blocks(std::string* word);
  std::string scale_problem(const BlockSize& block) const;
  bool scale_fits();
  bool global_scale();
  bool single(uint32_t param);
  bool found(std::string_view kind);
  bool no_more(std::initializer_list<uint32_t> used);
  bool packed_fits(const std::string& kind, int64_t group);
  bool shape_is_two_numbers();

  const StoredWeight& stored_;
  const WeightFormat* announced_;
  bool is_of_announced_kind_ = false;
  Format format_;
  Judgement result_;
};

bool Judge::decide() {
  const uint32_t dtype = stored_.weight->dtype;
  format_.dtype = dtype;
  if (is_float(dtype)) return plain();
  if (announced_ != nullptr && !is_known_kind(announced_->kind)) return by_announced_scheme();
  if (is_fp8(dtype)) return fp8();
  if (dtype == MOERT_DTYPE_I32) return int4();
  if (!is_byte(dtype) && dtype != MOERT_DTYPE_F4_E2M1)
    return fault(MOERT_PARAM_WEIGHT, "expected floats, or a format of eight or four bits");
  const int64_t elements = stored_.out * stored_.in * stored_.experts;
  const bool full = product(stored_.weight->shape) == elements && is_byte(dtype);
  return full ? int8() : fp4();
}

// What the files hold is of that kind; what was announced of another one says nothing of it.
bool Judge::found(std::string_view kind) {
  is_of_announced_kind_ = announced_ != nullptr && announced_->kind == kind;
  result_.as_announced = announced_ == nullptr || is_of_announced_kind_;
  if (!is_of_announced_kind_) announced_ = nullptr;
  return true;
}

bool Judge::plain() {
  found("none");
  result_.is_plain = true;
  format_.scheme.name = moert::dtype_name(stored_.weight->dtype);
  return no_more({});
}

// A companion that is there was meant to be used.
bool Judge::no_more(std::initializer_list<uint32_t> used) {
  for (uint32_t param = 1; param < kParams; ++param) {
    if (stored_.companion(param) == nullptr || std::count(used.begin(), used.end(), param) != 0)
      continue;
    fault(param, "but the weight beside it is " + format_.scheme.name + ", which has none");
    result_.fault = Finding::unexpected;
    return false;
  }
  return true;
}

// A plugin's own: shapes are judged by its quant method; here only what one scale is of.
bool Judge::by_announced_scheme() {
  format_.scheme.name = announced_->kind;
  if (const TensorInfo* scale = stored_.companion(MOERT_PARAM_SCALE)) {
    format_.scale_dtype = scale->dtype;
    const size_t skip = stored_.rule->stacked && !stored_.rule->flat ? 1 : 0;
    const auto along = [&](size_t at, int64_t size) {
      const int64_t count = scale->shape.size() > at ? scale->shape[at] : 1;
      return count <= 1 ? 0 : size % count == 0 ? size / count : 0;
    };
    format_.block = {along(skip, stored_.out), along(skip + 1, stored_.in)};
  }
  option("activations", announced_->activations);
  return true;
}

bool Judge::fp8() {
  const uint32_t dtype = stored_.weight->dtype;
  const TensorInfo* scale = stored_.companion(MOERT_PARAM_SCALE);
  found(announced_ != nullptr && announced_->kind == "mxfp8" ? "mxfp8" : "fp8");
  if (!need(MOERT_PARAM_SCALE, "expected beside it")) return false;
  format_.scale_dtype = scale->dtype;
  // Bytes are exponents only where that was announced.
  const bool exponents = announced(&WeightFormat::kind) == "mxfp8" ||
                         announced(&WeightFormat::activations).ends_with("_ue8m0");
  if (scale->dtype == MOERT_DTYPE_U8 && exponents) format_.scale_dtype = MOERT_DTYPE_F8_E8M0;
  std::string name(moert::dtype_name(dtype));
  name.replace(0, 3, "fp8_");
  return scaled(name) && global_scale() &&
         no_more({MOERT_PARAM_SCALE, MOERT_PARAM_SCALE2, MOERT_PARAM_INPUT_SCALE});
}

bool Judge::int8() {
  if (stored_.weight->dtype != MOERT_DTYPE_I8)
    return fault(MOERT_PARAM_WEIGHT, "expected i8, or four-bit numbers in half as many bytes");
  found("int8");
  if (!need(MOERT_PARAM_SCALE, "expected beside it")) return false;
  format_.scale_dtype = stored_.companion(MOERT_PARAM_SCALE)->dtype;
  return scaled("int8") && no_more({MOERT_PARAM_SCALE, MOERT_PARAM_INPUT_SCALE});
}

bool Judge::known_scale_dtype() {
  const uint32_t dtype = format_.scale_dtype;
  return dtype == MOERT_DTYPE_F32 || dtype == MOERT_DTYPE_BF16 || dtype == MOERT_DTYPE_F16 ||
         dtype == MOERT_DTYPE_F8_E8M0;
}

bool Judge::scaled(const std::string& prefix) {
  if (!known_scale_dtype()) return fault(MOERT_PARAM_SCALE, "expected f32, bf16, f16 or f8_e8m0");
  std::string blocks;
  if (!find_blocks(&blocks) || !scale_fits()) return false;
  std::string dtype(moert::dtype_name(format_.scale_dtype));
  if (dtype.starts_with("f8_")) dtype.erase(0, 3);
  format_.scheme.name = prefix + "." + blocks + "." + dtype;
  option("activations", announced(&WeightFormat::activations));
  const bool fixed = announced(&WeightFormat::activations) == "static";
  if (fixed && !need(MOERT_PARAM_INPUT_SCALE, "since activations are quantised by a static one"))
    return false;
  return stored_.companion(MOERT_PARAM_INPUT_SCALE) == nullptr || single(MOERT_PARAM_INPUT_SCALE);
}

// As announced; else as the shape says, where it says it: one scale, or one for each row.
bool Judge::find_blocks(std::string* word) {
  *word = announced(&WeightFormat::blocks);
  if (announced(&WeightFormat::kind) == "mxfp8") *word = "block1x32";
  for (const char* each : {"tensor", "channel"})
    if (word->empty() && scale_problem(*block_size_of(each)).empty()) *word = each;
  if (word->empty())
    return fault(MOERT_PARAM_SCALE,
                 "and nothing says what its numbers are of: expected one, one for each row, or "
                 "weight_block_size in the config");
  const std::optional<BlockSize> block = block_size_of(*word);
  if (!block) return fault(MOERT_PARAM_SCALE, "but the config announces blocks '" + *word + "'");
  format_.block = *block;
  return true;
}

// What keeps the scale from being one of such blocks; empty: nothing does.
std::string Judge::scale_problem(const BlockSize& block) const {
  const auto halves = static_cast<int64_t>(stored_.rule->parts.size());
  const ScaleGrid grid = {stored_.rule, stored_.out, stored_.in, stored_.experts, block};
  Window window;
  std::string problem;
  const std::vector<int64_t>& shape = stored_.companion(MOERT_PARAM_SCALE)->shape;
  for (int64_t half = 0; half < halves && problem.empty(); ++half)
    scale_window(shape, grid, stored_.experts - 1, half, &window, &problem);
  return problem;
}

bool Judge::scale_fits() {
  const std::string problem = scale_problem(format_.block);
  return problem.empty() || fault(MOERT_PARAM_SCALE, problem);
}

// One number for a tensor, an expert or a half.
bool Judge::single(uint32_t param) {
  const TensorInfo& info = *stored_.companion(param);
  const ScaleGrid grid = {stored_.rule, stored_.out, stored_.in, stored_.experts, {}};
  Window window;
  std::string problem;
  if (info.dtype != MOERT_DTYPE_F32) return fault(param, "expected f32");
  if (!scale_window(info.shape, grid, stored_.experts - 1, 0, &window, &problem))
    return fault(param, problem);
  return true;
}

bool Judge::global_scale() {
  if (stored_.companion(MOERT_PARAM_SCALE2) == nullptr) return true;
  if (!single(MOERT_PARAM_SCALE2)) return false;
  const std::string word = announced(&WeightFormat::global);
  if (word.empty())
    return fault(MOERT_PARAM_SCALE2,
                 "and nothing says whether numbers are multiplied or divided by it");
  option("global", word);
  return true;
}

// Which of the two the scales tell: exponents, or floats with a second scale above them.
bool Judge::fp4() {
  const TensorInfo* scale = stored_.companion(MOERT_PARAM_SCALE);
  if (!need(MOERT_PARAM_SCALE, "expected beside it")) return false;
  format_.storage = Format::nibbles;
  format_.dtype = MOERT_DTYPE_F4_E2M1;
  const bool nv = scale->dtype == MOERT_DTYPE_F8_E4M3FN;
  if (!nv && scale->dtype != MOERT_DTYPE_U8 && scale->dtype != MOERT_DTYPE_F8_E8M0)
    return fault(MOERT_PARAM_SCALE, "expected u8 or f8_e8m0 (mxfp4), or f8_e4m3fn (nvfp4)");
  found(nv ? "nvfp4" : "mxfp4");
  format_.scale_dtype = nv ? MOERT_DTYPE_F8_E4M3FN : MOERT_DTYPE_F8_E8M0;
  format_.block = {1, nv ? 16 : 32};
  format_.scheme.name = nv ? "nvfp4.g16.e4m3fn" : "mxfp4.g32.e8m0";
  if (stored_.in % format_.block.cols != 0)
    return fault(MOERT_PARAM_WEIGHT, "expected rows of whole groups of " +
                                         std::to_string(format_.block.cols) + ", not of " +
                                         std::to_string(stored_.in));
  const std::string blocks = announced(&WeightFormat::blocks);
  if (!blocks.empty() && block_size_of(blocks) != format_.block)
    return fault(MOERT_PARAM_SCALE, "but the config announces blocks '" + blocks + "'");
  if (!scale_fits()) return false;
  format_.high_first = announced(&WeightFormat::nibbles) == "high";
  const std::string rows = announced(&WeightFormat::activations);
  option("activations", rows);
  if (nv && !need(MOERT_PARAM_SCALE2, "expected beside it")) return false;
  if (nv && !global_scale()) return false;
  if (rows == "nvfp4" && !need(MOERT_PARAM_INPUT_SCALE, "since activations are quantised by it"))
    return false;
  if (stored_.companion(MOERT_PARAM_INPUT_SCALE) != nullptr && !single(MOERT_PARAM_INPUT_SCALE))
    return false;
  if (nv) return no_more({MOERT_PARAM_SCALE, MOERT_PARAM_SCALE2, MOERT_PARAM_INPUT_SCALE});
  return no_more({MOERT_PARAM_SCALE});
}

bool Judge::packed_fits(const std::string& kind, int64_t group) {
  const int64_t out = stored_.out, in = stored_.in;
  const auto up = [](int64_t size, int64_t by) { return (size + by - 1) / by; };
  const int64_t groups = group == 0 ? 1 : up(in, group);
  const bool packed = kind == "int4_packed";
  const std::vector<int64_t> weight = packed                ? std::vector<int64_t>{out, up(in, 8)}
                                      : kind == "int4_gptq" ? std::vector<int64_t>{up(in, 8), out}
                                                            : std::vector<int64_t>{in, up(out, 8)};
  const std::vector<int64_t> scale =
      packed ? std::vector<int64_t>{out, groups} : std::vector<int64_t>{groups, out};
  const std::vector<int64_t> zeros =
      packed ? std::vector<int64_t>{up(out, 8), groups} : std::vector<int64_t>{groups, up(out, 8)};
  const auto fits = [this](uint32_t param, const std::vector<int64_t>& shape, bool is_i32) {
    const TensorInfo* info =
        param == MOERT_PARAM_WEIGHT ? stored_.weight : stored_.companion(param);
    if (info == nullptr || (info->shape == shape && (!is_i32 || info->dtype == MOERT_DTYPE_I32)))
      return true;
    return fault(param, "expected " + std::string(is_i32 ? "i32 " : "") +
                            moert::shape_text(shape.data(), static_cast<uint32_t>(shape.size())));
  };
  return fits(MOERT_PARAM_WEIGHT, weight, true) && fits(MOERT_PARAM_SCALE, scale, false) &&
         fits(MOERT_PARAM_ZERO_POINT, zeros, true) && fits(MOERT_PARAM_GROUP_INDEX, {in}, true) &&
         shape_is_two_numbers();
}

bool Judge::shape_is_two_numbers() {
  const TensorInfo* info = stored_.companion(kShapeParam);
  if (info == nullptr) return true;
  const bool whole = info->dtype == MOERT_DTYPE_I64 || info->dtype == MOERT_DTYPE_I32;
  return (whole && info->shape == std::vector<int64_t>{2}) ||
         fault(kShapeParam, "expected i64 or i32 [2]");
}

bool Judge::int4() {
  if (announced_ == nullptr || !announced_->kind.starts_with("int4_"))
    return fault(MOERT_PARAM_WEIGHT,
                 "which several formats pack in ways of their own: expected a config that "
                 "announces awq, gptq or pack-quantized");
  if (stored_.rule->stacked || stored_.rule->transposed || stored_.rule->parts.size() != 1)
    return fault(MOERT_PARAM_WEIGHT, "expected a tensor of its own for each expert and part");
  const std::string kind = announced_->kind;
  found(kind);
  format_.storage = Format::whole;
  if (!need(MOERT_PARAM_SCALE, "expected beside it")) return false;
  const TensorInfo& scale = *stored_.companion(MOERT_PARAM_SCALE);
  format_.scale_dtype = scale.dtype;
  if (!known_scale_dtype() || scale.dtype == MOERT_DTYPE_F8_E8M0)
    return fault(MOERT_PARAM_SCALE, "expected f16, bf16 or f32");
  const std::optional<BlockSize> block = block_size_of(announced_->blocks);
  if (!block || block->rows != 1)
    return fault(MOERT_PARAM_SCALE, "but the config announces groups '" + announced_->blocks + "'");
  format_.block = *block;
  const std::string zeros = announced_->zeros;
  if (!zeros.empty() && zeros != "none" && !need(MOERT_PARAM_ZERO_POINT, "expected beside it"))
    return false;
  if (announced_->column_groups == "stored" &&
      !need(MOERT_PARAM_GROUP_INDEX, "since columns are announced to be reordered"))
    return false;
  if (!packed_fits(kind, block->cols)) return false;
  format_.scheme.name =
      kind + "." + announced_->blocks + "." + std::string(moert::dtype_name(scale.dtype));
  option("activations", announced_->activations);
  if (!zeros.empty()) format_.scheme.options.emplace_back("zeros", zeros);
  if (zeros == "none") return no_more({MOERT_PARAM_SCALE, MOERT_PARAM_GROUP_INDEX, kShapeParam});
  return no_more({MOERT_PARAM_SCALE, MOERT_PARAM_ZERO_POINT, MOERT_PARAM_GROUP_INDEX, kShapeParam});
}

}  // namespace

Judgement judge(const StoredWeight& stored, const WeightFormat* announced) {
  return Judge(stored, announced).run();
}

bool reads(const Format& format, uint32_t param) {
  if (param == kShapeParam) return false;
  if (param != MOERT_PARAM_INPUT_SCALE) return true;
  const auto& options = format.scheme.options;
  return std::any_of(options.begin(), options.end(), [](const auto& option) {
    return option.first == "activations" && (option.second == "static" || option.second == "nvfp4");
  });
}

}  // namespace moert::weights
