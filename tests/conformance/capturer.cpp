// capturer: rows by token, layers of different sizes, absence, dropping, reading back.
// SPDX-License-Identifier: Apache-2.0
#include <moert/abi/capturer.h>

#include <algorithm>

#include "host.hpp"
#include "kinds.hpp"
#include "numbers.hpp"

namespace moert::conformance {
namespace {

constexpr uint32_t kAll = MOERT_CAPTURE_IDS | MOERT_CAPTURE_WEIGHTS | MOERT_CAPTURE_MARGINS;

struct Layers {
  std::vector<int64_t> ids, experts, k;
};
const Layers kLayers = {{1, 2, 5, 9}, {8, 256, 257, 70000}, {2, 8, 4, 1}};

struct Token {
  int64_t sequence, position;
};

// A capturer, and what it must have, kept the slow and obvious way.
class Rig {
 public:
  explicit Rig(const Feature& feature, uint32_t what = kAll, const Layers& layers = kLayers)
      : table(feature.table<moert_capturer_t>()),
        layers_(layers),
        what_(what),
        host(1),
        place(feature.device),
        random("capturer") {
    moert_capture_spec_t spec = this->spec();
    moert_support_t support{};
    support.struct_size = sizeof support;
    must("supports", [&](auto* e) { return table.supports(host.table(), &spec, &support, e); });
    if (support.verdict == 0) {
      EXPECT_NE(support.reason[0], '\0') << "a verdict of no without a reason";
      throw Skip{support.reason};
    }
    must("create",
         [&](auto* e) { return table.create(host.table(), &spec, nullptr, 0, &self, e); });
  }
  ~Rig() {
    if (self != nullptr) table.destroy(self);
    EXPECT_EQ(host.live(), 0u) << "destroy left host memory behind";
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  moert_capture_spec_t spec() const {
    return {sizeof(moert_capture_spec_t),
            what_,
            place.id(),
            32,
            static_cast<uint32_t>(layers_.ids.size()),
            0,
            layers_.ids.data(),
            layers_.experts.data(),
            layers_.k.data()};
  }
  moert_code_t begin(const std::vector<Token>& tokens, moert_error_t* e) {
    std::vector<int64_t> sequences;
    std::vector<int64_t> positions;
    for (const Token& token : tokens) {
      sequences.push_back(token.sequence);
      positions.push_back(token.position);
    }
    const moert_capture_step_t step = {
        sizeof step,     0, static_cast<int64_t>(tokens.size()), place.stream(), sequences.data(),
        positions.data()};
    return table.begin(self, &step, e);
  }
  struct Record {
    std::vector<int32_t> ids;
    std::vector<float> weights, margins;
    int64_t rows;
  };
  // Random decisions for `rows` rows of a layer; the first and the last expert are among them.
  Record decisions(uint32_t layer, int64_t rows) {
    Record out;
    out.rows = rows;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < layers_.k[layer]; ++j) {
        const int64_t id = r == 0   ? 0
                           : r == 1 ? layers_.experts[layer] - 1
                                    : random.below(layers_.experts[layer]);
        out.ids.push_back(static_cast<int32_t>(id));
        out.weights.push_back(static_cast<float>(random.uniform()));
      }
      out.margins.push_back(static_cast<float>(random.uniform()));
    }
    return out;
  }
  moert_code_t record(uint32_t layer, const Record& r, moert_error_t* e, uint32_t flags = 0,
                      bool with_weights = true) {
    const int64_t k = layer < layers_.k.size() ? layers_.k[layer] : 1;
    const Tensor ids(place, MOERT_DTYPE_I32, {r.rows, k}, bytes_of(r.ids));
    const Tensor weights(place, MOERT_DTYPE_F32, {r.rows, k}, bytes_of(r.weights));
    const Tensor margins(place, MOERT_DTYPE_F32, {r.rows}, bytes_of(r.margins));
    moert_capture_record_t record{};
    record.struct_size = sizeof record;
    record.flags = flags;
    record.layer = layer;
    record.ids = ids.get();
    if ((what_ & MOERT_CAPTURE_WEIGHTS) != 0 && with_weights) record.weights = weights.get();
    if ((what_ & MOERT_CAPTURE_MARGINS) != 0) record.margins = margins.get();
    const moert_code_t code = table.record(self, &record, e);
    must("flush", [&](auto* error) { return table.flush(self, error); });
    return code;
  }
  // A whole step; layers in `absent` are not recorded. `padding` more rows stand behind the tokens.
  // Rows in `empty` have no token that a router could look up, and so no experts.
  void step(const std::vector<Token>& tokens, const std::vector<uint32_t>& absent = {},
            int64_t padding = 0, const std::vector<size_t>& empty = {}) {
    must("begin", [&](auto* e) { return begin(tokens, e); });
    std::vector<Record> records(layers_.ids.size());
    for (uint32_t l = static_cast<uint32_t>(layers_.ids.size()); l-- > 0;) {
      if (std::find(absent.begin(), absent.end(), l) != absent.end()) continue;
      records[l] = decisions(l, static_cast<int64_t>(tokens.size()) + padding);
      const auto k = static_cast<size_t>(layers_.k[l]);
      for (const size_t row : empty) std::fill_n(records[l].ids.data() + row * k, k, -1);
      must("record", [&](auto* e) { return record(l, records[l], e); });
    }
    must("end", [&](auto* e) { return table.end(self, e); });
    for (size_t t = 0; t < tokens.size(); ++t) {
      Row row{tokens[t], {}};
      for (size_t l = 0; l < records.size(); ++l) {
        Record cell{{}, {}, {}, 0};
        if (!records[l].ids.empty() && std::find(empty.begin(), empty.end(), t) == empty.end()) {
          const auto k = static_cast<std::ptrdiff_t>(layers_.k[l]);
          const auto first = static_cast<std::ptrdiff_t>(t) * k;
          cell.ids.assign(records[l].ids.begin() + first, records[l].ids.begin() + first + k);
          cell.weights.assign(records[l].weights.begin() + first,
                              records[l].weights.begin() + first + k);
          cell.margins = {records[l].margins[t]};
        }
        row.cells.push_back(cell);
      }
      rows_.push_back(row);
    }
  }
  void drop(int64_t sequence, int64_t position) {
    must("drop", [&](auto* e) { return table.drop(self, sequence, position, e); });
    rows_.erase(std::remove_if(rows_.begin(), rows_.end(),
                               [&](const Row& row) {
                                 return row.token.sequence == sequence &&
                                        row.token.position >= position;
                               }),
                rows_.end());
  }
  // Everything read back, layer by layer, in pieces of `piece` rows.
  void expect_all(int64_t piece = 7) {
    for (uint32_t l = 0; l < layers_.ids.size(); ++l) {
      int64_t first = 0;
      int64_t written = 0;
      do {
        written = expect_some(l, first, piece);
        first += written;
      } while (written == piece);
      EXPECT_EQ(first, static_cast<int64_t>(rows_.size())) << "layer index " << l;
    }
  }

