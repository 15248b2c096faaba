// Memory of a device with guard words on both sides, and tensors over it.
// SPDX-License-Identifier: Apache-2.0
#include "buffer.hpp"

#include <algorithm>
#include <cstdlib>

#include "suite.hpp"

namespace moert::conformance {
namespace {
constexpr unsigned char kGuardByte = 0x5a;
constexpr unsigned char kPoison = 0xff;
}  // namespace

Place::Place(const moert_device_t* device) : device_(device), stream_{} {
  stream_.struct_size = sizeof stream_;
  stream_.device = kCpu;
  if (device_ != nullptr)
    must("stream_create", [&](moert_error_t* e) { return device_->stream_create(0, &stream_, e); });
}

Place::~Place() {
  if (device_ != nullptr) device_->stream_destroy(&stream_);
}

void* Place::alloc(uint64_t bytes) {
  void* p = nullptr;
  if (device_ == nullptr)
    p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  else
    must("alloc", [&](moert_error_t* e) { return device_->alloc(0, bytes, &p, e); });
  if (p == nullptr) stop("no memory for a test");
  return p;
}

void Place::release(void* p) {
  if (device_ == nullptr)
    std::free(p);
  else
    device_->free(0, p);
}

void Place::put(void* to, const void* from, uint64_t bytes) {
  if (device_ == nullptr) {
    if (bytes != 0) std::memcpy(to, from, bytes);
    return;
  }
  must("copy_to_device",
       [&](moert_error_t* e) { return device_->copy_to_device(&stream_, to, from, bytes, e); });
  must("stream_synchronize",
       [&](moert_error_t* e) { return device_->stream_synchronize(&stream_, e); });
}

void Place::get(void* to, const void* from, uint64_t bytes) {
  if (device_ == nullptr) {
    if (bytes != 0) std::memcpy(to, from, bytes);
    return;
  }
  must("copy_to_host",
       [&](moert_error_t* e) { return device_->copy_to_host(&stream_, to, from, bytes, e); });
  must("stream_synchronize",
       [&](moert_error_t* e) { return device_->stream_synchronize(&stream_, e); });
}

moert_code_t Place::synchronize(moert_error_t* error) {
  return device_ == nullptr ? moert_code_t{MOERT_OK} : device_->stream_synchronize(&stream_, error);
}

Recording::Recording(Place& place, const std::function<void()>& enqueue) : place_(place) {
  const moert_device_t& device = *place_.device();
  must("graph_begin", [&](auto* e) { return device.graph_begin(place_.stream(), e); });
  enqueue();
  must("graph_end", [&](auto* e) { return device.graph_end(place_.stream(), &graph_, e); });
}

Recording::~Recording() {
  if (graph_ != nullptr) place_.device()->graph_destroy(place_.id().ordinal, graph_);
}

void Recording::launch() {
  must("graph_launch",
       [&](auto* e) { return place_.device()->graph_launch(place_.stream(), graph_, e); });
}

Buffer::Buffer(Place& place, uint64_t bytes)
    : place_(place),
      bytes_(bytes),
      memory_(static_cast<unsigned char*>(place.alloc(bytes + 2 * kGuard))) {
  Bytes contents(bytes + 2 * kGuard, kGuardByte);
  std::fill_n(contents.begin() + kGuard, bytes, kPoison);
  place_.put(memory_, contents.data(), contents.size());
}

void Buffer::write(const void* from, uint64_t bytes) {
  if (bytes != bytes_) stop("a test wrote " + std::to_string(bytes) + " bytes into a buffer");
  place_.put(memory_ + kGuard, from, bytes);
}

Bytes Buffer::read() const {
  Bytes contents(bytes_);
  place_.get(contents.data(), memory_ + kGuard, bytes_);
  return contents;
}

void Buffer::expect_guards(const std::string& name) const {
  Bytes all(bytes_ + 2 * kGuard);
  place_.get(all.data(), memory_, all.size());
  const auto intact = [](unsigned char b) { return b == kGuardByte; };
  EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kGuard, intact))
      << "bytes before " << name << " were written";
  EXPECT_TRUE(std::all_of(all.end() - kGuard, all.end(), intact))
      << "bytes behind " << name << " were written";
}

Tensor::Tensor(Place& place, uint32_t dtype, std::initializer_list<int64_t> shape)
    : view_(static_cast<void*>(nullptr), dtype, shape) {
  buffer_ = std::make_unique<Buffer>(place, view_.get()->bytes);
  view_ = TensorView(buffer_->data(), dtype, shape);
  view_.set_device(place.id());
}

}  // namespace moert::conformance
