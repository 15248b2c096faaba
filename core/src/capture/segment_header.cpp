// SPDX-License-Identifier: Apache-2.0
#include "capture/segment_header.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <moert/error.hpp>
#include <moert/sdk/capture_row.hpp>

namespace moert::capture {
namespace {

// More than any model has. What a row takes is allocated by whoever reads it.
constexpr uint32_t kMostLayers = 1u << 16;
constexpr uint64_t kMostRowBytes = 1u << 26, kMostFacts = 1u << 16;
constexpr uint32_t kKnown = MOERT_CAPTURE_IDS | MOERT_CAPTURE_WEIGHTS | MOERT_CAPTURE_MARGINS;

// Collects the place of what is wrong.
class Checker {
 public:
  explicit Checker(const std::filesystem::path& path) : path_(path) {}
  [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const {
    throw Error(Fault::input, problem, path_.string(), remedy);
  }
  void require(bool right, const std::string& problem) const {
    if (!right) fail(problem, "the file is damaged, or no segment of captured routing");
  }

 private:
  const std::filesystem::path& path_;
};

bool read_all(int fd, void* to, size_t bytes, uint64_t offset) {
  auto* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = ::pread(fd, next, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    next += n;
    bytes -= static_cast<size_t>(n);
    offset += static_cast<uint64_t>(n);
  }
  return true;
}

void check_kind(const moert_capture_segment_t& h, const Checker& check) {
  check.require(std::memcmp(h.magic, MOERT_CAPTURE_SEGMENT_MAGIC, sizeof h.magic) == 0,
                "this is no segment of captured routing: it does not begin with its mark");
  check.require(h.byte_order == MOERT_CAPTURE_SEGMENT_BYTE_ORDER,
                "the segment has the byte order of another machine");
  if (h.version != MOERT_CAPTURE_SEGMENT_VERSION)
    check.fail("the segment has version " + std::to_string(h.version) + ", this program reads " +
                   std::to_string(MOERT_CAPTURE_SEGMENT_VERSION),
               "use the same release on both sides");
  check.require(
      h.header_bytes == sizeof h && h.layer_bytes == sizeof(moert_capture_segment_layer_t),
      "the sizes of the header's parts are not those of its version");
}

// Sizes against the file's, before anything is read by them. Each sum is of numbers below the file's size.
void check_sizes(const moert_capture_segment_t& h, uint64_t file_bytes, const Checker& check) {
  check.require((h.what & MOERT_CAPTURE_IDS) != 0 && (h.what & ~kKnown) == 0,
                "what is captured is " + std::to_string(h.what) + ", which has no meaning");
  check.require(h.n_layers >= 1 && h.n_layers <= kMostLayers,
                "the segment says that it has " + std::to_string(h.n_layers) + " layers");
  check.require(h.total_bytes == file_bytes,
                "the segment says that it has " + std::to_string(h.total_bytes) +
                    " bytes, the file has " + std::to_string(file_bytes));
  check.require(h.layers_offset >= sizeof h && h.layers_offset % 8 == 0 &&
                    h.layers_offset < file_bytes && h.rows_offset % 8 == 0 &&
                    h.rows_offset < file_bytes &&
                    h.layers_offset + uint64_t{h.n_layers} * h.layer_bytes <= h.rows_offset,
                "the table of layers does not lie between the header and the rows");
  check.require(h.facts_offset < file_bytes && h.facts_bytes <= kMostFacts &&
                    h.facts_offset >= h.layers_offset + uint64_t{h.n_layers} * h.layer_bytes &&
                    h.facts_offset + h.facts_bytes <= h.rows_offset,
                "the facts of the model do not lie between the layers and the rows");
  check.require(h.capacity >= 1 && h.row_bytes >= 1 && h.row_bytes <= kMostRowBytes &&
                    h.capacity <= (file_bytes - h.rows_offset) / h.row_bytes,
                std::to_string(h.capacity) + " rows of " + std::to_string(h.row_bytes) +
                    " bytes do not lie in the file");
}

void check_layers(const std::vector<CapturedLayer>& layers, const Checker& check) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const CapturedLayer& layer = layers[i];
    const std::string name = "layer " + std::to_string(layer.layer_id);
    check.require(layer.layer_id >= 0 && (i == 0 || layer.layer_id > layers[i - 1].layer_id),
                  name + " does not come after the one before it");
    check.require(layer.num_experts >= 1 && layer.num_experts <= INT32_MAX && layer.top_k >= 1 &&
                      layer.top_k <= layer.num_experts,
                  name + " has top_k " + std::to_string(layer.top_k) + " of " +
                      std::to_string(layer.num_experts) + " experts");
  }
}

// key NUL text NUL ...; a part without its end is damage.
std::map<std::string, std::string> split_facts(const std::string& bytes, const Checker& check) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t end = bytes.find('\0', begin);
    check.require(end != std::string::npos, "the facts of the model are cut off");
    parts.push_back(bytes.substr(begin, end - begin));
    begin = end + 1;
  }
  check.require(parts.size() % 2 == 0, "the facts of the model are cut off");
  std::map<std::string, std::string> facts;
  for (size_t i = 0; i < parts.size(); i += 2) facts[parts[i]] = parts[i + 1];
  return facts;
}

struct flock write_lock(off_t byte) {
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

}  // namespace

SegmentHeader read_segment_header(int fd, const std::filesystem::path& path) {
  const Checker check(path);
  struct stat stat{};
  check.require(::fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode), "this is no file");
  const auto file_bytes = static_cast<uint64_t>(stat.st_size);
  SegmentHeader header{};
  check.require(
      file_bytes >= sizeof header.fields && read_all(fd, &header.fields, sizeof header.fields, 0),
      "the file has " + std::to_string(file_bytes) + " bytes, the header of a segment alone has " +
          std::to_string(sizeof header.fields));
  const moert_capture_segment_t& fields = header.fields;
  check_kind(fields, check);
  check_sizes(fields, file_bytes, check);
  std::vector<moert_capture_segment_layer_t> table(fields.n_layers);
  check.require(read_all(fd, table.data(), table.size() * sizeof table[0], fields.layers_offset),
                "the table of layers cannot be read");
  for (const moert_capture_segment_layer_t& layer : table)
    header.layers.push_back({layer.layer_id, layer.num_experts, layer.top_k});
  check_layers(header.layers, check);
  std::string facts(fields.facts_bytes, '\0');
  check.require(read_all(fd, facts.data(), facts.size(), fields.facts_offset),
                "the facts of the model cannot be read");
  header.facts = split_facts(facts, check);
  return header;
}

bool segment_locked(int fd, off_t byte) {
  struct flock lock = write_lock(byte);
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool lock_segment(int fd, off_t byte) {
  struct flock lock = write_lock(byte);
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

uint64_t waiting_rows(uint64_t head, uint64_t tail, uint64_t capacity,
                      const std::filesystem::path& path) {
  const uint64_t rows = head - tail;
  Checker(path).require(head >= tail && rows <= capacity,
                        "the segment says that " + std::to_string(head) +
                            " rows were published and " + std::to_string(tail) +
                            " taken, which a ring of " + std::to_string(capacity) +
                            " rows cannot have");
  return rows;
}

}  // namespace moert::capture
