// SPDX-License-Identifier: Apache-2.0
#include "capture/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <moert/error.hpp>
#include <moert/sdk/capture_row.hpp>
#include <system_error>
#include <utility>

#include "capture/segment_files.hpp"
#include "capture/segment_header.hpp"

namespace moert::capture {

// How the bytes of a row are read; batches share it with their reader.
struct SegmentRows::Form {
  CaptureRowLayout layout;
};

SegmentRows::SegmentRows() = default;
SegmentRows::SegmentRows(SegmentRows&&) noexcept = default;
SegmentRows& SegmentRows::operator=(SegmentRows&&) noexcept = default;
SegmentRows::~SegmentRows() = default;

RowKey SegmentRows::key(int64_t row) const {
  const CaptureRowLayout& layout = form_->layout;
  const std::byte* at = &bytes_[static_cast<size_t>(row) * layout.bytes()];
  return {layout.sequence(at), layout.position(at)};
}

bool SegmentRows::present(int64_t row, size_t layer) const {
  const CaptureRowLayout& layout = form_->layout;
  return layout.present(&bytes_[static_cast<size_t>(row) * layout.bytes()], layer);
}

bool SegmentRows::read(int64_t row, size_t layer, int32_t* ids, float* weights,
                       float* margin) const {
  if (!present(row, layer)) return false;
  const CaptureRowLayout& layout = form_->layout;
  layout.get(&bytes_[static_cast<size_t>(row) * layout.bytes()], layer, ids, weights, margin);
  return true;
}

struct SegmentReader::Impl {
  Impl(const std::string& name, const std::filesystem::path& folder);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();
  void attach();
  void map();
  // Rows that wait, by the owner's counter and this reader's own.
  uint64_t waiting() const {
    return waiting_rows(__atomic_load_n(&shared->head, __ATOMIC_ACQUIRE), tail,
                        header.fields.capacity, path);
  }

