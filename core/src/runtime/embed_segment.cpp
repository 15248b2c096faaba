// SharedCapture of the embedding API, over the segment's reader.
// SPDX-License-Identifier: Apache-2.0
#include <moert/moert.hpp>

#include "capture/segment.hpp"

namespace moert {

struct SharedCapture::Impl {
  Impl(const std::string& name, const std::string& folder)
      : reader(name,
               folder.empty() ? capture::default_segment_folder() : std::filesystem::path(folder)) {
    for (const capture::CapturedLayer& layer : reader.info().layers)
      layers.push_back({layer.layer_id, layer.num_experts, layer.top_k});
  }
  int64_t checked(int64_t row) const {
    if (row >= 0 && row < rows.rows()) return row;
    throw Error(Fault::usage,
                "row " + std::to_string(row) + " of " + std::to_string(rows.rows()) +
                    " that were taken last",
                reader.path().string(), "count rows from 0 up to what take() gave");
  }
  capture::SegmentReader reader;
  capture::SegmentRows rows;
  std::vector<CapturedLayer> layers;
};

SharedCapture::SharedCapture(const std::string& name, const std::string& folder)
    : impl_(std::make_unique<Impl>(name, folder)) {}
SharedCapture::SharedCapture(SharedCapture&&) noexcept = default;
SharedCapture& SharedCapture::operator=(SharedCapture&&) noexcept = default;
SharedCapture::~SharedCapture() = default;

const std::vector<CapturedLayer>& SharedCapture::layers() const { return impl_->layers; }

int64_t SharedCapture::take(int64_t most) { return impl_->reader.take(impl_->rows, most); }

bool SharedCapture::finished() const {
  // In this order: what was published before the owner went is waiting by then.
  const bool gone = impl_->reader.state() != capture::SegmentState::open;
  return gone && impl_->reader.waiting() == 0;
}

int64_t SharedCapture::lost() const { return impl_->reader.info().lost; }

int64_t SharedCapture::sequence(int64_t row) const {
  return impl_->rows.key(impl_->checked(row)).sequence;
}

int64_t SharedCapture::position(int64_t row) const {
  return impl_->rows.key(impl_->checked(row)).position;
}

bool SharedCapture::read(int64_t row, size_t layer, int32_t* ids, float* weights,
                         float* margin) const {
  if (layer >= impl_->layers.size())
    throw Error(Fault::usage, "layer index " + std::to_string(layer), impl_->reader.path().string(),
                "see SharedCapture::layers()");
  return impl_->rows.read(impl_->checked(row), layer, ids, weights, margin);
}

}  // namespace moert
