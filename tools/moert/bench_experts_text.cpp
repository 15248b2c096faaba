// The figures of `moert bench experts`, as tables and as JSON.
// SPDX-License-Identifier: Apache-2.0
#include <moert/sdk/plugin.hpp>

#include "bench_experts.hpp"
#include "environment.hpp"
#include "json.hpp"
#include "machine.hpp"
#include "text_table.hpp"

#ifndef MOERT_BUILD_TYPE
#define MOERT_BUILD_TYPE "unknown"
#endif

namespace moert::tool {

namespace {

constexpr double kGiga = 1e9;

std::string activation_text(const BenchShape& shape) {
  return shape.activation + (shape.biased ? ", biases" : "");
}

std::string isa_of(const Options& options) {
  const std::string set = options.cpu_isa.empty() ? variable("MOERT_CPU_ISA") : options.cpu_isa;
  return set.empty() ? "the processor's" : set;
}

int32_t threads_of_host(const runtime::Session& session) {
  return session.host()->num_threads(session.host()->ctx);
}

// Four digits that count: a forward may take microseconds.
std::string milliseconds(double seconds) {
  const double value = seconds * 1e3;
  return fixed(value, value < 0.1 ? 5 : value < 1 ? 4 : value < 10 ? 3 : value < 100 ? 2 : 1);
}

std::string percent(double share) { return fixed(share * 100, 0) + " %"; }

std::string cache_text(const ExpertsRequest& request) {
  return "last cache " + bytes_text(request.cache_bytes) +
         (request.cache_assumed ? ", assumed" : "");
}

// "NVIDIA H200, sm_90, driver 12.8"
std::string device_text(const moert_device_info_t& info) {
  std::string text = std::string(info.name) + ", " + info.architecture;
  if (info.driver_version[0] != '\0') text += std::string(", driver ") + info.driver_version;
  return text;
}

std::string timing_text(const runtime::Device& device, const ExpertsRequest& request) {
  if (on_host(device)) return "clock";
  return request.graphs ? "events around recorded graphs" : "events around calls";
}

// "gemm=wgmma"
std::string options_text(const runtime::PartOptions& options) {
  std::string text;
  for (const auto& [key, value] : options.values) {
    if (!text.empty()) text += ", ";
    text.append(key).append("=").append(value);
  }
  return printable(text);
}

void print_conditions(const Options& options, Console& console, const runtime::Session& session,
                      const runtime::Device& device, const ExpertsRequest& request,
                      const ExpertsResult& result) {
  const BenchShape& shape = request.shape;
  console.line(shape.name + ": hidden " + std::to_string(shape.hidden) + ", intermediate " +
               std::to_string(shape.intermediate) + ", " + std::to_string(shape.experts) +
               " experts, " + std::to_string(shape.top_k) + " a token, " + activation_text(shape) +
               "; rows of bf16");
  const std::string threads = count_text(static_cast<uint64_t>(threads_of_host(session)), "thread");
  if (on_host(device))
    console.line(processor_name() + ", " + threads + ", " + cache_text(request) +
                 ", instructions: " + isa_of(options) +
                 "; " MOERT_COMPILER_TEXT ", " MOERT_BUILD_TYPE);
  else
    console.line(device.text() + ": " + device_text(device.info()) + ", " + cache_text(request) +
                 "; timed by " + timing_text(device, request) + "; packed by " + threads +
                 "; " MOERT_COMPILER_TEXT ", " MOERT_BUILD_TYPE);
  if (!request.options.values.empty()) console.line("options: " + options_text(request.options));
  if (request.probe_bytes == 0)
    console.line("no probes of what the machine gives");
  else if (on_host(device))
    console.line("arithmetic is held against " + result.arithmetic);
  else
    console.line(
        "bytes read are held against the rate of copying within the device, bytes read and "
        "written; arithmetic against nothing");
  console.line();
}

void print_entrants(Console& console, const ExpertsResult& result) {
  TextTable table(
      {"scheme", "candidate", ">a layer", ">layers", ">packed", ">packing", "how, or why not"});
  for (const ExpertsEntrant& e : result.entrants) {
    if (!e.refusal.empty()) {
      table.add({e.scheme, e.candidate->name, "", "", "", "", Cell(e.refusal, Cell::bad)});
      continue;
    }
    table.add({e.scheme, e.candidate->name, bytes_text(e.stored_bytes), std::to_string(e.layers),
               e.packed_bytes == 0 ? "" : bytes_text(e.packed_bytes),
               fixed(e.pack_bytes_per_second() / kGiga, 2) + " GB/s", e.how});
  }
  table.print(console);
}

std::vector<Cell> point_cells(const ExpertsPoint& p, const ExpertsEntrant& e, bool host) {
  std::vector<Cell> row = {e.scheme,
                           e.candidate->name,
                           std::to_string(p.tokens),
                           milliseconds(p.quantile(0.5)),
                           milliseconds(p.quantile(0.25)) + "-" + milliseconds(p.quantile(0.75)),
                           std::to_string(p.seconds.size()),
                           fixed(p.distinct, 0),
                           fixed(p.bytes_per_second / kGiga, 1),
                           p.bandwidth ? percent(p.bytes_per_second / p.bandwidth->mean()) : "",
                           fixed(p.flop_per_second / kGiga, 1)};
  const auto add = [&](const std::optional<Probe>& probe) {
    row.emplace_back(probe ? fixed(probe->mean() / kGiga, 1) : "");
    row.emplace_back(probe ? percent(probe->difference()) : "");
  };
  if (host) row.emplace_back(p.arithmetic ? percent(p.flop_per_second / p.arithmetic->mean()) : "");
  add(p.bandwidth);
  if (host) add(p.arithmetic);
  return row;
}

// `unasked`: nobody named candidates.
void print_points(Console& console, const ExpertsResult& result, bool host, bool unasked) {
  std::vector<std::string> columns = {"scheme",     "candidate", ">tokens",  ">ms",
                                      ">quartiles", ">forwards", ">experts", ">GB/s"};
  const std::vector<std::string> more =
      host ? std::vector<std::string>{">of read", ">GFLOP/s",      ">of peak", ">read GB/s",
                                      ">differs", ">peak GFLOP/s", ">differs"}
           : std::vector<std::string>{">of copy", ">GFLOP/s", ">copy GB/s", ">differs"};
  columns.insert(columns.end(), more.begin(), more.end());
  TextTable table(columns);
  for (const ExpertsPoint& p : result.points)
    table.add(point_cells(p, result.entrants[p.entrant], host));
  console.line();
  if (table.empty())
    console.line(host && unasked
                     ? "nothing was measured; `--candidates all` asks cpu.ref, too, which is slow"
                     : "nothing was measured");
  else
    table.print(console);
}

Json device_json(const runtime::Device& device, const ExpertsRequest& request) {
  const moert_device_info_t& info = device.info();
  return {{"id", device.text()},
          {"name", info.name},
          {"architecture", info.architecture},
          {"driver", info.driver_version[0] == '\0' ? Json(nullptr) : Json(info.driver_version)},
          {"timing", timing_text(device, request)},
          {"graphs", request.graphs}};
}

Json conditions_json(const Options& options, const runtime::Session& session,
                     const runtime::Device& device, const ExpertsRequest& request,
                     const ExpertsResult& result) {
  const BenchShape& shape = request.shape;
  return {
      {"version", MOERT_VERSION},
      {"compiler", MOERT_COMPILER_TEXT},
      {"build_type", MOERT_BUILD_TYPE},
      {"processor", processor_name()},
      {"extensions", processor_extensions()},
      {"cpu_isa", isa_of(options)},
      {"threads", threads_of_host(session)},
      {"device", device_json(device, request)},
      {"cache_bytes", request.cache_bytes},
      {"cache_assumed", request.cache_assumed},
      {"shape",
       {{"name", shape.name},
        {"hidden_size", shape.hidden},
        {"intermediate_size", shape.intermediate},
        {"num_experts", shape.experts},
        {"top_k", shape.top_k},
        {"activation", shape.activation},
        {"bias", shape.biased}}},
      {"rows", "bf16"},
      {"options", request.options.values},
      {"seconds", request.repeat > 0 ? Json(nullptr) : Json(request.seconds)},
      {"repeat", request.repeat > 0 ? Json(request.repeat) : Json(nullptr)},
      {"arithmetic_probe", result.arithmetic.empty() ? Json(nullptr) : Json(result.arithmetic)}};
}

Json entrant_json(const ExpertsEntrant& e) {
  const bool accepted = e.refusal.empty();
  return {{"scheme", e.scheme},
          {"scheme_name", e.scheme_name},
          {"candidate", e.candidate->name},
          {"plugin", e.candidate->plugin_name},
          {"plugin_version", e.candidate->plugin_version},
          {"accepted", accepted},
          {"reason", accepted ? (e.how.empty() ? Json(nullptr) : Json(e.how)) : Json(e.refusal)},
          {"layers", accepted ? Json(e.layers) : Json(nullptr)},
          {"stored_bytes", accepted ? Json(e.stored_bytes) : Json(nullptr)},
          {"packed_bytes", e.packed_bytes > 0 ? Json(e.packed_bytes) : Json(nullptr)},
          {"concurrent_load", accepted ? Json(e.concurrent) : Json(nullptr)},
          {"packing_gb_per_s",
           accepted ? json_number(e.pack_bytes_per_second() / kGiga) : Json(nullptr)}};
}

Json probe_json(const std::optional<Probe>& probe, double reached) {
  if (!probe) return nullptr;
  return {{"before", probe->before / kGiga},
          {"after", probe->after / kGiga},
          {"difference", probe->difference()},
          {"reached", reached / probe->mean()}};
}

Json point_json(const ExpertsPoint& p, const ExpertsEntrant& e, bool host) {
  Json samples = Json::array();
  constexpr size_t kSamplesKept = 1000;  // a file that still can be read
  const size_t step = (p.seconds.size() + kSamplesKept - 1) / kSamplesKept;
  for (size_t i = 0; i < p.seconds.size(); i += step) samples.push_back(p.seconds[i] * 1e3);
  return {{"scheme", e.scheme},
          {"candidate", e.candidate->name},
          {"tokens", p.tokens},
          {"median_ms", p.quantile(0.5) * 1e3},
          {"quartile1_ms", p.quantile(0.25) * 1e3},
          {"quartile3_ms", p.quantile(0.75) * 1e3},
          {"least_ms", p.seconds.front() * 1e3},
          {"most_ms", p.seconds.back() * 1e3},
          {"sample_count", p.seconds.size()},
          {"samples_ms", samples},
          {"experts_read", p.distinct},
          {"gb_per_s", p.bytes_per_second / kGiga},
          {"gflop_per_s", p.flop_per_second / kGiga},
          {"read_probe_gb_per_s", host ? probe_json(p.bandwidth, p.bytes_per_second) : Json()},
          {"copy_probe_gb_per_s", host ? Json() : probe_json(p.bandwidth, p.bytes_per_second)},
          {"arithmetic_probe_gflop_per_s", probe_json(p.arithmetic, p.flop_per_second)}};
}

Json experts_json(const Options& options, const runtime::Session& session,
                  const runtime::Device& device, const ExpertsRequest& request,
                  const ExpertsResult& result) {
  Json json = json_document(options.command);
  json["conditions"] = conditions_json(options, session, device, request, result);
  json["entrants"] = Json::array();
  for (const ExpertsEntrant& e : result.entrants) json["entrants"].push_back(entrant_json(e));
  json["points"] = Json::array();
  for (const ExpertsPoint& p : result.points)
    json["points"].push_back(point_json(p, result.entrants[p.entrant], on_host(device)));
  return json;
}

}  // namespace

void print_experts(const Options& options, Console& console, const runtime::Session& session,
                   const runtime::Device& device, const ExpertsRequest& request,
                   const ExpertsResult& result) {
  if (options.json) {
    print_json(console, experts_json(options, session, device, request, result));
    return;
  }
  print_conditions(options, console, session, device, request, result);
  print_entrants(console, result);
  print_points(console, result, on_host(device), options.candidates.empty());
}

}  // namespace moert::tool
