// SPDX-License-Identifier: Apache-2.0
#include "weights/shard_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <moert/error.hpp>
#include <nlohmann/json.hpp>

#include "weights/header_text.hpp"
#include "weights/text.hpp"

namespace moert::weights {
namespace {

constexpr uint64_t kPiece = 16u << 20;  // between two polls
constexpr uint64_t kSync = 256u << 20;  // so that no sync takes long

std::string shard_name(size_t number, size_t files) {
  const auto padded = [](size_t value) {
    std::string text = std::to_string(value);
    return std::string(text.size() < 5 ? 5 - text.size() : 0, '0') + text;
  };
  return "model-" + padded(number + 1) + "-of-" + padded(files) + ".safetensors";
}

[[noreturn]] void fail(const std::filesystem::path& path, const char* action) {
  throw Error(Fault::device, std::string("cannot ") + action + " the file: " + std::strerror(errno),
              path.string(), "free some space or choose another folder; nothing was kept");
}

}  // namespace

ShardWriter::ShardWriter(std::filesystem::path folder, std::vector<TensorInfo> tensors,
                         uint64_t shard_bytes)
    : folder_(std::move(folder)), tensors_(std::move(tensors)), written_(tensors_.size()) {
  assign_files(shard_bytes);
  open_files();
}

ShardWriter::~ShardWriter() {
  for (const File& file : files_)
    if (file.number >= 0) ::close(file.number);
}

void ShardWriter::assign_files(uint64_t shard_bytes) {
  uint64_t inside = 0;
  uint32_t file = 0;
  for (TensorInfo& info : tensors_) {
    if (inside != 0 && info.bytes > shard_bytes - std::min(inside, shard_bytes)) {
      ++file;
      inside = 0;
    }
    info.file = file;
    inside += info.bytes;
    bytes_ += info.bytes;
  }
  files_.resize(file + 1);
  for (size_t i = 0; i < files_.size(); ++i)
    files_[i].path =
        folder_ / (files_.size() == 1 ? "model.safetensors" : shard_name(i, files_.size()));
}

void ShardWriter::open_files() {
  std::vector<std::vector<TensorInfo*>> contents(files_.size());
  for (TensorInfo& info : tensors_) contents[info.file].push_back(&info);
  for (size_t i = 0; i < files_.size(); ++i) {
    File& file = files_[i];
    file.number = ::open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.number < 0) fail(file.path, "create");
    const std::string header = lay_out(contents[i], {{"format", "pt"}}, file.path);
    put(file, 0, header.data(), header.size());
  }
}

void ShardWriter::put(File& file, uint64_t offset, const void* data, uint64_t bytes) const {
  const auto* from = static_cast<const char*>(data);
  file.unsynced += bytes;
  while (bytes > 0) {
    const ssize_t n = ::pwrite(file.number, from, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(file.path, "write");
    from += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<uint64_t>(n);
  }
}

void ShardWriter::sync(File& file) const {
  if (file.unsynced != 0 && ::fsync(file.number) != 0) fail(file.path, "sync");
  file.unsynced = 0;
}

void ShardWriter::write(size_t tensor, uint64_t offset, const void* data, uint64_t bytes,
                        const std::function<void()>& poll) {
  const TensorInfo& info = tensors_.at(tensor);
  if (offset > info.bytes || bytes > info.bytes - offset)
    throw Error(Fault::usage, "more bytes than the tensor has", "tensor " + shown(info.name),
                "this is a fault of the program");
  File& file = files_[info.file];
  for (uint64_t done = 0; done < bytes;) {
    poll();
    const uint64_t piece = std::min(kPiece, bytes - done);
    put(file, info.offset + offset + done, static_cast<const char*>(data) + done, piece);
    done += piece;
    if (file.unsynced >= kSync) sync(file);
  }
  written_[tensor] += bytes;
}

void ShardWriter::finish(const std::function<void()>& poll) {
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (written_[i] != tensors_[i].bytes)
      throw Error(Fault::usage,
                  std::to_string(written_[i]) + " of " + std::to_string(tensors_[i].bytes) +
                      " bytes were written",
                  "tensor " + shown(tensors_[i].name), "this is a fault of the program");
  for (File& file : files_) {
    poll();
    sync(file);
    if (::close(std::exchange(file.number, -1)) != 0) fail(file.path, "close");
  }
  if (files_.size() > 1) write_index();
}

// As Hugging Face writes it: names in order.
void ShardWriter::write_index() const {
  nlohmann::json map = nlohmann::json::object();
  for (const TensorInfo& info : tensors_) map[info.name] = files_[info.file].path.filename();
  const nlohmann::json index = {{"metadata", {{"total_size", bytes_}}},
                                {"weight_map", std::move(map)}};
  write_text_file(folder_ / "model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace moert::weights
