// The weights of a layer's experts on the device, in the order in which warps read them.
// SPDX-License-Identifier: Apache-2.0
#include "packed.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <moert/sdk/weight.hpp>
#include <vector>

#include "../device_memory.hpp"
#include "pack.hpp"
#include "weight_source.hpp"

namespace moert::gpu {
namespace {

constexpr int64_t kPanelRows = 16, kChunk = 32;
constexpr int64_t kAlign = 256;  // where each run of all experts begins

int64_t up_to(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// Bytes of the scales of one projection.
int64_t scale_bytes(const ProjectionLayout& p, ScaleKind kind) {
  switch (kind) {
    case ScaleKind::per_panel: return p.panels * p.scale_blocks * 4;
    case ScaleKind::per_row: return p.panels * p.scale_blocks * kPanelRows * 4;
    case ScaleKind::powers: return p.panels * p.chunks * kPanelRows;
    default: return 0;
  }
}

void lay_out(LayoutId layout, const WeightFormat& format, bool biased, ProjectionLayout* p) {
  const UnitShape unit = unit_shape(layout, format.codec);
  const int64_t block = format.block_cols;
  p->chunks = up_to(p->cols, unit.chunks * kChunk) / kChunk;
  p->codes = p->panels * (p->chunks / unit.chunks) * unit.bytes;
  if (format.scales != ScaleKind::none) {
    // Chunks that are padding have scales too: they are read.
    p->scale_blocks = format.scales == ScaleKind::powers ? p->chunks
                      : format.block_cols == 0           ? 1
                                                         : (p->chunks * kChunk + block - 1) / block;
    p->scale_chunks = format.block_cols == 0 ? 0 : format.block_cols / kChunk;
  }
  p->scales = up_to(scale_bytes(*p, format.scales), 16);
  p->bias = biased ? p->panels * kPanelRows * 4 : 0;
}

}  // namespace

bool PackedLayout::make(LayoutId layout, const WeightFormat& format, const MlpSizes& sizes,
                        PackedLayout* out) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (sizes.hidden >= kMost || sizes.intermediate >= kMost) return false;
  // 2^62 numbers of up to 4 bytes would not fit, and these are twice as many at most.
  if (sizes.hidden * sizes.intermediate >= int64_t{1} << 55) return false;
  PackedLayout made;
  made.layout = layout;
  made.format = format;
  made.down.rows = made.up.cols = sizes.hidden;
  made.down.cols = made.up.rows = sizes.intermediate;
  made.down.panels = up_to(sizes.hidden, kPanelRows) / kPanelRows;
  lay_out(layout, format, sizes.biased, &made.down);
  made.up.halves = sizes.gated ? 2 : 1;
  made.up.panels = made.up.halves * made.down.padded_cols() / kPanelRows;
  lay_out(layout, format, sizes.biased, &made.up);
  *out = made;
  return true;
}

PackedMlps::PackedMlps(const PackedLayout& layout, const MlpSizes& sizes, int64_t experts)
    : layout_(layout), sizes_(sizes) {
  int64_t total = 0;
  std::pair<Run*, int64_t> runs[6];
  int n = 0;
  for (auto [store, p] : {std::pair{&up_, &layout_.up}, std::pair{&down_, &layout_.down}}) {
    store->codes.bytes = p->codes;
    store->scales.bytes = p->scales;
    store->bias.bytes = p->bias;
    for (Run* run : {&store->codes, &store->scales, &store->bias}) {
      runs[n++] = {run, total};
      if (run->bytes > (int64_t{1} << 62) / experts)
        throw PluginError(MOERT_INVALID_ARGUMENT, "the weights' sizes do not fit 64 bits");
      total += up_to(run->bytes * experts, kAlign);
    }
  }
  memory_ = static_cast<unsigned char*>(allocate_for(
      "packed weights of " + std::to_string(experts) + " experts", static_cast<uint64_t>(total)));
  for (const auto& [run, first] : runs) run->base = memory_ + first;
}

PackedMlps::~PackedMlps() { release(memory_); }

Projection PackedMlps::view(const ProjectionLayout& p, const Store& store) const {
  Projection made;
  made.codes = store.codes.base;
  made.codes_per_expert = store.codes.bytes;
  if (p.scales != 0) made.scales = store.scales.base;
  made.scales_per_expert = store.scales.bytes;
  if (p.bias != 0) made.bias = reinterpret_cast<const float*>(store.bias.base);
  made.panels = static_cast<int32_t>(p.panels);
  made.chunks = static_cast<int32_t>(p.chunks);
  made.scale_kind = layout_.format.scales;
  made.scale_blocks = static_cast<int32_t>(p.scale_blocks);
  made.scale_chunks = static_cast<int32_t>(p.scale_chunks);
  return made;
}

Projection PackedMlps::up() const { return view(layout_.up, up_); }
Projection PackedMlps::down() const { return view(layout_.down, down_); }

void PackedMlps::load(const moert_piece_t& piece, const std::string& title) {
  if (piece.role == MOERT_ROLE_BIAS)
    load_bias(piece, title);
  else
    load_weight(piece, title);
}

namespace {

// A stream for as long as a piece is copied.
class OwnStream {
 public:
  OwnStream() : stream_(create_stream()) {}
  ~OwnStream() { destroy_stream(stream_); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  Stream get() const { return stream_; }

 private:
  Stream stream_;
};

// The half of gate and up that a piece feeds: which panels of the projection.
int64_t half_of(const moert_piece_t& piece, int64_t halves) {
  return halves == 2 && piece.part == MOERT_PART_UP ? 1 : 0;
}

}  // namespace

void PackedMlps::load_weight(const moert_piece_t& piece, const std::string& title) {
  const bool is_down = piece.part == MOERT_PART_DOWN;
  const ProjectionLayout& p = is_down ? layout_.down : layout_.up;
  const Store& store = is_down ? down_ : up_;
  const WeightSource source(piece, title, layout_.format, p.rows, p.cols);
  const int64_t half = half_of(piece, p.halves), panels = p.panels / p.halves;
  const int64_t panel_codes = p.codes / p.panels;
  const int64_t panel_scales = scale_bytes(p, layout_.format.scales) / p.panels;
  std::vector<unsigned char> rows(
      static_cast<size_t>(kPanelRows * p.padded_cols() * source.number_bytes()));
  std::vector<unsigned char> codes(static_cast<size_t>(panel_codes * panels));
  std::vector<unsigned char> scales(static_cast<size_t>(panel_scales * panels));
  for (int64_t panel = 0; panel < panels; ++panel) {
    source.read_rows(panel * kPanelRows, p.padded_cols(), rows.data());
    pack_panel(layout_.layout, layout_.format.codec, rows.data(), p.chunks,
               codes.data() + panel * panel_codes);
    if (panel_scales != 0)
      source.read_scales(panel * kPanelRows, p.scale_blocks, layout_.layout,
                         scales.data() + panel * panel_scales);
  }
  const OwnStream stream;
  const auto put = [&](const Run& run, const std::vector<unsigned char>& from, int64_t bytes) {
    unsigned char* to = run.base + piece.expert * run.bytes + half * bytes;
    for (int64_t panel = 0; panel < panels && bytes != 0; ++panel)
      copy_to_device(stream.get(), to + panel * p.halves * bytes, from.data() + panel * bytes,
                     static_cast<uint64_t>(bytes));
  };
  put(store.codes, codes, panel_codes);
  put(store.scales, scales, panel_scales);
  synchronize(stream.get());
}

void PackedMlps::load_bias(const moert_piece_t& piece, const std::string& title) {
  const bool is_down = piece.part == MOERT_PART_DOWN;
  const ProjectionLayout& p = is_down ? layout_.down : layout_.up;
  const Run& run = is_down ? down_.bias : up_.bias;
  const int64_t half = half_of(piece, p.halves), panels = p.panels / p.halves;
  const std::vector<float> numbers = bias_numbers(piece, title, p.rows, panels * kPanelRows);
  const OwnStream stream;
  for (int64_t panel = 0; panel < panels; ++panel)
    copy_to_device(stream.get(),
                   run.base + piece.expert * run.bytes + (panel * p.halves + half) * kPanelRows * 4,
                   numbers.data() + panel * kPanelRows, kPanelRows * 4);
  synchronize(stream.get());
}

void PackedMlps::read(int64_t expert, void* bundle, Stream stream) const {
  auto* to = static_cast<unsigned char*>(bundle);
  for (const Store& store : {up_, down_})
    for (const Run& run : {store.codes, store.scales, store.bias}) {
      copy_on_device(stream, to, run.base + expert * run.bytes, static_cast<uint64_t>(run.bytes));
      to += run.bytes;
    }
}

void PackedMlps::write(int64_t expert, const void* bundle, Stream stream) {
  const auto* from = static_cast<const unsigned char*>(bundle);
  for (const Store& store : {up_, down_})
    for (const Run& run : {store.codes, store.scales, store.bias}) {
      copy_on_device(stream, run.base + expert * run.bytes, from, static_cast<uint64_t>(run.bytes));
      from += run.bytes;
    }
}

}  // namespace moert::gpu
