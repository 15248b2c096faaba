// Figures of `moert bench`: medians, targets, tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "console.hpp"
#include "options.hpp"
#include "runtime/model.hpp"

namespace moert::tool {

using BenchClock = std::chrono::steady_clock;
double seconds_since(BenchClock::time_point start);

// One measured value; smaller is better.
struct Measurement {
  std::string name, unit;
  double value = 0;
  std::optional<double> target;
  std::vector<double> samples;  // of which value is the median, or the only one
};

double median(std::vector<double> values);
Measurement measured(std::string name, std::string unit, std::optional<double> target,
                     std::vector<double> samples);

// As a table or as JSON; the exit code: 1 where a target is missed.
int print_measurements(const Options& options, Console& console,
                       const std::vector<Measurement>& list);

// A "VmHWM:   123 kB" line of the process's status, in bytes; 0 where the system does not say it.
uint64_t status_bytes(const std::string& field);

// Null parts, so that what remains is the runtime.
runtime::ModelSettings null_settings();

}  // namespace moert::tool
