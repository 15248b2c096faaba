// SPDX-License-Identifier: Apache-2.0
#include "capturer_rig.hpp"

#include <algorithm>

namespace moert::conformance {
namespace {

// What arrays hold before they are read into, and must still hold where nothing is written.
constexpr int32_t kUntouched = -77;
constexpr size_t kGuard = 4;

std::string text_of(const CapturerRig::Token& token) {
  return "sequence " + std::to_string(token.first) + ", position " + std::to_string(token.second);
}

template <class T>
std::vector<T> untouched(size_t count) {
  return std::vector<T>(count + kGuard, static_cast<T>(kUntouched));
}

template <class T>
void expect_untouched(const std::vector<T>& values, size_t from, const char* what) {
  for (size_t i = from; i < values.size(); ++i)
    EXPECT_EQ(values[i], static_cast<T>(kUntouched)) << what << " behind the rows were written";
}

template <class T>
std::vector<T> part(const std::vector<T>& values, size_t first, size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

const CapturedLayers& mixed_layers() {
  static const CapturedLayers layers = {{1, 2, 5, 9}, {8, 256, 257, 70000}, {2, 8, 4, 1}};
  return layers;
}

std::vector<CapturerRig::Token> tokens(int64_t sequence, int64_t first, int64_t count) {
  std::vector<CapturerRig::Token> all;
  for (int64_t i = 0; i < count; ++i) all.emplace_back(sequence, first + i);
  return all;
}

CapturerRig::CapturerRig(const Feature& feature, uint32_t what, const CapturedLayers& layers)
    : table(feature.table<moert_capturer_t>()),
      host(1),
      place(feature.device),
      random("capturer"),
      layers_(layers),
      what_(what) {
  moert_capture_spec_t spec = this->spec();
  moert_support_t support{};
  support.struct_size = sizeof support;
  must("supports", [&](auto* e) { return table.supports(host.table(), &spec, &support, e); });
  if (support.verdict == 0) {
    EXPECT_NE(support.reason[0], '\0') << "a verdict of no without a reason";
    throw Skip{support.reason};
  }
  must("create", [&](auto* e) { return table.create(host.table(), &spec, nullptr, 0, &self, e); });
}

CapturerRig::~CapturerRig() {
  if (self != nullptr) table.destroy(self);
  EXPECT_EQ(host.live(), 0u) << "destroy left host memory behind";
}

moert_capture_spec_t CapturerRig::spec() const {
  return {sizeof(moert_capture_spec_t),
          what_,
          place.id(),
          32,
          static_cast<uint32_t>(layers_.ids.size()),
          0,
          layers_.ids.data(),
          layers_.experts.data(),
          layers_.k.data(),
          nullptr,
          0,
          0};
}

moert_code_t CapturerRig::begin(const std::vector<Token>& tokens, moert_error_t* e,
                                uint32_t flags) {
  std::vector<int64_t> sequences;
  std::vector<int64_t> positions;
  for (const auto& [sequence, position] : tokens) {
    sequences.push_back(sequence);
    positions.push_back(position);
  }
  const moert_capture_step_t step = {
      sizeof step,      flags,           static_cast<int64_t>(tokens.size()), place.stream(),
      sequences.data(), positions.data()};
  return table.begin(self, &step, e);
}

CapturerRig::Record CapturerRig::decisions(uint32_t layer, int64_t rows) {
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

moert_code_t CapturerRig::record(uint32_t layer, const Record& r, moert_error_t* e, uint32_t flags,
                                 bool with_weights) {
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

CapturerRig::Row CapturerRig::row_of(const std::vector<Token>& tokens, size_t t,
                                     const std::vector<Record>& records, const Step& how) const {
  Row row{tokens[t], std::vector<Record>(records.size())};
  if (std::find(how.empty.begin(), how.empty.end(), t) != how.empty.end()) return row;
  for (size_t l = 0; l < records.size(); ++l) {
    if (records[l].ids.empty()) continue;
    const auto k = static_cast<size_t>(layers_.k[l]);
    row.cells[l] = {part(records[l].ids, t * k, k),
                    part(records[l].weights, t * k, k),
                    {records[l].margins[t]},
                    1};
  }
  return row;
}

void CapturerRig::step(const std::vector<Token>& tokens, const Step& how) {
  must("begin", [&](auto* e) {
    return begin(tokens, e, how.commit ? uint32_t{MOERT_CAPTURE_STEP_COMMIT} : 0u);
  });
  std::vector<Record> records(layers_.ids.size());
  for (uint32_t l = static_cast<uint32_t>(layers_.ids.size()); l-- > 0;) {
    if (std::find(how.absent.begin(), how.absent.end(), l) != how.absent.end()) continue;
    records[l] = decisions(l, static_cast<int64_t>(tokens.size()) + how.padding);
    const auto k = static_cast<size_t>(layers_.k[l]);
    for (const size_t row : how.empty) std::fill_n(records[l].ids.data() + row * k, k, -1);
    must("record", [&](auto* e) { return record(l, records[l], e); });
  }
  must("end", [&](auto* e) { return table.end(self, e); });
  std::vector<Row>& to = how.commit ? committed_ : pending_;
  for (size_t t = 0; t < tokens.size(); ++t) to.push_back(row_of(tokens, t, records, how));
}

template <class Wanted>
std::vector<CapturerRig::Row> CapturerRig::taken(const Wanted& wanted) {
  std::vector<Row> rows;
  std::vector<Row> stay;
  for (const Row& row : pending_) (wanted(row.token) ? rows : stay).push_back(row);
  pending_ = stay;
  return rows;
}

void CapturerRig::commit(int64_t sequence, int64_t position) {
  must("commit", [&](auto* e) { return table.commit(self, sequence, position, e); });
  const auto rows = taken([&](const Token& token) {
    return token.first == sequence && (token.second < position || position == INT64_MAX);
  });
  committed_.insert(committed_.end(), rows.begin(), rows.end());
}

void CapturerRig::drop(int64_t sequence, int64_t position) {
  must("drop", [&](auto* e) { return table.drop(self, sequence, position, e); });
  taken([&](const Token& token) { return token.first == sequence && token.second >= position; });
}

void CapturerRig::expect_counts() {
  moert_capture_counts_t counts{};
  counts.struct_size = sizeof counts;
  must("counts", [&](auto* e) { return table.counts(self, &counts, e); });
  EXPECT_EQ(counts.rows, static_cast<int64_t>(committed_.size()));
  EXPECT_EQ(counts.pending, static_cast<int64_t>(pending_.size()));
  EXPECT_EQ(counts.absent, 0) << "memory was not short";
  EXPECT_EQ(counts.lost, 0) << "memory was not short";
}

void CapturerRig::expect_all(int64_t piece) {
  expect_counts();
  for (uint32_t l = 0; l < layers_.ids.size(); ++l) {
    const Column column = read_all(l, piece);
    EXPECT_EQ(column.tokens.size(), committed_.size()) << "layer index " << l;
    if (column.tokens.size() < order_.size()) throw Stop{};
    for (size_t r = 0; r < order_.size(); ++r)
      EXPECT_EQ(column.tokens[r], order_[r])
          << "row " << r << " of layer index " << l << " was another token's before";
    order_ = column.tokens;
    expect_cells(l, column);
  }
}

void CapturerRig::expect_cells(uint32_t layer, const Column& column) {
  std::map<Token, std::vector<Record>> want, got;
  for (const Row& row : committed_) want[row.token].push_back(row.cells[layer]);
  for (size_t r = 0; r < column.tokens.size(); ++r)
    got[column.tokens[r]].push_back(column.cells[r]);
  for (const auto& [token, cells] : want) {
    const std::string where = "layer index " + std::to_string(layer) + ", " + text_of(token);
    const std::vector<Record>& found = got[token];
    EXPECT_EQ(found.size(), cells.size()) << where << ": rows of it";
    for (size_t i = 0; i < std::min(found.size(), cells.size()); ++i) {
      EXPECT_EQ(found[i].ids, cells[i].ids) << where;
      if ((what_ & MOERT_CAPTURE_WEIGHTS) != 0) {
        EXPECT_EQ(found[i].weights, cells[i].weights) << where;
      }
      if ((what_ & MOERT_CAPTURE_MARGINS) != 0) {
        EXPECT_EQ(found[i].margins, cells[i].margins) << where;
      }
    }
  }
}

CapturerRig::Column CapturerRig::read_all(uint32_t layer, int64_t piece) {
  Column column;
  int64_t written = 0;
  do {
    written = read_some(layer, static_cast<int64_t>(column.tokens.size()), piece, column);
  } while (written == piece);
  return column;
}

int64_t CapturerRig::read_some(uint32_t layer, int64_t first, int64_t piece, Column& to) {
  const auto k = static_cast<size_t>(layers_.k[layer]);
  const auto n = static_cast<size_t>(piece);
  std::vector<int32_t> ids = untouched<int32_t>(n * k);
  std::vector<float> weights = untouched<float>(n * k), margins = untouched<float>(n);
  std::vector<uint8_t> present = untouched<uint8_t>(n);
  std::vector<int64_t> sequences = untouched<int64_t>(n), positions = untouched<int64_t>(n);
  moert_capture_rows_t rows{};
  rows.struct_size = sizeof rows;
  rows.layer = layer;
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
  const auto written = static_cast<size_t>(rows.written);
  for (size_t r = 0; r < written; ++r) {
    to.tokens.emplace_back(sequences[r], positions[r]);
    EXPECT_LE(present[r], 1) << text_of(to.tokens.back());
    Record cell{part(ids, r * k, k), part(weights, r * k, k), {margins[r]}, 1};
    if (present[r] == 0) {
      expect_untouched(cell.ids, 0, "ids of an absent row");
      expect_untouched(cell.weights, 0, "weights of an absent row");
      expect_untouched(cell.margins, 0, "the margin of an absent row");
      cell = {};
    }
    to.cells.push_back(cell);
  }
  expect_untouched(ids, written * k, "ids");
  expect_untouched(present, written, "presence flags");
  expect_untouched(sequences, written, "sequences");
  return rows.written;
}

}  // namespace moert::conformance
