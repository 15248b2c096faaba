// The JSON schema and the parser, made from one table, must agree; so must the files made from it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>

#include "config/config.hpp"
#include "config/family_file.hpp"
#include "config/table.hpp"
#include "unit/config/schema_validator.hpp"
#include "unit/config/support.hpp"

namespace moert::config::test {
namespace {

const SchemaValidator& validator() {
  static const SchemaValidator made(
      SchemaJson::parse(read_file(source_folder() / "configs/schema/moert-v1.schema.json")));
  return made;
}

SchemaJson json_of(const YamlNode& node) {
  switch (node.type) {
    case YamlNode::Type::null: return nullptr;
    case YamlNode::Type::boolean: return node.boolean;
    case YamlNode::Type::integer: return node.integer;
    case YamlNode::Type::number: return node.number;
    case YamlNode::Type::string: return node.text;
    case YamlNode::Type::list: {
      SchemaJson list = SchemaJson::array();
      for (const YamlNode& item : node.items) list.push_back(json_of(item));
      return list;
    }
    case YamlNode::Type::map: break;
  }
  SchemaJson map = SchemaJson::object();
  for (const YamlNode& item : node.items) map[item.key] = json_of(item);
  return map;
}

const Table* table_of(const std::string& kind) {
  if (kind == "Run") return &run_table();
  if (kind == "Model") return &model_table();
  if (kind == "Experts") return &experts_table();
  return kind == "Family" ? &family_table() : nullptr;
}

// The parser's verdict on structure: its own check, before facts that a schema cannot say.
std::string parser_fault(const YamlNode& document, const Table& table) {
  try {
    check(document, table);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string parser_fault(const YamlNode& document) {
  const YamlNode* kind = document.find("kind");
  const Table* table = kind != nullptr ? table_of(kind->text) : nullptr;
  return table == nullptr ? "no such kind" : parser_fault(document, *table);
}

YamlNode parsed(const std::string& text) {
  return parse_yaml(text, std::make_shared<Source>(Source{"d.yaml", true, "/"}));
}

std::vector<fs::path> shipped_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(source_folder() / "configs"))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

// With MOERT_UPDATE=1 in the environment the files are written instead of compared.
bool updating() { return std::getenv("MOERT_UPDATE") != nullptr; }

TEST(Schema, ShippedFileIsTheOneMadeFromTheTables) {
  const fs::path file = source_folder() / "configs/schema/moert-v1.schema.json";
  if (updating()) std::ofstream(file) << json_schema();
  EXPECT_EQ(read_file(file), json_schema())
      << "MOERT_UPDATE=1 unit_config --gtest_filter='Schema.*' writes it anew";
}

TEST(Schema, TablesInTheDocumentAreThoseOfTheParser) {
  const fs::path file = source_folder() / "docs/yaml.md";
  std::string text = read_file(file);
  for (const char* kind : {"Run", "Model", "Family", "Experts"}) {
    const std::string begin = std::string("<!-- keys of ") + kind + " -->\n",
                      end = "<!-- end of keys -->";
    const size_t from = text.find(begin);
    ASSERT_NE(from, std::string::npos) << begin;
    const size_t to = text.find(end, from);
    ASSERT_NE(to, std::string::npos) << kind;
    const std::string rows = markdown_rows(*table_of(kind));
    const size_t start = from + begin.size();
    if (updating())
      text.replace(start, to - start, rows);
    else
      EXPECT_EQ(text.substr(start, to - start), rows)
          << "MOERT_UPDATE=1 unit_config --gtest_filter='Schema.*' writes it anew";
  }
  if (updating()) std::ofstream(file) << text;
}

TEST(Schema, EveryShippedFileFitsBothAndNamesTheSchema) {
  const std::vector<fs::path> files = shipped_files();
  EXPECT_GE(files.size(), 15u);
  for (const fs::path& file : files) {
    SCOPED_TRACE(file);
    const YamlNode document = read_yaml_file(file);
    EXPECT_EQ(parser_fault(document), "");
    EXPECT_EQ(validator().fault(json_of(document)), "")
        << validator().fault_of(kind_of(file), json_of(document));
    const std::string first = read_file(file).substr(0, 200);
    const std::string mark = "# yaml-language-server: $schema=";
    ASSERT_TRUE(first.starts_with(mark));
    EXPECT_TRUE(
        fs::exists(file.parent_path() / first.substr(mark.size(), first.find('\n') - mark.size())));
  }
}

// Each key of each shipped document is taken out, misspelt, and given values of other types: parser and
// schema must come to the same verdict every time.
class Mutations {
 public:
  explicit Mutations(YamlNode document)
      : document_(std::move(document)), kind_(document_.find("kind")->text) {}
  int run() {
    visit(document_);
    return faults_;
  }

 private:
  void judge(const std::string& what) {
    const std::string by_parser = parser_fault(document_, *table_of(kind_));
    const std::string by_schema = validator().fault_of(kind_, json_of(document_));
    EXPECT_EQ(by_parser.empty(), by_schema.empty())
        << what << "\nparser: " << by_parser << "\nschema: " << by_schema;
    faults_ += by_parser.empty() ? 0 : 1;
  }
  void visit(YamlNode& node) {
    for (size_t i = 0; i < node.items.size(); ++i) {
      const YamlNode kept = node.items[i];
      for (const char* text : {"", "x", "true", "0", "-1", "1.5", "1e9", "'0'", "[]", "[x]",
                               "[a, a]", "{}", "{x: 1}"}) {
        YamlNode value = *text == '\0' ? YamlNode{} : parsed(std::string("v: ") + text).items[0];
        value.key = kept.key;
        node.items[i] = value;
        judge(kept.place() + " = " + text);
      }
      node.items[i] = kept;
      if (node.type == YamlNode::Type::map) {
        node.items[i].key += "x";
        judge(kept.place() + " misspelt");
        node.items[i].key = kept.key;
      }
      node.items.erase(node.items.begin() + static_cast<std::ptrdiff_t>(i));
      judge(kept.place() + " taken out");
      node.items.insert(node.items.begin() + static_cast<std::ptrdiff_t>(i), kept);
      visit(node.items[i]);
    }
  }
  YamlNode document_;
  std::string kind_;
  int faults_ = 0;
};

constexpr const char* kFullRun = R"(
apiVersion: moert/v1
kind: Run
metadata: { name: full }
spec:
  model: { description: m.yaml }
  device: cuda:0
  prefer: [cpu, simd]
  layers: { routed_experts: cpu.ref, router: auto, shared_experts: cpu.ref, runner: auto, quant: bf16 }
  options: { routed_experts: { gemm: wgmma }, router: { a: 1 }, shared_experts: { b: true }, runner: { c: x } }
  fallback: next
  inputs: { hidden_states: h }
  outputs: { file: o }
  capture: [ { to: file, path: p, what: [ids, weights, margins], options: { buffer_mb: 4, x: y, z: true } } ]
  replay: r
  verify: true
  expect: { file: g, tolerance: { output: 1e-5, weights: 0 } }
  threads: 4
  repeat: 5
)";
constexpr const char* kFullModel = R"(
apiVersion: moert/v1
kind: Model
metadata: { name: full }
spec:
  family: f
  checkpoint: c
  hidden_size: 8
  num_layers: 3
  dtype: bf16
  dense_layers: 0
  layers:
    - layers: 1-2
      intermediate_size: 4
      gated: true
      scheme: fp8
      activation: { name: silu, alpha: 1, limit: 7.0 }
      routing: { method: topk, scoring: sigmoid, num_experts: 8, top_k: 2, renormalize: true, routed_scale: 2.5,
                 scale_on: output, num_groups: 4, top_groups: 2, group_score: max }
      shared_experts: { count: 1, intermediate_size: 4, sigmoid_gate: true }
)";
constexpr const char* kFullFamily = R"(
apiVersion: moert/v1
kind: Family
metadata: { name: full }
spec:
  extends: common
  match: { model_type: [m], architectures: [M] }
  layers: [first_dense]
  spellings: { top_k: [k], shared_width: [] }
  defaults: { scoring: softmax, gated: true, num_groups: 1, renormalize_eps: 1e-20, shared_count: 0 }
  words: { activation: { swish: silu }, selection_bias: { noaux_tc: true } }
  refuse: [ { key: k, reason: r } ]
  tensors:
    experts: [ { layout: l, prefixes: ["a.{layer}."], rules: [ { name: "{expert}.w", parts: [gate, up], optional: true } ] } ]
    router: [ { name: "g.{layer}", tensor: gate_weight } ]
    shared: [ { name: "s.{layer}", parts: [sigmoid_gate] } ]
    ignore: [ { names: ["x.{layer}.*"], reason: r } ]
)";

