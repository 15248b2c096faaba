// `moert capture show`, `stats`, `diff`, `convert`.
// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include <moert/error.hpp>

#include "capture/foreign.hpp"
#include "capture_text.hpp"
#include "commands.hpp"
#include "outputs.hpp"
#include "runtime/capture_set.hpp"
#include "setup.hpp"
#include "text_table.hpp"
#include "util/file.hpp"
#include "util/nearest.hpp"

namespace moert::tool {

namespace {

template <class Number>
Number number_of(const std::string& text, const char* flag, const char* what) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= Number{}))
    throw Error(Fault::usage, "'" + text + "' is no " + what, flag, std::string("give a ") + what);
  return value;
}

int64_t count_of(const std::string& text, const char* flag, int64_t fallback) {
  return text.empty() ? fallback : number_of<int64_t>(text, flag, "number from 0 on");
}

std::optional<int64_t> sequence_of(const Options& options) {
  if (options.sequence.empty()) return std::nullopt;
  int64_t value = 0;
  const std::string& text = options.sequence;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(Fault::usage, "'" + text + "' is no number of a sequence", "--sequence",
                "give a whole number; `moert capture show --rows 5` shows some");
  return value;
}

double near_tie_of(const Options& options) {
  return options.near_tie.empty()
             ? 1e-3
             : number_of<double>(options.near_tie, "--near-tie", "margin from 0 on");
}

void require_sequence(const capture::CaptureFile& file, std::optional<int64_t> sequence) {
  if (!sequence) return;
  const auto [begin, end] = file.rows_of(*sequence);
  if (begin != end) return;
  std::vector<std::string> some;  // a few of those that there are
  for (int64_t row = 0; row < file.rows() && some.size() < 8;
       row = file.rows_of(file.key(row).sequence).second)
    some.push_back(std::to_string(file.key(row).sequence));
  throw Error(Fault::usage, "no sequence " + std::to_string(*sequence), file.path().string(),
              some.empty() ? "the capture has no rows" : "it has, among others: " + joined(some));
}

// What foreign bytes do not say of the model: from a description of it, or from another capture.
capture::CaptureInfo model_info(const Options& options) {
  if (options.model.empty() == options.like.empty())
    throw Error(Fault::usage, "foreign routing does not say which layers and experts it is of",
                "--model", "give exactly one of --model DIR|Model.yaml and --like CAPTURE");
  if (!options.like.empty()) return capture::CaptureFile(options.like).info();
  const config::Families families = load_families(options);
  std::error_code ignored;
  const spec::Model model = std::filesystem::is_directory(options.model, ignored)
                                ? families.resolve(options.model)
                                : config::read_model(options.model);
  return runtime::capture_info(model);
}

capture::ForeignOptions foreign_options(const Options& options, const std::string& format) {
  capture::ForeignOptions foreign;
  try {
    foreign.format = capture::foreign_format(format).format;
  } catch (const Error& error) {
    throw Error(error.fault(), error.problem(), options.from.empty() ? "--to" : "--from",
                error.remedy());
  }
  if (options.encoding == "raw" || options.encoding == "base64")
    foreign.encoding =
        options.encoding == "raw" ? capture::Encoding::raw : capture::Encoding::base64;
  else if (!options.encoding.empty())
    throw Error(Fault::usage, "unknown encoding '" + options.encoding + "'", "--encoding",
                "give raw or base64");
  foreign.sequence = sequence_of(options).value_or(0);
  foreign.first_position = count_of(options.first_position, "--first-position", 0);
  return foreign;
}

// The only one there is, where none is named.
int64_t only_sequence(const capture::CaptureFile& file, const Options& options) {
  if (const auto asked = sequence_of(options)) {
    require_sequence(file, asked);
    return *asked;
  }
  if (file.rows() == 0) return 0;
  const int64_t first = file.key(0).sequence, last = file.key(file.rows() - 1).sequence;
  if (first != last)
    throw Error(Fault::usage,
                "the capture has several sequences, the other format has room for one",
                file.path().string(), "name one by --sequence, such as " + std::to_string(first));
  return first;
}

}  // namespace

int cmd_capture_show(const Options& options, Console& console) {
  make_log(options);
  const capture::CaptureFile file(options.target);
  const std::optional<int64_t> sequence = sequence_of(options);
  require_sequence(file, sequence);
  const int64_t rows = count_of(options.rows, "--rows", 0);
  if (options.json)
    print_json(console, capture_file_json(file, rows, sequence));
  else
    print_capture_file(console, file, rows, sequence);
  return 0;
}

int cmd_capture_stats(const Options& options, Console& console) {
  make_log(options);
  const capture::CaptureFile file(options.target);
  capture::StatisticsOptions wanted;
  wanted.sequence = sequence_of(options);
  require_sequence(file, wanted.sequence);
  wanted.near_tie = near_tie_of(options);
  wanted.pairs = static_cast<size_t>(count_of(options.pairs, "--pairs", 3));
  const std::vector<capture::LayerStatistics> layers = capture::statistics(file, wanted);
  if (options.json)
    print_json(console, statistics_json(file, layers));
  else
    print_statistics(console, file, layers);
  return 0;
}

int cmd_capture_diff(const Options& options, Console& console) {
  make_log(options);
  const capture::CaptureFile file(options.target), other(options.destination);
  const capture::Difference difference = capture::difference(file, other, near_tie_of(options));
  if (options.json) {
    Json json = json_document("moert capture diff");
    json.update(difference_json(difference));
    print_json(console, json);
  } else {
    print_difference(console, difference, printable(path_text(options.destination)));
  }
  return difference.proven() ? 0 : static_cast<int>(Fault::check);
}

int cmd_capture_convert(const Options& options, Console& console) {
  make_log(options);
  if (options.from.empty() == options.to.empty())
    throw Error(Fault::usage, "nothing says which of the two files is the foreign one", "--from",
                "give exactly one of --from FORMAT and --to FORMAT");
  keep_input(options.target, options.destination);
  if (!options.like.empty()) keep_input(options.like, options.destination);
  if (!options.model.empty()) {
    keep_input(options.model, options.destination);
    keep_checkpoint(options.model, options.destination, "the output");
  }
  if (!options.to.empty() && (!options.model.empty() || !options.like.empty()))
    throw Error(Fault::usage, "--model and --like say what foreign routing is of", "--to",
                "give them with --from; a capture says it itself");
  if (!options.from.empty()) {
    const capture::ForeignOptions foreign = foreign_options(options, options.from);
    capture::read_foreign(read_text_file(options.target, uint64_t{1} << 40U), options.target,
                          foreign, model_info(options), options.destination);
  } else {
    const capture::CaptureFile file(options.target);
    capture::ForeignOptions foreign = foreign_options(options, options.to);
    foreign.sequence = only_sequence(file, options);
    write_text_file(options.destination, capture::write_foreign(file, foreign));
  }
  if (options.json) {
    Json json = json_document("moert capture convert");
    json["path"] = options.destination;
    print_json(console, json);
  } else {
    console.line("wrote " + printable(path_text(options.destination)));
  }
  return 0;
}

}  // namespace moert::tool
