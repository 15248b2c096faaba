// Builds nodes from yaml-cpp's events. The tree of yaml-cpp itself is not used: it forgets duplicate
// keys, and expands aliases.
// SPDX-License-Identifier: Apache-2.0
#include "config/yaml_node.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <unordered_map>
#include <utility>

#include "util/file.hpp"
#include "util/text.hpp"

namespace moert::config {

void fail_at(const std::string& place, std::string problem, std::string remedy) {
  throw Error(Fault::usage, std::move(problem), place, std::move(remedy));
}

namespace {

std::string place_in(const std::shared_ptr<const Source>& source, int line, int column) {
  if (source == nullptr) return "";
  if (!source->is_file) return source->name;
  return source->name + ":" + std::to_string(line) + ":" + std::to_string(column);
}

class Builder : public YAML::EventHandler {
 public:
  explicit Builder(std::shared_ptr<const Source> source) : source_(std::move(source)) {}
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node = begin(mark, "", anchor);
    add(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail_at(place(mark), "an alias (*name) stands here",
            "write the value itself: aliases are not taken");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = begin(mark, tag, anchor);
    if (value.size() > kMaxScalarBytes)
      fail_at(place(mark), "a text of " + std::to_string(value.size()) + " bytes",
              "texts may have " + std::to_string(kMaxScalarBytes) + " bytes at most");
    if (value.find('\0') != std::string::npos)
      fail_at(place(mark), "a text holds a NUL character",
              "remove the escape \\0: no name or path can hold it");
    node.text = value;
    node.type = YamlNode::Type::string;
    const bool is_key =
        !open_.empty() && open_.back().node.type == YamlNode::Type::map && !open_.back().has_key;
    if (tag == "?" && !is_key) resolve_plain(node);
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(mark, tag, anchor, YamlNode::Type::list, style);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(mark, tag, anchor, YamlNode::Type::map, style);
  }
  void OnMapEnd() override { close(); }

 private:
  // A list or map that is not complete yet.
  struct Open {
    YamlNode node;
    bool has_key = false;  // of a map: the next node is the value of `key`
    std::string key;
    int key_line = 0, key_column = 0;
    std::unordered_map<std::string, int> lines;  // of keys seen
  };

  std::string place(const YAML::Mark& mark) const {
    return place_in(source_, mark.line + 1, mark.column + 1);
  }

  YamlNode begin(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0)
      fail_at(place(mark), "an anchor (&name) stands here",
              "remove it: anchors and aliases are not taken");
    if (!tag.empty() && tag != "?" && tag != "!")
      fail_at(place(mark), "the tag " + tag + " stands here",
              "remove it: types follow from the key");
    YamlNode node;
    node.source = source_;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Type type, YAML::EmitterStyle::value style) {
    if (open_.size() >= static_cast<size_t>(kMaxYamlDepth))
      fail_at(place(mark), "lists and maps are nested deeper than " + std::to_string(kMaxYamlDepth),
              "no key is as deep as that");
    YamlNode node = begin(mark, tag, anchor);
    node.type = type;
    node.block = style == YAML::EmitterStyle::Block;
    if (!open_.empty() && open_.back().node.type == YamlNode::Type::map && !open_.back().has_key)
      fail_at(place(mark), "a list or map stands where a key must stand", "keys are plain words");
    open_.push_back({std::move(node), false, "", 0, 0, {}});
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    add(std::move(node));
  }

  void add(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.type == YamlNode::Type::map && !parent.has_key) return add_key(parent, node);
    if (parent.node.items.size() >= kMaxYamlEntries)
      fail_at(node.place(),
              "a list or map has more than " + std::to_string(kMaxYamlEntries) + " entries",
              "no key takes so many");
    node.key = std::exchange(parent.key, {});
    node.key_line = parent.key_line;
    node.key_column = parent.key_column;
    parent.has_key = false;
    parent.node.items.push_back(std::move(node));
  }

  void add_key(Open& parent, const YamlNode& key) {
    if (key.type == YamlNode::Type::null)
      fail_at(key.place(), "a key is empty",
              "write the key before the colon; in quotes if it is null");
    const auto [first, is_new] = parent.lines.emplace(key.text, key.line);
    if (!is_new)
      fail_at(key.place(), "the key '" + key.text + "' stands here a second time",
              "the first is in line " + std::to_string(first->second) + "; keep one of them");
    parent.has_key = true;
    parent.key = key.text;
    parent.key_line = key.line;
    parent.key_column = key.column;
  }

  std::shared_ptr<const Source> source_;
  std::vector<Open> open_;
  YamlNode root_;
};

// Bytes of the UTF-8 character at `at`, or 0 where there is none that YAML takes.
size_t character_bytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + bytes > text.size()) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  const unsigned char second = byte(at + 1);
  const bool bad = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                   (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return bad ? 0 : bytes;
}

// yaml-cpp guesses other encodings and replaces what it cannot read; here that is an error.
void check_text(const std::string& text, const std::shared_ptr<const Source>& source) {
  if (text.size() > kMaxYamlBytes)
    fail_at(source->name, "the text has " + std::to_string(text.size()) + " bytes",
            "descriptions may have " + std::to_string(kMaxYamlBytes) + " bytes at most");
  int line = 1, column = 1;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = character_bytes(text, at);
    if (bytes == 0)
      fail_at(place_in(source, line, column),
              "a byte here is no text in UTF-8, or a control character", "save the file as UTF-8");
    column = text[at] == '\n' ? 1 : column + 1;
    line += text[at] == '\n' ? 1 : 0;
    at += bytes;
  }
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view name) const {
  if (type != Type::map) return nullptr;
  for (const YamlNode& item : items)
    if (item.key == name) return &item;
  return nullptr;
}

std::string YamlNode::place() const { return place_in(source, line, column); }
std::string YamlNode::key_place() const {
  return key_line == 0 ? place() : place_in(source, key_line, key_column);
}

std::string YamlNode::origin() const {
  return source == nullptr || source->is_file ? place() : source->origin;
}

std::string YamlNode::said() const {
  const std::string shown = shortened(text, 57);
  switch (type) {
    case Type::null: return "nothing";
    case Type::boolean: return "the boolean " + shown;
    case Type::integer: return "the integer " + shown;
    case Type::number: return "the number " + shown;
    case Type::string: return "the text '" + shown + "'";
    case Type::list: return "a list";
    case Type::map: return "a map";
  }
  return "";
}

YamlNode parse_yaml(const std::string& text, const std::shared_ptr<const Source>& source) {
  check_text(text, source);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    Builder builder(source);
    if (!parser.HandleNextDocument(builder))
      fail_at(source->name, "the document is empty", "docs/yaml.md shows what a description holds");
    Builder second(source);
    if (parser.HandleNextDocument(second))
      fail_at(source->name, "several documents stand in one file", "write one file for each");
    return builder.take();
  } catch (const YAML::Exception& error) {
    const bool known = !error.mark.is_null();
    fail_at(known ? place_in(source, error.mark.line + 1, error.mark.column + 1) : source->name,
            "this is no YAML: " + error.msg, "correct the syntax there or just before it");
  }
}

YamlNode read_yaml_file(const std::filesystem::path& file) {
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  auto source = std::make_shared<Source>(Source{file.string(), true, folder});
  std::string text;
  try {
    text = read_text_file(file, kMaxYamlBytes);
  } catch (const Error& error) {  // a description is asked for: the user named a wrong file
    throw Error(Fault::usage, error.problem(), error.place(), error.remedy());
  }
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return parse_yaml(text, source);
}

}  // namespace moert::config
