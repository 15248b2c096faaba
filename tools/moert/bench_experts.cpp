// How experts are measured.
// SPDX-License-Identifier: Apache-2.0
#include "bench_experts.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include <moert/error.hpp>

#include "expert_deck.hpp"
#include "machine.hpp"
#include "machine_limits.hpp"
#include "measurements.hpp"
#include "runtime/ask.hpp"
#include "signals.hpp"
#include "text_table.hpp"

namespace moert::tool {

namespace {

constexpr int64_t kMostLayers = 1024;
constexpr size_t kWarmUps = 2, kLeastSamples = 3;

int64_t layers_of(const ExpertsRequest& request, uint64_t layer_bytes) {
  if (request.layers > 0) return request.layers;
  const uint64_t needed = (kTimesCache * request.cache_bytes + layer_bytes - 1) / layer_bytes;
  return std::clamp<int64_t>(static_cast<int64_t>(needed), 1, kMostLayers);
}

// Asks as the runtime asks whoever is pinned.
void ask(const runtime::Session& session, const runtime::Device& device,
         const BenchProblem& problem, ExpertsEntrant* entrant) {
  registry::Policy policy;
  policy.pinned = entrant->candidate->name;
  policy.device = device.word();
  const registry::Decision decision =
      registry::choose({entrant->candidate}, policy, [&](const registry::Candidate& candidate) {
        return runtime::ask<moert_routed_experts_t>(session.host(), candidate, &problem.problem);
      });
  if (decision.chosen == nullptr) {
    entrant->refusal = decision.rows.front().reason;
    return;
  }
  entrant->how = std::string(decision.support.reason,
                             ::strnlen(decision.support.reason, sizeof decision.support.reason));
  entrant->packed_bytes = decision.support.persistent_bytes;
  entrant->concurrent = (decision.support.flags & MOERT_SUPPORT_CONCURRENT_LOAD) != 0;
}

// What is measured around each point: the machine's, or another device's.
class Limits {
 public:
  Limits(const runtime::Session& session, BenchDevice& device, uint64_t bytes) {
    if (on_host(device.device()))
      machine_ = std::make_unique<MachineLimits>(session.host(), bytes);
    else
      device_ = std::make_unique<DeviceLimits>(device, bytes);
  }
  double bytes_per_second() const {
    return machine_ ? machine_->read_bytes_per_second() : device_->copy_bytes_per_second();
  }
  bool has_arithmetic() const { return machine_ != nullptr; }
  double flop_per_second() const { return machine_->flop_per_second(); }
  std::string flop_kind() const { return machine_ ? machine_->flop_kind() : ""; }

 private:
  std::unique_ptr<MachineLimits> machine_;
  std::unique_ptr<DeviceLimits> device_;
};

int64_t most_tokens(const ExpertsRequest& request) {
  return *std::max_element(request.tokens.begin(), request.tokens.end());
}

// All of one scheme: they are in memory together, and take turns.
class Contest {
 public:
  Contest(const runtime::Session& session, BenchDevice& device, const ExpertsRequest& request,
          const BenchScheme& scheme)
      : session_(session),
        device_(device),
        request_(request),
        scheme_(scheme),
        problem_(request.shape, scheme, most_tokens(request), device.device().id()) {
    problem_.options = request.options;
    const std::string misfit = SyntheticExpert::misfit(session, scheme, request.shape);
    for (const registry::Candidate* candidate : request.candidates)
      entrants_.push_back(entrant(*candidate, misfit));
    if (!misfit.empty()) return;
    expert_bytes_ = SyntheticExpert::stored_bytes(session, scheme, request.shape);
    for (ExpertsEntrant& e : entrants_)
      if (e.refusal.empty()) {
        e.stored_bytes = layer_bytes();
        e.layers = layers_of(request_, e.stored_bytes);
      }
  }

  // In the host's memory: numbers of an expert, and what they become.
  uint64_t bytes_to_make() const {
    constexpr uint64_t kWhileMade = 4;
    return kWhileMade * static_cast<uint64_t>(request_.shape.weights_of_expert());
  }
  // In the device's memory.
  uint64_t bytes() const {
    uint64_t bytes = BenchRows::memory_bytes(request_.shape, most_tokens(request_));
    for (const ExpertsEntrant& e : entrants_)
      if (e.refusal.empty())
        bytes += static_cast<uint64_t>(e.layers) * std::max(e.packed_bytes, e.stored_bytes);
    return bytes;
  }
  const std::string& scheme() const { return scheme_.word; }
  const std::vector<ExpertsEntrant>& entrants() const { return entrants_; }

