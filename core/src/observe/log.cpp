// SPDX-License-Identifier: Apache-2.0
#include "observe/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include <moert/error.hpp>

#include "util/nearest.hpp"

namespace moert::observe {

namespace {

const std::vector<std::string> kLevels = {"trace", "debug", "info", "warn", "error"};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::trace: return spdlog::level::trace;
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warn: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::err;
}

struct Filter {
  LogLevel level = LogLevel::warn;
  std::vector<std::string> areas;  // seen in full, whatever the level

  bool passes(LogLevel line, const std::string& area) const {
    return line >= level || std::find(areas.begin(), areas.end(), area) != areas.end();
  }
};

Filter parse_filter(const std::string& text) {
  Filter filter;
  std::stringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const auto level = std::find(kLevels.begin(), kLevels.end(), word);
    if (level != kLevels.end()) {
      filter.level = static_cast<LogLevel>(level - kLevels.begin());
    } else if (std::find(known_areas().begin(), known_areas().end(), word) != known_areas().end()) {
      filter.areas.push_back(word);
    } else {
      std::vector<std::string> known = kLevels;
      known.insert(known.end(), known_areas().begin(), known_areas().end());
      throw Error(Fault::usage, "unknown log level or area '" + word + "'", "--log / MOERT_LOG",
                  suggestion(word, known));
    }
  }
  return filter;
}

}  // namespace

const std::vector<std::string>& known_areas() {
  static const std::vector<std::string> areas = {"loader", "dispatch", "weights", "run", "plugin"};
  return areas;
}

LogSink make_sink(const LogSettings& settings) {
  const Filter filter = parse_filter(settings.filter);
  std::shared_ptr<spdlog::sinks::sink> target;
  try {
    if (settings.file.empty())
      target = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    else
      target = std::make_shared<spdlog::sinks::basic_file_sink_mt>(settings.file, false);
  } catch (const spdlog::spdlog_ex& e) {
    throw Error(Fault::usage, std::string("cannot write the log: ") + e.what(), settings.file,
                "choose another path for --log-file");
  }
  const auto logger = std::make_shared<spdlog::logger>("moert", target);
  logger->set_level(spdlog::level::trace);
  logger->set_pattern("%H:%M:%S.%e %l %v");
  logger->flush_on(spdlog::level::trace);
  return [logger, filter](LogLevel level, const std::string& area, const std::string& message) {
    if (filter.passes(level, area)) logger->log(spdlog_level(level), "{}: {}", area, message);
  };
}

}  // namespace moert::observe
