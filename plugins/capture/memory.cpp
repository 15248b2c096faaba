// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <algorithm>

#include "checks.hpp"

namespace moert::capture {

Support Memory::supports(const Host&, const moert_capture_spec_t& spec) {
  const std::string reason = refusal(spec);
  return reason.empty() ? Support::yes() : Support::no(reason);
}

Memory::Memory(const Host& host, const moert_capture_spec_t& spec, const Options& options)
    : StepCapturer(spec, options, {"max_rows"}),
      max_rows_(
          static_cast<size_t>(detail::number_option(options, "max_rows", INT64_MAX, 0, INT64_MAX))),
      pool_(host, layout().bytes()) {}

void Memory::take(size_t count, std::vector<std::byte*>& places) {
  const size_t kept = order_.size() + pending();
  if (count > max_rows_ || kept > max_rows_ - count)
    throw PluginError(MOERT_RESOURCE_EXHAUSTED,
                      std::to_string(kept) + " rows are kept and " + std::to_string(count) +
                          " would come; max_rows is " + std::to_string(max_rows_));
  if (kept + count > order_.capacity())
    order_.reserve(std::max(kept + count, 2 * order_.capacity()));
  pool_.reserve(count);
  for (size_t i = 0; i < count; ++i) places.push_back(pool_.take());
}

void Memory::read(moert_capture_rows_t& rows) {
  expect_open(false, "read");
  const int64_t count = layout().readable(rows, static_cast<int64_t>(order_.size()));
  for (int64_t r = 0; r < count; ++r)
    layout().give(order_[static_cast<size_t>(rows.first + r)], r, rows);
  rows.written = count;
}

void Memory::counts(moert_capture_counts_t& out) {
  out.rows = static_cast<int64_t>(order_.size());
  out.pending = static_cast<int64_t>(pending());
  out.absent = 0;
  out.lost = 0;
  out.bytes = pool_.bytes() + order_.capacity() * sizeof order_[0];
}

}  // namespace moert::capture
