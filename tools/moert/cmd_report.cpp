// `moert report`.
// SPDX-License-Identifier: Apache-2.0
#include <moert/error.hpp>

#include "commands.hpp"
#include "json.hpp"
#include "outputs.hpp"
#include "report/report_page.hpp"
#include "setup.hpp"
#include "signals.hpp"
#include "text_table.hpp"
#include "util/file.hpp"

namespace moert::tool {

int cmd_report(const Options& options, Console& console) {
  make_log(options);
  if (options.output.empty())
    throw Error(Fault::usage, "nothing says where the page goes", "--output",
                "give a file, as in: -o report.html");
  std::vector<std::string> paths = {options.target};
  paths.insert(paths.end(), options.more.begin(), options.more.end());
  std::vector<report::ReportCapture> captures;
  for (const std::string& path : paths) {
    throw_if_interrupted();
    keep_input(path, options.output);
    captures.push_back(report::summarise(capture::CaptureFile(path)));
  }
  const std::string page = report::report_page(captures);
  write_text_file(options.output, page);
  if (options.json) {
    Json json = json_document("moert report");
    json["path"] = options.output;
    json["captures"] = paths;
    json["bytes"] = page.size();
    print_json(console, json);
  } else {
    console.line("wrote " + printable(path_text(options.output)) + ": " +
                 count_text(captures.size(), "capture") + ", " + bytes_text(page.size()));
  }
  return 0;
}

}  // namespace moert::tool
