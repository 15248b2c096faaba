// SPDX-License-Identifier: Apache-2.0
#include "capture/file_header.hpp"

#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include <moert/error.hpp>

#include "capture/file_layout.hpp"
#include "weights/text.hpp"

namespace moert::capture {
namespace {

constexpr std::string_view kFormat = "moert-capture";
constexpr int64_t kVersion = 1;
constexpr std::string_view kChecksum = "crc32.";

std::string list(const std::vector<CapturedLayer>& layers, int64_t CapturedLayer::* part) {
  std::string text;
  for (const CapturedLayer& layer : layers) text += std::to_string(layer.*part) + ",";
  if (!text.empty()) text.pop_back();
  return text;
}

std::string hex(uint32_t value) {
  std::string text(8, '0');
  for (size_t i = 8; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

bool parse_hex(std::string_view text, uint32_t* value) {
  if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != text.npos) return false;
  return std::from_chars(text.data(), text.data() + text.size(), *value, 16).ec == std::errc();
}

// One spelling for each number: no sign, no leading zero, so that equal captures are equal files.
bool parse_number(std::string_view text, int64_t* value) {
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) return false;
  if (text.size() > 1 && text.front() == '0') return false;
  return std::from_chars(text.data(), text.data() + text.size(), *value).ec == std::errc();
}

class Entries {
 public:
  Entries(const Metadata& metadata, const std::string& file) : metadata_(metadata), file_(file) {}

  [[noreturn]] void fail(const std::string& key, const std::string& problem,
                         const char* remedy = kWriteAgain) const {
    throw Error(Fault::input, problem, file_ + ": metadata " + weights::shown(key), remedy);
  }

  const std::string& text(const std::string& key) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end()) fail(key, "the entry is missing");
    return found->second;
  }

  int64_t number(const std::string& key) const {
    int64_t value = 0;
    if (!parse_number(text(key), &value))
      fail(key, "'" + weights::shown(text(key), 40) + "' is no number");
    return value;
  }

  std::vector<int64_t> numbers(const std::string& key) const {
    std::vector<int64_t> values;
    std::string_view rest = text(key);
    while (true) {
      const size_t comma = rest.find(',');
      int64_t value = 0;
      if (!parse_number(rest.substr(0, comma), &value))
        fail(key, "'" + weights::shown(rest.substr(0, comma), 40) + "' in the list is no number");
      values.push_back(value);
      if (comma == rest.npos) return values;
      rest.remove_prefix(comma + 1);
    }
  }

  void expect(const std::string& key, const std::string& want) const {
    if (text(key) != want)
      fail(key, "it is '" + weights::shown(text(key), 40) + "', expected '" + want + "'");
  }

 private:
  const Metadata& metadata_;
  const std::string& file_;
};

void check_kind(const Metadata& metadata, const std::string& file) {
  const auto format = metadata.find("format");
  if (format == metadata.end() || format->second != kFormat)
    throw Error(Fault::input,
                "a safetensors file, but no capture file: its metadata does not say "
                "format \"moert-capture\"",
                file, "give a file that a capture wrote");
  const Entries entries(metadata, file);
  int64_t version = 0;
  const std::string& text = entries.text("version");
  if (!parse_number(text, &version) || version < 1)
    entries.fail("version", "'" + weights::shown(text, 40) + "' is no version of the format");
  if (version > kVersion)
    entries.fail("version",
                 "written by a newer version: the format is " + text + ", this program reads " +
                     std::to_string(kVersion),
                 "use a newer moert, or let the writer write version 1");
}

std::vector<CapturedLayer> read_layers(const Entries& entries) {
  const std::vector<int64_t> ids = entries.numbers("layers"),
                             experts = entries.numbers("num_experts"),
                             top_k = entries.numbers("top_k");
  const auto check = [&](const char* key, size_t entries_of) {
    if (entries_of != ids.size())
      entries.fail(key, std::to_string(entries_of) + " numbers for " + std::to_string(ids.size()) +
                            " layers");
  };
  check("num_experts", experts.size());
  check("top_k", top_k.size());
  std::vector<CapturedLayer> layers;
  for (size_t i = 0; i < ids.size(); ++i) layers.push_back({ids[i], experts[i], top_k[i]});
  return layers;
}

