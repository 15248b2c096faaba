// `moert capture attach` and `segments`: routing that another process captures.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include <moert/error.hpp>

#include "capture/capture_file.hpp"
#include "capture/segment.hpp"
#include "commands.hpp"
#include "json.hpp"
#include "setup.hpp"
#include "signals.hpp"
#include "text_table.hpp"
#include "util/file.hpp"

namespace moert::tool {

namespace {

using capture::CaptureInfo;
using capture::SegmentReader;
using capture::SegmentRows;
using capture::SegmentState;

constexpr std::chrono::milliseconds kPause{2};
constexpr int64_t kBatch = 4096, kLongestWait = 1'000'000;

std::filesystem::path folder_of(const Options& options) {
  return options.folder.empty() ? capture::default_segment_folder()
                                : std::filesystem::path(options.folder);
}

int64_t seconds_of(const Options& options) {
  int64_t seconds = 0;
  const std::string& text = options.wait;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (!text.empty() && (error != std::errc() || end != text.data() + text.size() || seconds < 0 ||
                        seconds > kLongestWait))
    throw Error(Fault::usage, "'" + text + "' is no number of seconds", "--wait",
                "give a number from 0 to " + std::to_string(kLongestWait));
  return seconds;
}

// Waits for a segment that is not there yet; the last try says what is wrong.
SegmentReader attach(const Options& options) {
  const std::filesystem::path folder = folder_of(options);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds_of(options));
  while (std::chrono::steady_clock::now() < end) {
    throw_if_interrupted();
    const std::vector<capture::SegmentInfo> there = capture::list_segments(folder);
    const bool named = std::any_of(there.begin(), there.end(), [&](const auto& segment) {
      return segment.owner_alive &&
             (segment.name == options.target || segment.path == options.target);
    });
    if (named) break;
    std::this_thread::sleep_for(kPause);
  }
  return SegmentReader(options.target, folder);
}

// Until the owner ends it or dies, or Ctrl-C. What was taken is kept in all these cases.
SegmentState take_all(SegmentReader& reader, std::vector<SegmentRows>& batches) {
  for (;;) {
    const SegmentState state = reader.state();
    SegmentRows batch;
    if (reader.take(batch, kBatch) > 0) {
      batches.push_back(std::move(batch));
      continue;
    }
    if (state != SegmentState::open || interrupted()) return state;
    std::this_thread::sleep_for(kPause);
  }
}

void put_batch(capture::CaptureWriter& writer, const capture::RowPlaces& places,
               const CaptureInfo& info, const SegmentRows& batch) {
  std::vector<int32_t> ids;
  std::vector<float> weights;
  for (int64_t row = 0; row < batch.rows(); ++row)
    for (size_t layer = 0; layer < info.layers.size(); ++layer) {
      ids.resize(static_cast<size_t>(info.layers[layer].top_k));
      weights.resize(ids.size());
      float margin = 0;
      const bool present = batch.read(row, layer, ids.data(), weights.data(), &margin);
      writer.put(places.place(batch.key(row)), layer, present ? ids.data() : nullptr,
                 info.weights ? weights.data() : nullptr, info.margins ? &margin : nullptr);
    }
}

int64_t write_file(const std::filesystem::path& path, const CaptureInfo& info,
                   const std::vector<SegmentRows>& batches) {
  capture::RowPlaces places;
  for (const SegmentRows& batch : batches)
    for (int64_t row = 0; row < batch.rows(); ++row) places.add(batch.key(row));
  places.finish();
  capture::CaptureWriter writer(path, info, places);
  for (const SegmentRows& batch : batches) put_batch(writer, places, info, batch);
  writer.commit();
  return places.rows();
}

const char* state_text(SegmentState state) {
  return state == SegmentState::open     ? "its owner goes on"
         : state == SegmentState::closed ? "its owner ended it"
                                         : "its owner died";
}

const char* state_word(SegmentState state) {
  return state == SegmentState::open ? "open" : state == SegmentState::closed ? "closed" : "died";
}

Json segment_json(const capture::SegmentInfo& segment) {
  return {{"name", segment.name},
          {"path", segment.path.string()},
          {"user", segment.user},
          {"owner_pid", segment.owner_pid},
          {"owner_alive", segment.owner_alive},
          {"closed", segment.closed},
          {"reader_attached", segment.reader_attached},
          {"rows_waiting", segment.waiting},
          {"bytes", segment.bytes},
          {"problem", segment.problem.empty() ? Json(nullptr) : Json(segment.problem)}};
}

std::string owner_text(const capture::SegmentInfo& segment) {
  if (!segment.problem.empty()) return printable(segment.problem);
  const std::string pid = "process " + std::to_string(segment.owner_pid);
  return segment.owner_alive ? pid : pid + ", gone: stale";
}

}  // namespace

int cmd_capture_attach(const Options& options, Console& console) {
  make_log(options);
  if (options.output.empty())
    throw Error(Fault::usage, "nothing says where the routing goes", "--output",
                "give a file, as in: -o out/routes.safetensors");
  {
    const AtomicFile tried(options.output);
  }  // rows that were taken can't be given back
  SegmentReader reader = attach(options);
  std::vector<SegmentRows> batches;
  const SegmentState state = take_all(reader, batches);
  CaptureInfo info = reader.info();
  info.cut = state != SegmentState::closed;
  const int64_t tokens = write_file(options.output, info, batches);
  if (options.json) {
    Json json = json_document("moert capture attach");
    json["path"] = options.output;
    json["tokens"] = tokens;
    json["lost"] = info.lost;
    json["owner"] = state_word(state);
    print_json(console, json);
    return info.cut ? static_cast<int>(Fault::check) : 0;
  }
  console.line("wrote " + printable(path_text(options.output)) + ": routing of " +
               count_text(static_cast<uint64_t>(tokens), "token") + " (" + state_text(state) + ")");
  if (info.lost != 0)
    console.line(console.bad(count_text(static_cast<uint64_t>(info.lost), "token") +
                             " more were lost: the segment was full"));
  if (info.cut)
    console.line(
        console.bad("not complete: what comes after, or was not published yet, is missing"));
  return info.cut ? static_cast<int>(Fault::check) : 0;
}

int cmd_capture_segments(const Options& options, Console& console) {
  make_log(options);
  const std::filesystem::path folder = folder_of(options);
  const std::vector<capture::SegmentInfo> removed =
      options.remove_stale ? capture::remove_stale(folder) : std::vector<capture::SegmentInfo>();
  const std::vector<capture::SegmentInfo> segments = capture::list_segments(folder);
  if (options.json) {
    Json json = json_document("moert capture segments");
    json["segments"] = Json::array();
    for (const capture::SegmentInfo& segment : segments)
      json["segments"].push_back(segment_json(segment));
    json["removed"] = Json::array();
    for (const capture::SegmentInfo& segment : removed)
      json["removed"].push_back(segment_json(segment));
    print_json(console, json);
    return 0;
  }
  for (const capture::SegmentInfo& segment : removed)
    console.line("removed " + printable(segment.path.string()) + ", with " +
                 count_text(static_cast<uint64_t>(segment.waiting), "row"));
  if (segments.empty()) {
    console.line("no segments in " + printable(folder.string()));
    return 0;
  }
  TextTable table({"name", ">user", "owner", "reader", ">rows waiting", ">size"});
  for (const capture::SegmentInfo& segment : segments)
    table.add({printable(segment.name), std::to_string(segment.user), owner_text(segment),
               segment.reader_attached ? "attached" : "", std::to_string(segment.waiting),
               bytes_text(segment.bytes)});
  table.print(console);
  return 0;
}

}  // namespace moert::tool
