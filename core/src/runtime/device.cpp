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
};

Wanted parse_wanted(const std::string& text) {
  if (text == "auto") return {};
  const size_t colon = text.find(':');
  Wanted wanted{text.substr(0, colon), 0};
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + colon + 1, end, wanted.ordinal);
    if (error != std::errc() || at != end || wanted.ordinal < 0) wanted.kind.clear();
  }
  if (wanted.kind.empty() || wanted.kind.size() > 4)
    throw Error(Fault::usage, "'" + text + "' is no device", "device",
                "write auto, cpu, or a backend and a number such as cuda:0");
  return wanted;
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

}  // namespace

std::string device_kind_text(uint32_t kind) {
  std::string text;
  for (int shift = 0; shift < 32; shift += 8) {
    const char c = static_cast<char>((kind >> shift) & 0xff);
    if (c > ' ' && c < 0x7f) text += c;
  }
  return text;
}

Device::Device(const Session& session, const std::string& wanted_text,
               const std::vector<std::string>& prefer) {
  const Wanted wanted = parse_wanted(wanted_text);
  std::vector<std::string> reasons;
  for (const registry::Candidate* candidate :
       in_order(session.registry().candidates(MOERT_KIND_DEVICE), prefer)) {
    const std::string kind = device_kind_text(registry::table_of<moert_device_t>(*candidate)->kind);
    if (!wanted.kind.empty() && kind != wanted.kind) continue;
    std::string why;
    if (open(session, *candidate, wanted.ordinal, why)) return;
    reasons.push_back(candidate->name + ": " + why);
  }
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
  call.check(table->info(ordinal, &info, call.out()), candidate.name, "info");
  moert_stream_t stream{};
  stream.struct_size = sizeof stream;
  call.check(table->stream_create(ordinal, &stream, call.out()), candidate.name, "stream_create");
  table_ = table;
  name_ = candidate.name;
  info_ = info;
  stream_ = stream;
  return true;
}

Device::~Device() {
  if (table_ != nullptr) table_->stream_destroy(&stream_);
}

std::string Device::text() const {
  return device_kind_text(info_.id.kind) + ":" + std::to_string(info_.id.ordinal);
}

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

void Device::synchronize() const {
  Call call;
  call.check(table_->stream_synchronize(&stream_, call.out()), name_.c_str(), "stream_synchronize");
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->table_->free(device_->info_.id.ordinal, data_);
}

void DeviceMemory::reserve(uint64_t bytes, const char* purpose) {
  if (bytes <= bytes_) return;
  const int32_t ordinal = device_->info_.id.ordinal;
  if (data_ != nullptr) device_->table_->free(ordinal, std::exchange(data_, nullptr));
  bytes_ = 0;
  Call call;
  const moert_code_t code = device_->table_->alloc(ordinal, bytes, &data_, call.out());
  if (code != MOERT_OK)
    throw Error(Fault::device,
                "no memory on " + device_->text() + ": " + std::to_string(bytes) + " bytes for " +
                    purpose + " (" + call.message() + ")",
                device_->name_, "free memory, use fewer tokens, or choose another device");
  bytes_ = bytes;
}

}  // namespace moert::runtime