struct Full {
  const char* name;
  const char* text;
};
void PrintTo(const Full& f, std::ostream* out) { *out << f.name; }

class EveryPlace : public ::testing::TestWithParam<Full> {};

TEST_P(EveryPlace, GetsOneVerdict) { EXPECT_GT(Mutations(parsed(GetParam().text)).run(), 200); }

INSTANTIATE_TEST_SUITE_P(Schema, EveryPlace,
                         ::testing::Values(Full{"Run", kFullRun}, Full{"Model", kFullModel},
                                           Full{"Family", kFullFamily}),
                         case_name<Full>);

TEST(Schema, ExamplesInTheDocumentAreGood) {
  const std::string text = read_file(source_folder() / "docs/yaml.md");
  const std::string open = "```yaml\n";
  int count = 0;
  for (size_t at = 0; (at = text.find(open, at)) != std::string::npos;) {
    at += open.size();
    std::string example = text.substr(at, text.find("```", at) - at);
    if (example.starts_with("spec:"))
      example = "apiVersion: moert/v1\nkind: Run\nmetadata: { name: x }\n" + example;
    SCOPED_TRACE(example);
    const YamlNode document = parsed(example);
    EXPECT_EQ(parser_fault(document), "");
    EXPECT_EQ(validator().fault(json_of(document)), "");
    ++count;
  }
  EXPECT_GE(count, 3);
}