  void pack() {
    if (std::any_of(entrants_.begin(), entrants_.end(),
                    [](const ExpertsEntrant& e) { return e.refusal.empty(); }))
      expert_ = std::make_unique<SyntheticExpert>(session_, scheme_, request_.shape);
    for (ExpertsEntrant& e : entrants_) {
      layers_.emplace_back();
      if (e.refusal.empty()) pack(e);
    }
  }
  void unpack() {
    layers_.clear();
    expert_.reset();
  }

  // A point of each that does not refuse.
  std::vector<ExpertsPoint> measure(int64_t tokens, const Limits* limits) {
    points_.clear();
    for (size_t i = 0; i < entrants_.size(); ++i)
      if (layers_[i]) {
        points_.emplace_back();
        points_.back().entrant = i;
        points_.back().tokens = tokens;
      }
    if (points_.empty()) return {};
    rates_.assign(points_.size(), {});
    distinct_.clear();
    Turns turns(request_.shape, tokens, layers_of(request_, layer_bytes()), device_.device());
    turns.deal();
    for (const ExpertsPoint& point : points_)
      layers_[point.entrant]->prepare(turns.rows, request_.graphs);
    for (size_t i = 0; i < kWarmUps; ++i)
      if (round(turns, false) > request_.seconds) break;
    std::optional<Probe> bandwidth, arithmetic;
    if (limits != nullptr) {
      bandwidth = Probe{limits->bytes_per_second(), 0};
      if (limits->has_arithmetic()) arithmetic = Probe{limits->flop_per_second(), 0};
    }
    repeat(turns);
    for (size_t i = 0; i < points_.size(); ++i) finish(points_[i], rates_[i]);
    if (bandwidth) bandwidth->after = limits->bytes_per_second();
    if (arithmetic) arithmetic->after = limits->flop_per_second();
    for (ExpertsPoint& point : points_) {
      point.bandwidth = bandwidth;
      point.arithmetic = arithmetic;
    }
    return points_;
  }

 private:
  // Which layer is next, and which experts of it.
  struct Turns {
    Turns(const BenchShape& shape, int64_t tokens, int64_t layers, const runtime::Device& device)
        : rows(shape, tokens, device) {
      for (int64_t i = 0; i < layers; ++i)
        decks.emplace_back(shape.experts, shape.top_k, static_cast<uint64_t>(11 + i));
    }
    // Brings what the next layer's tokens choose to the device.
    void deal() {
      layer = next++ % decks.size();
      distinct = static_cast<double>(decks[layer].deal(rows.tokens, &rows.ids));
      rows.send_ids();
    }
    BenchRows rows;
    std::vector<ExpertDeck> decks;
    size_t next = 0, layer = 0;
    double distinct = 0;
  };

  uint64_t layer_bytes() const {
    return expert_bytes_ * static_cast<uint64_t>(request_.shape.experts);
  }

  ExpertsEntrant entrant(const registry::Candidate& candidate, const std::string& misfit) const {
    ExpertsEntrant made;
    made.scheme = scheme_.word;
    made.scheme_name = scheme_.scheme.name;
    made.candidate = &candidate;
    made.refusal = misfit;
    if (misfit.empty()) ask(session_, device_.device(), problem_, &made);
    return made;
  }

  void pack(ExpertsEntrant& e) {
    try {
      layers_.back() = std::make_unique<BenchLayers>(session_, *e.candidate, problem_, *expert_,
                                                     e.layers, e.concurrent, device_);
      e.pack_seconds = layers_.back()->pack_seconds();
    } catch (const Error& error) {
      if (error.fault() != Fault::refused) throw;
      e.refusal = error.problem();
    }
  }

  // One forward of each, of the same rows and experts; the seconds that it took with all around it.
  double round(Turns& turns, bool counts) {
    throw_if_interrupted();
    const BenchClock::time_point start = BenchClock::now();
    turns.deal();
    const double bytes = turns.distinct * static_cast<double>(expert_bytes_);
    for (size_t i = 0; i < points_.size(); ++i) {
      const double seconds =
          layers_[points_[i].entrant]->forward(static_cast<int64_t>(turns.layer));
      if (!counts) continue;
      points_[i].seconds.push_back(seconds);
      rates_[i].push_back(bytes / seconds);
    }
    if (counts) distinct_.push_back(turns.distinct);
    return seconds_since(start);
  }