  std::filesystem::path path;
  SegmentFile file;
  SegmentHeader header;
  std::shared_ptr<const SegmentRows::Form> form;
  moert_capture_segment_t* shared = nullptr;
  uint64_t tail = 0, copied = 0;
};

namespace {

constexpr uint64_t kMostBatchBytes = 1u << 28;

CaptureRowLayout layout_of(const SegmentHeader& header, const std::filesystem::path& path) {
  std::vector<int64_t> ids, experts, k;
  for (const CapturedLayer& layer : header.layers) {
    ids.push_back(layer.layer_id);
    experts.push_back(layer.num_experts);
    k.push_back(layer.top_k);
  }
  moert_capture_spec_t spec{};
  spec.what = header.fields.what;
  spec.n_layers = header.fields.n_layers;
  spec.layer_ids = ids.data();
  spec.num_experts = experts.data();
  spec.top_k = k.data();
  CaptureRowLayout layout(spec);
  if (layout.bytes() != header.fields.row_bytes)
    throw Error(Fault::input,
                "a row has " + std::to_string(header.fields.row_bytes) +
                    " bytes, but its layers take " + std::to_string(layout.bytes()),
                path.string(), "the file is damaged, or no segment of captured routing");
  return layout;
}

}  // namespace

SegmentReader::Impl::Impl(const std::string& name, const std::filesystem::path& folder)
    : path(find_segment(name, folder)), file(path, SegmentFile::Use::attach) {
  file.expect_owner();
  header = read_segment_header(file.fd(), path);
  form = std::make_shared<SegmentRows::Form>(SegmentRows::Form{layout_of(header, path)});
  attach();
  map();
  tail = __atomic_load_n(&shared->tail, __ATOMIC_ACQUIRE);
  __atomic_store_n(&shared->reader_pid, int64_t{::getpid()}, __ATOMIC_RELAXED);
}

void SegmentReader::Impl::attach() {
  if (lock_segment(file.fd(), MOERT_CAPTURE_SEGMENT_READER_LOCK)) return;
  // Its number comes after the lock: for a moment it is that of the reader before.
  moert_capture_segment_t now{};
  const bool known = ::pread(file.fd(), &now, sizeof now, 0) == ssize_t{sizeof now};
  throw Error(Fault::usage,
              "another reader is attached" + (known && now.reader_pid > 0
                                                  ? ": process " + std::to_string(now.reader_pid)
                                                  : std::string()),
              path.string(), "a segment has one reader at a time; end that one first");
}

void SegmentReader::Impl::map() {
  void* at =
      ::mmap(nullptr, header.fields.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  if (at == MAP_FAILED)
    throw Error(Fault::device,
                "cannot map " + std::to_string(header.fields.total_bytes) +
                    " bytes: " + std::generic_category().message(errno),
                path.string(), "free some memory");
  shared = static_cast<moert_capture_segment_t*>(at);
}

SegmentReader::Impl::~Impl() {
  if (shared != nullptr) ::munmap(shared, header.fields.total_bytes);
}

SegmentReader::SegmentReader(const std::string& name, const std::filesystem::path& folder)
    : impl_(std::make_unique<Impl>(name, folder)) {}
SegmentReader::SegmentReader(SegmentReader&&) noexcept = default;
SegmentReader& SegmentReader::operator=(SegmentReader&&) noexcept = default;
SegmentReader::~SegmentReader() = default;

const std::filesystem::path& SegmentReader::path() const { return impl_->path; }
int64_t SegmentReader::owner_pid() const { return impl_->header.fields.owner_pid; }
int64_t SegmentReader::waiting() const { return static_cast<int64_t>(impl_->waiting()); }

CaptureInfo SegmentReader::info() const {
  CaptureInfo info;
  info.layers = impl_->header.layers;
  const auto fact = [&](const char* key) {
    const auto found = impl_->header.facts.find(key);
    return found == impl_->header.facts.end() ? std::string() : found->second;
  };
  info.model = fact("model");
  info.family = fact("family");
  info.model_digest = fact("model_digest");
  info.router_digest = fact("router_digest");
  info.simulated = fact("simulated");
  info.source = fact("source");
  const std::string hidden = fact("hidden_layers");
  std::from_chars(hidden.data(), hidden.data() + hidden.size(), info.hidden_layers);
  info.weights = (impl_->header.fields.what & MOERT_CAPTURE_WEIGHTS) != 0;
  info.margins = (impl_->header.fields.what & MOERT_CAPTURE_MARGINS) != 0;
  const uint64_t lost = __atomic_load_n(&impl_->shared->lost, __ATOMIC_RELAXED);
  info.lost = static_cast<int64_t>(std::min<uint64_t>(lost, INT64_MAX));
  return info;
}

SegmentState SegmentReader::state() const {
  const auto closed = [&] {
    return __atomic_load_n(&impl_->shared->closed, __ATOMIC_ACQUIRE) != 0;
  };
  if (closed()) return SegmentState::closed;
  if (segment_locked(impl_->file.fd(), MOERT_CAPTURE_SEGMENT_OWNER_LOCK)) return SegmentState::open;
  // Between the two questions it may have ended as it should.
  return closed() ? SegmentState::closed : SegmentState::owner_died;
}

int64_t SegmentReader::copy(SegmentRows& to, int64_t most) {
  Impl& it = *impl_;
  const moert_capture_segment_t& fields = it.header.fields;
  it.file.expect_size(fields.total_bytes);
  // A ring may be larger than memory: nobody has to write all of a file to make it long.
  const uint64_t fit = std::max<uint64_t>(1, kMostBatchBytes / fields.row_bytes);
  const uint64_t rows =
      std::min({it.waiting(), fit, static_cast<uint64_t>(std::max<int64_t>(0, most))});
  const size_t size = fields.row_bytes;
  to.form_ = it.form;
  to.rows_ = 0;
  to.bytes_.resize(rows * size);
  const std::byte* ring = reinterpret_cast<const std::byte*>(it.shared) + fields.rows_offset;
  // The ring's end may lie within them.
  const uint64_t first = it.tail % fields.capacity;
  const uint64_t before_end = std::min(rows, fields.capacity - first);
  if (rows > 0) {
    std::memcpy(to.bytes_.data(), ring + first * size, before_end * size);
    std::memcpy(to.bytes_.data() + before_end * size, ring, (rows - before_end) * size);
  }
  to.rows_ = static_cast<int64_t>(rows);
  it.copied = rows;
  return to.rows_;
}

void SegmentReader::release() {
  impl_->tail += std::exchange(impl_->copied, 0);
  __atomic_store_n(&impl_->shared->tail, impl_->tail, __ATOMIC_RELEASE);
}

}  // namespace moert::capture