 private:
  struct Row {
    Token token;
    std::vector<Record> cells;
  };
  int64_t expect_some(uint32_t l, int64_t first, int64_t piece) {
    const auto k = static_cast<size_t>(layers_.k[l]);
    const auto n = static_cast<size_t>(piece);
    constexpr size_t kGuard = 4;
    std::vector<int32_t> ids(n * k + kGuard, -77);
    std::vector<float> weights(n * k + kGuard, -77.0f);
    std::vector<float> margins(n + kGuard, -77.0f);
    std::vector<uint8_t> present(n + kGuard, 77);
    std::vector<int64_t> sequences(n + kGuard, -77);
    std::vector<int64_t> positions(n + kGuard, -77);
    moert_capture_rows_t rows{};
    rows.struct_size = sizeof rows;
    rows.layer = l;
    rows.first = first;
    rows.rows = piece;
    rows.ids = ids.data();
    if ((what_ & MOERT_CAPTURE_WEIGHTS) != 0) rows.weights = weights.data();
    if ((what_ & MOERT_CAPTURE_MARGINS) != 0) rows.margins = margins.data();
    rows.present = present.data();
    rows.sequences = sequences.data();
    rows.positions = positions.data();
    ErrorRecord error;
    const moert_code_t code = table.read(self, &rows, error.get());
    if (code == MOERT_UNIMPLEMENTED) throw Skip{"keeps no rows to read back"};
    EXPECT_EQ(code, MOERT_OK) << error.text();
    if (code != MOERT_OK || rows.written < 0 || rows.written > piece) throw Stop{};
    for (int64_t r = 0; r < rows.written; ++r) {
      const auto i = static_cast<size_t>(r);
      const Row& want = rows_.at(static_cast<size_t>(first) + i);
      const Record& cell = want.cells[l];
      const std::string place_text =
          "layer index " + std::to_string(l) + ", row " + std::to_string(first + r);
      EXPECT_EQ(sequences[i], want.token.sequence) << place_text;
      EXPECT_EQ(positions[i], want.token.position) << place_text;
      EXPECT_EQ(present[i], cell.ids.empty() ? 0 : 1) << place_text;
      const bool absent = cell.ids.empty();
      for (size_t j = 0; j < k; ++j) {
        EXPECT_EQ(ids[i * k + j], absent ? -77 : cell.ids[j]) << place_text << ", slot " << j;
        if (rows.weights != nullptr) {
          EXPECT_EQ(weights[i * k + j], absent ? -77.0f : cell.weights[j])
              << place_text << ", slot " << j;
        }
      }
      if (rows.margins != nullptr) {
        EXPECT_EQ(margins[i], absent ? -77.0f : cell.margins[0]) << place_text;
      }
    }
    for (size_t i = static_cast<size_t>(rows.written) * k; i < ids.size(); ++i)
      EXPECT_EQ(ids[i], -77) << "ids behind the rows were written";
    for (size_t i = static_cast<size_t>(rows.written); i < present.size(); ++i)
      EXPECT_EQ(present[i], 77) << "presence behind the rows was written";
    return rows.written;
  }

