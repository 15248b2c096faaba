// SPDX-License-Identifier: Apache-2.0
#include "runtime/device.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "runtime/call.hpp"
#include "util/nearest.hpp"

namespace moert::runtime {

namespace {

struct Wanted {
  std::string kind;  // empty: any
  int32_t ordinal = 0;
  bool numbered = false;  // the number was given
};

[[noreturn]] void no_device(const std::string& text) {
  throw Error(Fault::usage, "'" + text + "' is no device", "device",
              "write auto, cpu, or a backend and a number such as cuda:0");
}

Wanted parse_wanted(const std::string& text) {
  if (text == "auto") return {};
  const size_t colon = text.find(':');
  Wanted wanted{text.substr(0, colon), 0, colon != std::string::npos};
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + colon + 1, end, wanted.ordinal);
    if (error != std::errc() || at != end || wanted.ordinal < 0) wanted.kind.clear();
  }
  if (wanted.kind.empty()) no_device(text);
  return wanted;
}

// One that a plugin might have, though none does: in the form of spec.device. Without a number a long one is rather
// "cuda0".
bool may_be_kind(const Wanted& wanted) {
  static constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  const size_t longest = wanted.numbered ? 32 : 4;
  return wanted.kind.size() <= longest &&
         wanted.kind.find_first_not_of(kLetters) == std::string::npos;
}

// By preference of the plugin's short name, then rank, then name.
std::vector<const registry::Candidate*> in_order(std::vector<const registry::Candidate*> all,
                                                 const std::vector<std::string>& prefer) {
  const auto place = [&](const registry::Candidate* c) {
    return std::find(prefer.begin(), prefer.end(), c->plugin_name) - prefer.begin();
  };
  std::sort(all.begin(), all.end(), [&](const auto* a, const auto* b) {
    if (place(a) != place(b)) return place(a) < place(b);
    if (a->rank != b->rank) return a->rank > b->rank;
    return a->name < b->name;
  });
  return all;
}

[[noreturn]] void no_memory(const std::string& where, const std::string& name, uint64_t bytes,
                            const char* purpose, const Call& call) {
  throw Error(Fault::device,
              "no memory " + where + ": " + std::to_string(bytes) + " bytes for " + purpose + " (" +
                  call.message() + ")",
              name, "free memory, use fewer tokens, or choose another device");
}

// "cuda" from a FourCC, without the padding.
std::string kind_text(uint32_t kind) {
  std::string text;
  for (int shift = 0; shift < 32; shift += 8) {
    const char c = static_cast<char>((kind >> shift) & 0xff);
    if (c > ' ' && c < 0x7f) text += c;
  }
  return text;
}

}  // namespace

std::string device_word(const registry::Candidate& feature) {
  for (const auto& [key, value] : feature.caps)
    if (key == "device") return value;
  return kind_text(registry::table_of<moert_device_t>(feature)->kind);
}

Device::Device(const Session& session, const std::string& wanted_text,
               const std::vector<std::string>& prefer) {
  const Wanted wanted = parse_wanted(wanted_text);
  std::vector<std::string> reasons;
  for (const registry::Candidate* candidate :
       in_order(session.registry().candidates(MOERT_KIND_DEVICE), prefer)) {
    if (!wanted.kind.empty() && device_word(*candidate) != wanted.kind) continue;
    std::string why;
    if (open(session, *candidate, wanted.ordinal, why)) return;
    reasons.push_back(candidate->name + ": " + why);
  }
  if (reasons.empty() && !may_be_kind(wanted)) no_device(wanted_text);
  if (reasons.empty())
    reasons.emplace_back("no plugin offers such a device; see `moert plugins list`");
  throw Error(Fault::device, "no device for '" + wanted_text + "'", "device",
              joined(reasons, "; "));
}