// Which tensors there are is known by their checksums, which each of them has.
void read_checksums(const Metadata& metadata, const Entries& entries, FileHeader* header) {
  for (const auto& [key, text] : metadata) {
    if (!std::string_view(key).starts_with(kChecksum)) continue;
    uint32_t value = 0;
    if (!parse_hex(text, &value))
      entries.fail(key, "'" + weights::shown(text, 40) + "' are not 8 digits of hexadecimal");
    header->checksums.emplace(key.substr(kChecksum.size()), value);
  }
  header->info.weights = header->checksums.count(kWeights) != 0;
  header->info.margins = header->checksums.count(kMargins) != 0;
}

const char* complete_text(const FileHeader& header) {
  return header.absent == 0 && header.info.lost == 0 && !header.info.cut ? "true" : "false";
}

void check_counts(const Entries& entries, const FileHeader& header) {
  const auto layers = static_cast<int64_t>(header.info.layers.size());
  int64_t pairs = 0;
  if (__builtin_mul_overflow(header.rows, layers, &pairs))
    entries.fail("rows", std::to_string(header.rows) + " rows are too many");
  if (header.absent > pairs)
    entries.fail("absent", std::to_string(header.absent) + " of " + std::to_string(pairs) +
                               " decisions are said to be absent");
  entries.expect("complete", complete_text(header));
}

}  // namespace

Metadata metadata_of(const FileHeader& header) {
  const CaptureInfo& info = header.info;
  Metadata metadata = {
      {"format", std::string(kFormat)},
      {"version", std::to_string(kVersion)},
      {"model", info.model},
      {"family", info.family},
      {"model_digest", info.model_digest},
      {"router_digest", info.router_digest},
      {"hidden_layers", std::to_string(info.hidden_layers)},
      {"layers", list(info.layers, &CapturedLayer::layer_id)},
      {"num_experts", list(info.layers, &CapturedLayer::num_experts)},
      {"top_k", list(info.layers, &CapturedLayer::top_k)},
      {"order", "token"},
      {"slot_order", info.slot_order},
      {"rows", std::to_string(header.rows)},
      {"absent", std::to_string(header.absent)},
      {"lost", std::to_string(info.lost)},
      {"complete", complete_text(header)},
      {"source", info.source},
  };
  if (!info.simulated.empty()) metadata["simulated"] = info.simulated;
  if (info.cut) metadata["cut"] = "true";
  for (const auto& [tensor, value] : header.checksums)
    metadata[std::string(kChecksum) + tensor] = hex(value);
  return metadata;
}

FileHeader read_metadata(const Metadata& metadata, const std::string& file_name) {
  check_kind(metadata, file_name);
  const Entries entries(metadata, file_name);
  FileHeader header;
  CaptureInfo& info = header.info;
  info.model = entries.text("model");
  info.family = entries.text("family");
  info.model_digest = entries.text("model_digest");
  info.router_digest = entries.text("router_digest");
  info.hidden_layers = entries.number("hidden_layers");
  info.layers = read_layers(entries);
  info.slot_order = entries.text("slot_order");
  info.source = entries.text("source");
  info.lost = entries.number("lost");
  if (const auto simulated = metadata.find("simulated"); simulated != metadata.end())
    info.simulated = simulated->second;
  info.cut = metadata.count("cut") != 0;
  if (info.cut) entries.expect("cut", "true");
  entries.expect("order", "token");
  header.rows = entries.number("rows");
  header.absent = entries.number("absent");
  read_checksums(metadata, entries, &header);
  if (const std::string problem = problem_of(info); !problem.empty())
    throw Error(Fault::input, weights::shown(problem), file_name + ": metadata", kWriteAgain);
  check_counts(entries, header);
  return header;
}

}  // namespace moert::capture
