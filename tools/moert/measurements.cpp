// SPDX-License-Identifier: Apache-2.0
#include "measurements.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <moert/error.hpp>

#include "json.hpp"
#include "text_table.hpp"

namespace moert::tool {

namespace {

bool met(const Measurement& m) { return !m.target || m.value < *m.target; }

std::string verdict(const Measurement& m) {
  if (!m.target) return "";
  return met(m) ? "met" : "missed";
}

std::string number(double value) { return fixed(value, value < 10 ? 2 : value < 1000 ? 1 : 0); }

void print_table(Console& console, const std::vector<Measurement>& list) {
  TextTable table({"what", ">value", "unit", ">target", "verdict", ">samples", ">least", ">most"});
  for (const Measurement& m : list) {
    const auto [least, most] = std::minmax_element(m.samples.begin(), m.samples.end());
    table.add({m.name, number(m.value), m.unit, m.target ? "< " + number(*m.target) : "",
               Cell(verdict(m), !m.target ? Cell::plain
                                : met(m)  ? Cell::good
                                          : Cell::bad),
               std::to_string(m.samples.size()), number(*least), number(*most)});
  }
  table.print(console);
}

// Raw samples are kept up to a number that still can be read.
constexpr size_t kSamplesKept = 1000;

}  // namespace

double seconds_since(BenchClock::time_point start) {
  return std::chrono::duration<double>(BenchClock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Measurement measured(std::string name, std::string unit, std::optional<double> target,
                     std::vector<double> samples) {
  const double value = median(samples);
  return {std::move(name), std::move(unit), value, target, std::move(samples)};
}

int print_measurements(const Options& options, Console& console,
                       const std::vector<Measurement>& list) {
  bool all_met = true;
  Json json = json_document(options.command);
  json["measurements"] = Json::array();
  for (const Measurement& m : list) {
    all_met = all_met && met(m);
    const auto kept =
        m.samples.begin() + static_cast<std::ptrdiff_t>(std::min(m.samples.size(), kSamplesKept));
    json["measurements"].push_back({{"name", m.name},
                                    {"value", json_number(m.value)},
                                    {"unit", m.unit},
                                    {"target", m.target ? Json(*m.target) : Json(nullptr)},
                                    {"met", m.target ? Json(met(m)) : Json(nullptr)},
                                    {"sample_count", m.samples.size()},
                                    {"samples", std::vector<double>(m.samples.begin(), kept)}});
  }
  if (options.json)
    print_json(console, json);
  else
    print_table(console, list);
  return all_met ? 0 : static_cast<int>(Fault::check);
}

runtime::ModelSettings null_settings() {
  runtime::ModelSettings settings;
  settings.device = "cpu";
  settings.choice.layers = {{"runner", "core.default"},
                            {"router", "null.router"},
                            {"routed_experts", "null.routed_experts"},
                            {"shared_experts", "null.shared_experts"}};
  return settings;
}

uint64_t status_bytes(const std::string& field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(field + ":")) continue;
    std::istringstream words(line.substr(field.size() + 1));
    uint64_t kilobytes = 0;
    words >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

}  // namespace moert::tool