struct Document {
  const char* name;
  const char* text;
  bool good;
};
void PrintTo(const Document& d, std::ostream* out) { *out << d.name; }

class Documents : public ::testing::TestWithParam<Document> {};

TEST_P(Documents, GetOneVerdict) {
  const YamlNode document = parsed(GetParam().text);
  EXPECT_EQ(parser_fault(document).empty(), GetParam().good) << parser_fault(document);
  EXPECT_EQ(validator().fault(json_of(document)).empty(), GetParam().good)
      << validator().fault(json_of(document));
}

#define RUN_HEAD \
  "apiVersion: moert/v1\nkind: Run\nmetadata: {name: x}\nspec:\n  inputs: {hidden_states: h}\n"
#define FAMILY_HEAD "apiVersion: moert/v1\nkind: Family\nmetadata: {name: x}\nspec:\n"
INSTANTIATE_TEST_SUITE_P(
    Schema, Documents,
    ::testing::Values(
        Document{"smallest_run", RUN_HEAD "  model: {checkpoint: c}\n", true},
        Document{"two_models", RUN_HEAD "  model: {checkpoint: c, description: d}\n", false},
        Document{"no_model", RUN_HEAD, false},
        Document{"smallest_family", FAMILY_HEAD "  abstract: true\n", true},
        Document{"free_words", FAMILY_HEAD "  words: {activation: {anything at all: silu}}\n",
                 true},
        Document{"free_words_type", FAMILY_HEAD "  words: {activation: {swish: 1}}\n", false},
        Document{"flag_words", FAMILY_HEAD "  words: {selection_bias: {noaux_tc: true}}\n", true},
        Document{"count_words", FAMILY_HEAD "  words: {top_k: {two: 2}}\n", false},
        Document{"default_type", FAMILY_HEAD "  defaults: {scoring: 1}\n", false},
        Document{"default_range", FAMILY_HEAD "  defaults: {top_k: 0}\n", false},
        Document{"layer_as_number",
                 "apiVersion: moert/v1\nkind: Model\nmetadata: {name: x}\nspec: {checkpoint: c, "
                 "hidden_size: 1, num_layers: 1, dense_layers: 0}\n",
                 true},
        Document{"layer_negative",
                 "apiVersion: moert/v1\nkind: Model\nmetadata: {name: x}\nspec: {checkpoint: c, "
                 "hidden_size: 1, num_layers: 1, dense_layers: -1}\n",
                 false},
        Document{"other_version",
                 "apiVersion: moert/v2\nkind: Run\nmetadata: {name: x}\nspec: {}\n", false},
        Document{"other_kind", "apiVersion: moert/v1\nkind: Walk\nmetadata: {name: x}\nspec: {}\n",
                 false},
        Document{"empty_map", "{}", false}),
    case_name<Document>);

TEST(Schema, ValidatorRefusesKeywordsItDoesNotKnow) {
  EXPECT_THROW(SchemaValidator(SchemaJson{{"if", true}}).fault(1), std::runtime_error);
  EXPECT_THROW(SchemaValidator(SchemaJson{{"type", "float"}}).fault(1), std::runtime_error);
  EXPECT_NE(SchemaValidator(SchemaJson{{"type", "integer"}}).fault(1.5), "");
}

}  // namespace
}  // namespace moert::config::test
