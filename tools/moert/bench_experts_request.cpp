// What the command line of `moert bench experts` asks for.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <sstream>

#include <moert/error.hpp>

#include "bench_experts.hpp"
#include "machine.hpp"
#include "util/nearest.hpp"

namespace moert::tool {

namespace {

constexpr int64_t kMostTokens = 65536, kMostLayers = 1024, kMostRepeats = 1'000'000;
constexpr double kLongest = 3600;

std::vector<std::string> words_of(const std::string& text, const char* flag) {
  std::vector<std::string> words;
  std::istringstream stream(text + ",");
  for (std::string word; std::getline(stream, word, ',');) {
    if (word.empty())
      throw Error(Fault::usage, "'" + text + "' has an empty item", flag,
                  "give items separated by single commas");
    if (std::find(words.begin(), words.end(), word) != words.end())
      throw Error(Fault::usage, std::string("'").append(word).append("' stands twice"), flag,
                  "give each item once");
    words.push_back(word);
  }
  return words;
}

int64_t count_of(const std::string& text, const char* flag, const std::string& what, int64_t most) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > most)
    throw Error(Fault::usage, "'" + text + "' is no number of " + what, flag,
                "give a number from 1 to " + std::to_string(most));
  return count;
}

double seconds_of(const std::string& text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds > 0) ||
      seconds > kLongest)
    throw Error(Fault::usage, "'" + text + "' is no number of seconds", "--seconds",
                "give a number above 0, as in 0.5, up to 3600");
  return seconds;
}

// The oracle is orders of magnitude slower than what it judges, and null computes nothing.
bool is_measured_unasked(const registry::Candidate& candidate) {
  return candidate.name != "cpu.ref" && candidate.plugin_name != "null";
}

// Those that do not say where they run are asked.
bool may_run_on(const registry::Candidate& candidate, const std::string& kind) {
  return registry::lists_device(candidate, kind).value_or(true);
}

// Who is named is asked, wherever it runs: its refusal then says so.
std::vector<const registry::Candidate*> candidates_of(const runtime::Session& session,
                                                      const std::string& kind,
                                                      const std::string& text) {
  auto all = session.registry().candidates(MOERT_KIND_ROUTED_EXPERTS);
  std::vector<const registry::Candidate*> chosen;
  std::vector<std::string> names;
  for (const registry::Candidate* candidate : all) {
    names.push_back(candidate->name);
    if (may_run_on(*candidate, kind) &&
        (text == "all" || (text.empty() && is_measured_unasked(*candidate))))
      chosen.push_back(candidate);
  }
  if (!text.empty() && text != "all")
    for (const std::string& word : words_of(text, "--candidates")) {
      const registry::Candidate* found = session.registry().find(MOERT_KIND_ROUTED_EXPERTS, word);
      if (found == nullptr)
        throw Error(Fault::usage, "no candidate '" + word + "' of " MOERT_KIND_ROUTED_EXPERTS,
                    "--candidates",
                    suggestion(word, names) + " (there are " + joined(names) + ", and 'all')");
      chosen.push_back(found);
    }
  if (chosen.empty())
    throw Error(Fault::refused, "there is no candidate on " + kind + " to measure",
                MOERT_KIND_ROUTED_EXPERTS,
                names.empty() ? "`moert plugins list --all` shows every file that was looked at"
                              : "name some with --candidates: " + joined(names));
  return chosen;
}

runtime::PartOptions options_of(const std::vector<std::string>& given) {
  runtime::PartOptions options;
  options.place = "--option";
  for (const std::string& text : given) {
    const size_t end = text.find('=');
    if (end == 0 || end == std::string::npos || end + 1 == text.size())
      throw Error(Fault::usage, "'" + text + "' is no option", "--option",
                  "give a key and a value, as in gemm=wgmma");
    if (!options.values.emplace(text.substr(0, end), text.substr(end + 1)).second)
      throw Error(Fault::usage, "the option '" + text.substr(0, end) + "' is given twice",
                  "--option", "give each option once");
  }
  return options;
}

// moert.device/1 does not tell a device's cache; there are few with a larger one than what is assumed.
void set_cache(const Options& options, bool host, ExpertsRequest* request) {
  constexpr int64_t kMostMegabytes = 65536;
  constexpr uint64_t kMegabyte = 1'000'000, kAssumed = uint64_t{64} << 20u;
  const uint64_t least_probe = (host ? 512 : 2048) * kMegabyte;
  const bool given = !options.cache_mb.empty();
  request->cache_assumed = !given && !host;
  request->cache_bytes = host ? last_level_cache_bytes() : kAssumed;
  if (given)
    request->cache_bytes =
        kMegabyte * static_cast<uint64_t>(
                        count_of(options.cache_mb, "--cache-mb", "megabytes", kMostMegabytes));
  const uint64_t memory = kTimesCache * request->cache_bytes;
  if (!options.no_probes) request->probe_bytes = given ? memory : std::max(least_probe, memory);
}

}  // namespace

ExpertsRequest experts_request(const runtime::Session& session, const runtime::Device& device,
                               const Options& options) {
  ExpertsRequest request;
  request.graphs = !options.no_graph && (device.info().flags & MOERT_DEVICE_GRAPHS) != 0;
  request.shape = bench_shape(options.shape.empty() ? "olmoe" : options.shape);
  const std::string tokens = options.tokens.empty() ? "1,4,32,128,512" : options.tokens;
  for (const std::string& word : words_of(tokens, "--tokens"))
    request.tokens.push_back(count_of(word, "--tokens", "tokens", kMostTokens));
  if (!options.seconds.empty() && !options.repeat.empty())
    throw Error(Fault::usage, "both a time and a number of forwards are given",
                "--seconds and --repeat", "give one of them");
  if (!options.seconds.empty()) request.seconds = seconds_of(options.seconds);
  if (!options.repeat.empty())
    request.repeat = count_of(options.repeat, "--repeat", "forwards", kMostRepeats);
  if (!options.layers.empty())
    request.layers = count_of(options.layers, "--layers", "layers", kMostLayers);
  set_cache(options, on_host(device), &request);
  request.options = options_of(options.option);
  request.candidates = candidates_of(session, device.word(), options.candidates);
  for (const std::string& word :
       words_of(options.scheme.empty() ? "bf16" : options.scheme, "--scheme"))
    request.schemes.push_back(bench_scheme(session, word));
  return request;
}

}  // namespace moert::tool
