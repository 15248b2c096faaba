// The head of a document, and the rules that a layer's numbers obey.
// SPDX-License-Identifier: Apache-2.0
#include "config/head.hpp"

#include <moert/sdk/dtypes.hpp>

#include "config/config.hpp"
#include "util/nearest.hpp"

namespace moert::config {
namespace {

const std::vector<std::string> kinds() { return {"Run", "Model", "Family", "Experts"}; }

const YamlNode& text_at(const YamlNode& document, const char* key, const std::string& example) {
  const YamlNode* node = document.find(key);
  if (node == nullptr)
    fail_at(document.place(), std::string("the key '") + key + "' is missing",
            "begin with: " + example);
  if (node->type != YamlNode::Type::string)
    fail_at(node->place(), std::string("'") + key + "' is " + node->said() + ", expected a text",
            "write: " + example);
  return *node;
}

std::string checked_kind(const YamlNode& document) {
  if (document.type != YamlNode::Type::map)
    fail_at(document.place(), "the document is " + document.said() + ", expected a map",
            "begin with: apiVersion: moert/v1");
  const YamlNode& version = text_at(document, "apiVersion", "apiVersion: moert/v1");
  if (version.text != "moert/v1")
    fail_at(version.place(), "'apiVersion' is '" + version.text + "', this program reads moert/v1",
            "write: apiVersion: moert/v1");
  const YamlNode& kind = text_at(document, "kind", "kind: Run");
  for (const std::string& known : kinds())
    if (kind.text == known) return known;
  fail_at(kind.place(), "'kind' is '" + kind.text + "', which is none of: " + joined(kinds()),
          suggestion(kind.text, kinds()));
}

std::string number(int64_t value) { return std::to_string(value); }

std::string group_fault(const spec::Routing& r) {
  if (r.num_groups == 1 && r.top_groups == 1) return "";
  if (r.num_groups < 1 || r.rows() % r.num_groups != 0)
    return "num_experts " + number(r.rows()) + " cannot be cut into num_groups " +
           number(r.num_groups) + " equal groups";
  if (r.top_groups < 1 || r.top_groups > r.num_groups)
    return "top_groups " + number(r.top_groups) + " is not in 1 to num_groups " +
           number(r.num_groups);
  const int64_t reachable = r.top_groups * (r.rows() / r.num_groups);
  if (reachable < r.top_k)
    return "top_k " + number(r.top_k) + " experts cannot be chosen from top_groups " +
           number(r.top_groups) + " groups of " + number(r.rows() / r.num_groups);
  if (r.method == "group_topk") return "";
  if (r.num_groups > 1 && r.group_score.empty())
    return "num_groups is " + number(r.num_groups) + ", but there is no group_score";
  return "";
}

// What a method asks of the other words.
std::string method_fault(const spec::Routing& r) {
  if (r.method == "sparsemixer" && r.top_k != 2)
    return "top_k is " + number(r.top_k) + ", but sparsemixer chooses 2 experts";
  if (r.method == "group_topk" && (r.top_k % r.num_groups != 0 || r.top_groups != r.num_groups))
    return "top_k " + number(r.top_k) + " experts cannot be taken in equal parts from num_groups " +
           number(r.num_groups) + " groups";
  if (r.bias_on_logits && !r.selection_bias)
    return "selection_bias_on is logits, but there is no selection_bias";
  const bool chooses = r.selection_bias || r.num_groups > 1;
  if ((r.method == "hash" || r.method == "sparsemixer") && chooses)
    return "the method " + r.method + " knows neither a selection bias nor groups";
  if (r.method == "sparsemixer" && (r.renormalize || r.scoring != "softmax"))
    return "sparsemixer goes with softmax scores and without renormalizing";
  return "";
}

}  // namespace

Table head_table(const std::string& kind) {
  return {
      {.path = "apiVersion",
       .type = Type::word,
       .required = true,
       .words = {"moert/v1"},
       .doc = "version of the words in this file"},
      {.path = "kind",
       .type = Type::word,
       .required = true,
       .words = {kind},
       .doc = "what the file describes"},
      {.path = "metadata", .type = Type::map, .required = true},
      {.path = "metadata.name", .required = true, .doc = "a name for reports"},
      {.path = "spec", .type = Type::map, .required = true},
  };
}

std::vector<std::string> activation_names() {
  return {"silu", "gelu", "gelu_tanh", "relu", "relu2", "swigluoai", "swiglustep", "situ"};
}
std::vector<std::string> scoring_names() {
  return {"softmax", "softmax_topk", "sigmoid", "sqrtsoftplus"};
}
std::vector<std::string> method_names() { return {"topk", "hash", "sparsemixer", "group_topk"}; }
std::vector<std::string> group_score_names() { return {"max", "top2_sum"}; }
std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const DtypeInfo& info : kDtypes)
    if (info.name.starts_with("f") || info.name.starts_with("bf")) names.emplace_back(info.name);
  return names;
}

void check_head(const YamlNode& document, const std::string& kind) {
  const std::string found = checked_kind(document);
  if (found != kind)
    fail_at(document.find("kind")->place(),
            "this is a " + found + ", a " + kind + " is needed here",
            "name a file of kind " + kind);
}

std::string kind_of(const std::filesystem::path& file) {
  return checked_kind(read_yaml_file(file));
}

std::string layer_fault(const spec::MoELayer& layer) {
  const spec::Routing& r = layer.routing;
  if (r.top_k > r.rows())
    return "top_k " + number(r.top_k) + " is above num_experts " + number(r.rows());
  std::string fault = group_fault(r);
  return fault.empty() ? method_fault(r) : fault;
}

}  // namespace moert::config