bool Device::open(const Session& session, const registry::Candidate& candidate, int32_t ordinal,
                  std::string& why) {
  const auto* table = registry::table_of<moert_device_t>(candidate);
  Call call;
  int32_t count = 0;
  if (table->count(session.host(), &count, call.out()) != MOERT_OK) {
    why = call.message();
    return false;
  }
  if (ordinal >= count) {
    why = "has " + std::to_string(count) + " devices, number " + std::to_string(ordinal) +
          " was asked for";
    return false;
  }
  moert_device_info_t info{};
  info.struct_size = sizeof info;
  if (table->info(ordinal, &info, call.out()) != MOERT_OK) {
    why = call.message();
    return false;
  }
  moert_stream_t stream{};
  stream.struct_size = sizeof stream;
  if (table->stream_create(ordinal, &stream, call.out()) != MOERT_OK) {
    why = call.message();
    return false;
  }
  table_ = table;
  name_ = candidate.name;
  word_ = device_word(candidate);
  info_ = info;
  stream_ = stream;
  return true;
}

Device::~Device() {
  if (table_ != nullptr) table_->stream_destroy(&stream_);
}

std::string Device::text() const { return word_ + ":" + std::to_string(info_.id.ordinal); }

void Device::copy_to_device(void* to, const void* from, uint64_t bytes) const {
  if (bytes == 0) return;
  Call call;
  call.check(table_->copy_to_device(&stream_, to, from, bytes, call.out()), name_.c_str(),
             "copy_to_device");
}

void Device::copy_to_host(void* to, const void* from, uint64_t bytes) const {
  if (bytes == 0) return;
  Call call;
  call.check(table_->copy_to_host(&stream_, to, from, bytes, call.out()), name_.c_str(),
             "copy_to_host");
}

void Device::copy(void* to, const void* from, uint64_t bytes) const {
  if (bytes == 0) return;
  Call call;
  call.check(table_->copy(&stream_, to, from, bytes, call.out()), name_.c_str(), "copy");
}

void Device::fill(void* memory, uint8_t value, uint64_t bytes) const {
  if (bytes == 0) return;
  Call call;
  call.check(table_->fill(&stream_, memory, value, bytes, call.out()), name_.c_str(), "fill");
}

void Device::synchronize() const {
  if (const moert_code_t code = std::exchange(found_, MOERT_OK); code != MOERT_OK)
    found_call_.check(code, name_.c_str(), "stream_synchronize");
  Call call;
  call.check(table_->stream_synchronize(&stream_, call.out()), name_.c_str(), "stream_synchronize");
}

void Device::finish() const noexcept {
  Call call;
  const moert_code_t code = table_->stream_synchronize(&stream_, call.out());
  if (code == MOERT_OK || found_ != MOERT_OK) return;
  found_ = code;
  found_call_ = call;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory::~DeviceMemory() {
  if (data_ == nullptr) return;
  device_->finish();
  device_->table_->free(device_->info_.id.ordinal, data_);
}

void DeviceMemory::reserve(uint64_t bytes, const char* purpose) {
  if (bytes <= bytes_) return;
  const int32_t ordinal = device_->info_.id.ordinal;
  if (data_ != nullptr) device_->finish();
  if (data_ != nullptr) device_->table_->free(ordinal, std::exchange(data_, nullptr));
  bytes_ = 0;
  Call call;
  const moert_code_t code = device_->table_->alloc(ordinal, bytes, &data_, call.out());
  if (code != MOERT_OK) no_memory("on " + device_->text(), device_->name_, bytes, purpose, call);
  bytes_ = bytes;
}

StagingMemory::~StagingMemory() {
  if (data_ == nullptr) return;
  device_->finish();
  device_->table_->free_host(device_->info_.id.ordinal, data_);
}

void StagingMemory::reserve(uint64_t bytes, const char* purpose) {
  if (bytes <= bytes_) return;
  const int32_t ordinal = device_->info_.id.ordinal;
  if (data_ != nullptr) device_->finish();
  if (data_ != nullptr) device_->table_->free_host(ordinal, std::exchange(data_, nullptr));
  bytes_ = 0;
  Call call;
  const moert_code_t code = device_->table_->alloc_host(ordinal, bytes, &data_, call.out());
  if (code != MOERT_OK)
    no_memory("on the host for " + device_->text(), device_->name_, bytes, purpose, call);
  bytes_ = bytes;
}

}  // namespace moert::runtime
