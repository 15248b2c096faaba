// Capture files of what capturers hold, and what those files say of the model.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "capture/capture_file.hpp"
#include "config/config.hpp"
#include "runtime/call.hpp"
#include "runtime/capture_set.hpp"
#include "util/digest.hpp"

namespace moert::runtime {

namespace {

// A chunk is read layer by layer; capturers may keep one in memory.
constexpr int64_t kChunkRows = 4096;

// Of all that decides what the layers compute and choose, but for the weights: not of where the files lie.
std::string model_digest(const spec::Model& model) {
  spec::Model facts = model;
  facts.name.clear();
  facts.checkpoint.clear();
  facts.origin.clear();
  Digest digest;
  digest.add(config::write_model(facts));
  return digest.text();
}

// Of the tensors that decide which experts are chosen, as they are stored.
std::string router_digest(const Model& model) {
  Digest digest;
  for (const weights::LayerPlan& layer : model.plan().layers)
    for (const weights::Source& source : layer.sources) {
      if (source.target != spec::Target::router) continue;
      digest.add(std::to_string(layer.layer_id) + "." + std::to_string(source.part));
      digest.add(model.checkpoint().data(*source.tensor), source.tensor->bytes);
    }
  return digest.text();
}

// The columns of one layer, for reading a chunk.
struct Columns {
  Columns(const capture::CapturedLayer& layer, uint32_t what)
      : k(static_cast<size_t>(layer.top_k)),
        has_weights((what & MOERT_CAPTURE_WEIGHTS) != 0),
        has_margins((what & MOERT_CAPTURE_MARGINS) != 0),
        ids(k * kChunkRows),
        weights(has_weights ? ids.size() : 0),
        margins(has_margins ? kChunkRows : 0),
        present(kChunkRows) {}
  moert_capture_rows_t request(uint32_t layer, int64_t first, int64_t rows) {
    moert_capture_rows_t made{};
    made.struct_size = sizeof made;
    made.layer = layer;
    made.first = first;
    made.rows = rows;
    made.ids = ids.data();
    made.weights = has_weights ? weights.data() : nullptr;
    made.margins = has_margins ? margins.data() : nullptr;
    made.present = present.data();
    return made;
  }
  size_t k;
  bool has_weights, has_margins;
  std::vector<int32_t> ids;
  std::vector<float> weights, margins;
  std::vector<uint8_t> present;
};

void put_chunk(capture::CaptureWriter& writer, size_t layer, const Columns& columns,
               const capture::RowPlaces& places, const std::vector<capture::RowKey>& keys) {
  for (size_t r = 0; r < keys.size(); ++r) {
    const int64_t row = places.place(keys[r]);
    if (columns.present[r] == 0)
      writer.put(row, layer, nullptr);
    else
      writer.put(row, layer, columns.ids.data() + r * columns.k,
                 columns.has_weights ? columns.weights.data() + r * columns.k : nullptr,
                 columns.has_margins ? columns.margins.data() + r : nullptr);
  }
}

}  // namespace

capture::CaptureInfo capture_info(const spec::Model& model) {
  capture::CaptureInfo info;
  info.model = model.name;
  info.family = model.family;
  info.model_digest = model_digest(model);
  info.hidden_layers = model.num_layers;
  info.layers = captured_layers(model);
  info.source = "moert " MOERT_CORE_VERSION;
  return info;
}

capture::CaptureInfo capture_info(const Model& model) {
  capture::CaptureInfo info = capture_info(model.spec());
  info.router_digest = router_digest(model);
  info.simulated = model.simulated();
  return info;
}

void CaptureSet::expect_readable(const AttachedCapturer& capturer) {
  moert_capture_rows_t nothing{};
  nothing.struct_size = sizeof nothing;
  read(capturer, nothing);
}

int64_t CaptureSet::read(const AttachedCapturer& capturer, moert_capture_rows_t request) {
  Call call;
  const moert_code_t code = capturer.part->read(capturer.part.self(), &request, call.out());
  if (code == MOERT_UNIMPLEMENTED && !capturer.wanted.path.empty())
    throw Error(Fault::usage,
                capturer.part.name() + " keeps no rows from which a file could be written",
                "capture.path", "leave `path` out, or capture to memory or file");
  call.check(code, capturer.part.name(), "read");
  return request.written;
}

capture::RowPlaces CaptureSet::places_of(const AttachedCapturer& capturer,
                                         const std::function<void()>& poll) {
  capture::RowPlaces places;
  std::vector<capture::RowKey> keys;
  for (int64_t first = 0; read_keys(capturer, first, keys) > 0;
       first += static_cast<int64_t>(keys.size())) {
    poll();
    for (const capture::RowKey& key : keys) places.add(key);
  }
  places.finish();
  return places;
}

int64_t CaptureSet::read_keys(const AttachedCapturer& capturer, int64_t first,
                              std::vector<capture::RowKey>& keys) {
  std::vector<int64_t> sequences(kChunkRows), positions(kChunkRows);
  moert_capture_rows_t request{};
  request.struct_size = sizeof request;
  request.first = first;
  request.rows = kChunkRows;
  request.sequences = sequences.data();
  request.positions = positions.data();
  const int64_t rows = read(capturer, request);
  keys.resize(static_cast<size_t>(rows));
  for (size_t r = 0; r < keys.size(); ++r) keys[r] = {sequences[r], positions[r]};
  return rows;
}

int64_t CaptureSet::write(const AttachedCapturer& capturer, const std::filesystem::path& path,
                          const std::function<void()>& poll) const {
  flush(capturer);
  const capture::RowPlaces places = places_of(capturer, poll);
  std::vector<capture::RowKey> keys;
  capture::CaptureInfo info = capture_info(model_);
  info.weights = (capturer.what & MOERT_CAPTURE_WEIGHTS) != 0;
  info.margins = (capturer.what & MOERT_CAPTURE_MARGINS) != 0;
  info.lost = counts(capturer).lost;
  std::vector<Columns> columns;
  for (const capture::CapturedLayer& layer : layers_) columns.emplace_back(layer, capturer.what);
  capture::CaptureWriter writer(path, std::move(info), places);
  for (int64_t first = 0; read_keys(capturer, first, keys) > 0;
       first += static_cast<int64_t>(keys.size())) {
    poll();
    const auto rows = static_cast<int64_t>(keys.size());
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      const int64_t got =
          read(capturer, columns[layer].request(static_cast<uint32_t>(layer), first, rows));
      if (got != rows)
        throw Error(Fault::plugin,
                    capturer.part.name() + " gives " + std::to_string(got) + " rows of a layer, " +
                        std::to_string(rows) + " of another",
                    "layer " + std::to_string(layer_ids_[layer]),
                    "do not use this capture; report the plugin");
      put_chunk(writer, layer, columns[layer], places, keys);
    }
  }
  writer.commit();
  return writer.absent();
}

}  // namespace moert::runtime
