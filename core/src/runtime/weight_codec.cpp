// SPDX-License-Identifier: Apache-2.0
#include "runtime/weight_codec.hpp"

#include <utility>

#include "runtime/call.hpp"
#include "runtime/quant_record.hpp"

namespace moert::runtime {

namespace {

// A weight in memory as the quant methods see it; immovable. Borrows the bytes.
struct View {
  std::vector<TensorView> views;
  moert_quant_view_t record{};

  View(const TargetScheme& target, const std::vector<StoredPart>& parts, WeightCodec::Bytes& bytes,
       bool transposed) {
    record.struct_size = sizeof record;
    record.scheme = target.scheme.name.c_str();
    record.layout = "canonical";
    for (size_t i = 0; i < parts.size(); ++i) {
      const StoredPart& part = parts[i];
      views.emplace_back(bytes[i].data(), part.dtype, part.shape.data(),
                         static_cast<uint32_t>(part.shape.size()), 0u);
      if (transposed && part.shape.size() == 2) {
        views.back().set_stride(0, 1, bytes[i].size());
        views.back().set_stride(1, part.shape[0], bytes[i].size());
      }
    }
    for (size_t i = 1; i < parts.size(); ++i) companion_of(record, parts[i].param) = views[i].get();
    views.front().set_quant(&record);
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
};

}  // namespace

WeightCodec::WeightCodec(const Session& session, std::vector<std::string> prefer)
    : session_(session) {
  settings_.prefer = std::move(prefer);
}

const Quant& WeightCodec::method(const spec::Scheme& scheme, const std::string& name) {
  const std::string key = scheme.text();
  const auto known = methods_.find(key);
  if (known != methods_.end()) return known->second;
  const KindChoice choice = choose_quant(session_, {"quant", 0, scheme, name, name, 1}, settings_);
  require_accepted(choice);
  return methods_.emplace(key, make_quant(session_, choice)).first->second;
}

std::pair<int64_t, int64_t> WeightCodec::extent(const weights::Checkpoint& checkpoint,
                                                const weights::Source& source,
                                                const weights::Format& format) {
  const TensorView view = weights::source_view(checkpoint, source, &format);
  const int64_t down = view.get()->shape[0], right = view.get()->shape[1];
  const std::string& scheme = format.scheme.name;
  if (scheme.starts_with("int4_packed")) return {down, right * 8};
  if (scheme.starts_with("int4_gptq")) return {right, down * 8};
  if (scheme.starts_with("int4_awq")) return {right * 8, down};
  return {down, right};
}

void WeightCodec::decode(const weights::Checkpoint& checkpoint, const weights::Source& source,
                         const weights::Format& format, int64_t rows, float* out, int64_t stride) {
  const std::string place = checkpoint.place(*source.tensor);
  const Quant& quant = method(format.scheme, source.tensor->name);
  TensorView view = weights::source_view(checkpoint, source, &format);
  const QuantRecord record(checkpoint, source, format);
  view.set_quant(&record.view);
  Call call;
  call.check(quant->check(quant.self(), view, call.out()), quant.name(), "check", place);
  call.check(quant->decode(quant.self(), view, 0, rows, out, stride, call.out()), quant.name(),
             "decode", place);
}

std::vector<StoredPart> WeightCodec::parts(const TargetScheme& target, int64_t rows, int64_t cols,
                                           const std::string& name) {
  const Quant& quant = method(target.scheme, name);
  moert_quant_param_t found[8];
  uint32_t count = 0;
  Call call;
  call.check(quant->parameters(quant.self(), rows, cols, found, 8, &count, call.out()),
             quant.name(), "name the tensors", name);
  std::vector<StoredPart> parts;
  for (uint32_t i = 0; i < count && i < 8; ++i)
    if (found[i].required != 0)
      parts.push_back({found[i].param, found[i].dtype,
                       std::vector<int64_t>(found[i].shape, found[i].shape + found[i].rank)});
  return parts;
}

WeightCodec::Bytes WeightCodec::encode(const TargetScheme& target,
                                       const std::vector<float>& elements, int64_t rows,
                                       int64_t cols, bool transposed, const std::string& name) {
  const std::vector<StoredPart> stored = parts(target, rows, cols, name);
  Bytes bytes;
  for (const StoredPart& part : stored) {
    int64_t count = 1;
    for (const int64_t size : part.shape) count *= size;
    bytes.emplace_back(dtype_bytes(part.dtype, count));
  }
  const View view(target, stored, bytes, transposed);
  const TensorView source(elements.data(), MOERT_DTYPE_F32, {rows, cols});
  const Quant& quant = method(target.scheme, name);
  Call call;
  call.check(quant->encode(quant.self(), source, view.views.front(), call.out()), quant.name(),
             "encode", name);
  return bytes;
}

void WeightCodec::decode_again(const TargetScheme& target, Bytes& bytes, int64_t rows, int64_t cols,
                               bool transposed, std::vector<float>& out, const std::string& name) {
  const View view(target, parts(target, rows, cols, name), bytes, transposed);
  const Quant& quant = method(target.scheme, name);
  out.resize(static_cast<size_t>(rows * cols));
  Call call;
  call.check(quant->decode(quant.self(), view.views.front(), 0, rows, out.data(), cols, call.out()),
             quant.name(), "decode", name);
}

}  // namespace moert::runtime