  void repeat(Turns& turns) {
    const double enough = request_.seconds * static_cast<double>(points_.size());
    double spent = 0;
    const auto done = [&](size_t rounds) {
      if (request_.repeat > 0) return rounds >= static_cast<size_t>(request_.repeat);
      return rounds >= kLeastSamples && spent >= enough;
    };
    for (size_t rounds = 0; !done(rounds); ++rounds) spent += round(turns, true);
  }

  void finish(ExpertsPoint& point, const std::vector<double>& rates) const {
    const double flop = 2 * request_.shape.weights_of_expert() *
                        static_cast<double>(request_.shape.top_k * point.tokens);
    point.distinct = median(distinct_);
    point.bytes_per_second = median(rates);
    point.flop_per_second = flop / median(point.seconds);
    std::sort(point.seconds.begin(), point.seconds.end());
  }

  const runtime::Session& session_;
  BenchDevice& device_;
  const ExpertsRequest& request_;
  const BenchScheme& scheme_;
  BenchProblem problem_;
  uint64_t expert_bytes_ = 0;  // as stored
  std::unique_ptr<SyntheticExpert> expert_;
  std::vector<ExpertsEntrant> entrants_;
  std::vector<std::unique_ptr<BenchLayers>> layers_;  // none for those that refuse
  std::vector<ExpertsPoint> points_;                  // that are measured
  std::vector<std::vector<double>> rates_;            // bytes a second, of each point
  std::vector<double> distinct_;
};

void require_bytes(const ExpertsRequest& request, const Contest& contest, uint64_t needed,
                   uint64_t available, const std::string& where) {
  if (available == 0 || needed <= available) return;
  throw Error(Fault::device,
              "not enough memory" + where + ": " + bytes_text(needed) + " are needed for " +
                  request.shape.name + " in " + contest.scheme() + ", " + bytes_text(available) +
                  " are available",
              "--shape",
              "measure fewer candidates or layers at a time (--candidates, --layers), a smaller "
              "shape, or a scheme with fewer bytes");
}

void require_memory(const ExpertsRequest& request, const runtime::Device& device,
                    const Contest& contest) {
  const uint64_t host = available_memory_bytes();
  const uint64_t measured = contest.bytes() + request.probe_bytes;
  if (on_host(device))
    return require_bytes(request, contest, contest.bytes_to_make() + measured, host, "");
  require_bytes(request, contest, contest.bytes_to_make(), host, "");
  require_bytes(request, contest, measured + BenchDevice::memory_bytes(device, request.cache_bytes),
                device.info().memory_free_bytes, " on " + device.text());
}

}  // namespace

double Probe::difference() const { return std::fabs(before - after) / std::max(before, after); }

double ExpertsPoint::quantile(double share) const {
  const double at = share * static_cast<double>(seconds.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, seconds.size() - 1);
  return seconds[below] + (seconds[above] - seconds[below]) * (at - static_cast<double>(below));
}

ExpertsResult measure_experts(const runtime::Session& session, const runtime::Device& device,
                              const ExpertsRequest& request) {
  BenchDevice bench_device(device, request.cache_bytes);
  std::vector<std::unique_ptr<Contest>> contests;
  for (const BenchScheme& scheme : request.schemes) {
    contests.push_back(std::make_unique<Contest>(session, bench_device, request, scheme));
    require_memory(request, device, *contests.back());
  }
  ExpertsResult result;
  std::unique_ptr<Limits> limits;
  if (request.probe_bytes > 0) {
    limits = std::make_unique<Limits>(session, bench_device, request.probe_bytes);
    result.arithmetic = limits->flop_kind();
  }
  for (const std::unique_ptr<Contest>& contest : contests) {
    contest->pack();
    const size_t first = result.entrants.size();
    result.entrants.insert(result.entrants.end(), contest->entrants().begin(),
                           contest->entrants().end());
    for (const int64_t tokens : request.tokens)
      for (ExpertsPoint& point : contest->measure(tokens, limits.get())) {
        point.entrant += first;
        result.points.push_back(std::move(point));
      }
    contest->unpack();
  }
  return result;
}

}  // namespace moert::tool
