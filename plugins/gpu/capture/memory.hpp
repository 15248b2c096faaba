// <word>.memory of moert.capturer/1: rows are written on the device, and come to the host in lots.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <moert/sdk/capture_row.hpp>
#include <moert/sdk/capturer.hpp>
#include <moert/sdk/pending_rows.hpp>

#include <deque>
#include <vector>

#include "../backend.hpp"
#include "../device_memory.hpp"
#include "../runtime.hpp"
#include "record.hpp"
#include "turns.hpp"

namespace moert::gpu {

// A ring of rows on the device is allocated once. Which token a row is, and whether it is pending, is known on the host;
// committed rows move there when somebody reads or flushes, or when a step finds no room in the ring.
// A step's begin enqueues, and where there is room waits only while the device is two steps behind. It enqueues copies in
// a stream of the capturer's own, which the step's waits for: the step's may be gone when the capturer asks about them.
// Options: buffer_mb, the size of the ring; when_full: block (a step that finds no room waits for committed rows to
// move; where that cannot help it is MOERT_RESOURCE_EXHAUSTED) or drop (no step waits: rows that find no room are kept
// without decisions, and counted as absent).
class GpuMemory final : public RoutedExpertsCapturer {
 public:
  static constexpr moert_kv_t kCaps[] = {{"device", MOERT_GPU_WORD},
                                         {"what", "ids, weights, margins"}};
  static constexpr FeatureInfo kFeature = {MOERT_GPU_WORD ".memory", MOERT_RANK_GOOD, 0, kCaps, 2};
  static Support supports(const Host& host, const moert_capture_spec_t& spec);
  GpuMemory(const Host& host, const moert_capture_spec_t& spec, const Options& options);
  ~GpuMemory() override;

  void begin(const moert_capture_step_t& step) override;
  void record(const moert_capture_record_t& record) override;
  void end() override;
  void abort() override;
  void drop(int64_t sequence, int64_t position) override;
  void commit(int64_t sequence, int64_t position) override;
  void flush() override;
  void read(moert_capture_rows_t& rows) override;
  void counts(moert_capture_counts_t& out) override;

 private:
  using Row =
      PendingRows<int32_t>::Row;  // its place is a slot of the ring, or StepPlaces::kNowhere

  void expect_open(bool open, const char* call) const;
  void expect_step(const moert_capture_step_t& step) const;
  void expect_new(const moert_capture_record_t& record) const;
  void make_room(size_t count);
  void send_places(const moert_capture_step_t& step);
  StepPlaces places() const;
  RowPart part_of(size_t layer) const;
  void close_step();
  void give_back(int32_t slot);
  void expect_rows(size_t count);
  void keep(const Row& row);
  void move_to_host();
  void copy_runs(std::byte* to) const;

  CaptureRowLayout layout_;
  moert_device_id_t device_;
  int64_t max_tokens_;
  bool drops_;
  Fault* fault_;
  size_t slots_;
  DeviceMemory ring_, places_;
  Stream stream_ = nullptr;  // the capturer's own, for moving
  Event written_ = nullptr;  // behind everything that steps wrote

  std::deque<int32_t> free_;  // first in, first out, so that neighbours stay neighbours
  PendingRows<int32_t> pending_;
  std::vector<Row> waiting_;     // committed, on the device still; they come behind those in host_
  std::vector<std::byte> host_;  // committed, in order
  int64_t absent_ = 0;

  // The open step.
  bool open_ = false, commit_at_end_ = false;
  int64_t tokens_ = 0;
  Stream step_stream_ = nullptr;
  std::vector<uint8_t> recorded_;  // per layer
  TurnsOfWords sent_;  // what the device gets of it: the number of tokens, and their slots
};

}  // namespace moert::gpu