 public:
  const moert_capturer_t& table;

 private:
  const Layers layers_;
  const uint32_t what_;
  std::vector<Row> rows_;

 public:
  TestHost host;
  Place place;
  Random random;
  void* self = nullptr;
};

std::vector<Token> tokens(int64_t sequence, int64_t first, int64_t count) {
  std::vector<Token> all;
  for (int64_t i = 0; i < count; ++i) all.push_back({sequence, first + i});
  return all;
}

void several_steps(const Feature& feature, uint32_t what) {
  Rig rig(feature, what);
  rig.expect_all();
  rig.step(tokens(7, 0, 5));
  rig.step({});
  std::vector<Token> mixed = tokens(7, 5, 1);
  for (const Token& token : tokens(-3, 0, 9)) mixed.push_back(token);
  rig.step(mixed);
  rig.step(tokens(7, 6, 3), {}, 6);  // rows behind the tokens are padding
  rig.expect_all();
  rig.expect_all(1);
  rig.expect_all(100);
}

void absent_layers(const Feature& feature) {
  Rig rig(feature);
  rig.step(tokens(1, 0, 4), {0, 2});
  rig.step(tokens(1, 4, 4), {0, 1, 2, 3});
  rig.step(tokens(1, 8, 4));
  rig.step(tokens(1, 12, 4), {1}, 2, {1, 3});
  rig.expect_all();
}

// Dropped rows are gone, memory that is used again says nothing of them.
void dropping(const Feature& feature) {
  Rig rig(feature);
  std::vector<Token> both = tokens(1, 0, 6);
  for (const Token& token : tokens(2, 0, 6)) both.push_back(token);
  rig.step(both);
  rig.drop(1, 4);
  rig.expect_all();
  rig.step(tokens(1, 4, 2), {1});
  rig.expect_all();
  rig.drop(2, 0);
  rig.drop(99, 0);
  rig.drop(1, 100);
  rig.expect_all();
  for (int64_t i = 0; i < 20; ++i) {
    rig.step(tokens(3, i * 10, 10), {static_cast<uint32_t>(i % 4)});
    rig.drop(3, i * 10 + 3);
  }
  rig.expect_all();
}

void order(const Feature& feature) {
  Rig rig(feature);
  const std::initializer_list<moert_code_t> wrong = {MOERT_FAILED_PRECONDITION};
  const Rig::Record two = rig.decisions(0, 2);
  must_fail("record outside a step", wrong, [&](auto* e) { return rig.record(0, two, e); });
  must_fail("end outside a step", wrong, [&](auto* e) { return rig.table.end(rig.self, e); });
  must("begin", [&](auto* e) { return rig.begin(tokens(1, 0, 2), e); });
  must_fail("begin inside a step", wrong, [&](auto* e) { return rig.begin(tokens(1, 2, 2), e); });
  must("record", [&](auto* e) { return rig.record(0, two, e); });
  must_fail("a layer twice in a step", {MOERT_ALREADY_EXISTS},
            [&](auto* e) { return rig.record(0, two, e); });
  must("end", [&](auto* e) { return rig.table.end(rig.self, e); });
}

void refuses(const Feature& feature) {
  Rig rig(feature);
  const std::initializer_list<moert_code_t> invalid = {MOERT_INVALID_ARGUMENT};
  must_fail("more tokens than max_tokens", {MOERT_INVALID_ARGUMENT, MOERT_RESOURCE_EXHAUSTED},
            [&](auto* e) { return rig.begin(tokens(1, 0, 33), e); });
  moert_capture_step_t step = {sizeof step, 1u << 31, 0, rig.place.stream(), nullptr, nullptr};
  must_fail("a step flag that nobody knows", {MOERT_UNIMPLEMENTED},
            [&](auto* e) { return rig.table.begin(rig.self, &step, e); });
  must("begin", [&](auto* e) { return rig.begin(tokens(1, 0, 2), e); });
  const Rig::Record good = rig.decisions(0, 2);
  must_fail("a layer that does not exist", invalid,
            [&](auto* e) { return rig.record(4, {{0, 0}, {0, 0}, {0, 0}, 2}, e); });
  must_fail("fewer rows than tokens", invalid,
            [&](auto* e) { return rig.record(0, rig.decisions(0, 1), e); });
  must_fail("a record flag that nobody knows", {MOERT_UNIMPLEMENTED},
            [&](auto* e) { return rig.record(0, good, e, 1u << 31); });
  must_fail("weights that were asked for and are missing", invalid,
            [&](auto* e) { return rig.record(0, good, e, 0, false); });
  if (rig.place.host_memory()) {
    for (const int32_t id : {-1, 8, INT32_MAX}) {
      Rig::Record bad = good;
      bad.ids.back() = id;
      must_fail("an id outside the layer", invalid, [&](auto* e) { return rig.record(0, bad, e); });
    }
  }
  must("the right record after that", [&](auto* e) { return rig.record(0, good, e); });
  must("end", [&](auto* e) { return rig.table.end(rig.self, e); });
}

void declines(const Feature& feature) {
  const Rig rig(feature);
  const auto verdict = [&](const char* what,
                           const std::function<void(moert_capture_spec_t&)>& change) {
    moert_capture_spec_t spec = rig.spec();
    change(spec);
    moert_support_t support{};
    support.struct_size = sizeof support;
    must("supports",
         [&](auto* e) { return rig.table.supports(rig.host.table(), &spec, &support, e); });
    EXPECT_EQ(support.verdict, 0) << what << " was accepted";
    EXPECT_NE(support.reason[0], '\0') << what << ": a verdict of no without a reason";
  };
  static constexpr int64_t kTwice[] = {1, 1, 5, 9};
  static constexpr int64_t kMany[] = {9, 8, 4, 1};
  verdict("something to capture that nobody knows", [](auto& s) { s.what |= 1u << 31; });
  verdict("no layers", [](auto& s) { s.n_layers = 0; });
  verdict("a layer twice", [](auto& s) { s.layer_ids = kTwice; });
  verdict("more slots than experts", [](auto& s) { s.top_k = kMany; });
  verdict("a device that nobody knows",
          [](auto& s) { s.device = {MOERT_DEVICE_KIND('n', 'o', 'n', 'e'), 0}; });
}

// Objects share nothing.
void two_objects(const Feature& feature) {
  Rig one(feature);
  Rig other(feature, MOERT_CAPTURE_IDS, {{0}, {4}, {4}});
  one.step(tokens(1, 0, 3));
  other.step(tokens(1, 0, 5));
  one.expect_all();
  other.expect_all();
}

}  // namespace

void add_capturer_tests(const Feature& feature) {
  add(feature, "Steps", "everything", [=] { several_steps(feature, kAll); });
  add(feature, "Steps", "ids", [=] { several_steps(feature, MOERT_CAPTURE_IDS); });
  add(feature, "Steps", "ids_and_weights",
      [=] { several_steps(feature, MOERT_CAPTURE_IDS | MOERT_CAPTURE_WEIGHTS); });
  add(feature, "AbsentLayers", "", [=] { absent_layers(feature); });
  add(feature, "Dropping", "", [=] { dropping(feature); });
  add(feature, "OrderOfCalls", "", [=] { order(feature); });
  add(feature, "Refuses", "", [=] { refuses(feature); });
  add(feature, "Declines", "", [=] { declines(feature); });
  add(feature, "TwoObjects", "", [=] { two_objects(feature); });
}

}  // namespace moert::conformance
