// The program: parses, runs one command, turns what was thrown into text and an exit code.
// SPDX-License-Identifier: Apache-2.0
#include <exception>

#include <moert/error.hpp>

#include "arguments.hpp"
#include "console.hpp"
#include "error_text.hpp"
#include "signals.hpp"

namespace moert::tool {
namespace {

// Nobody reads what is left to say.
constexpr int kReaderGoneExit = static_cast<int>(Fault::device);

int run_command(int argc, const char* const* argv, Arguments& arguments) {
  parse_arguments(argc, argv, arguments);
  Console console(!arguments.options.no_color);
  if (arguments.run == nullptr) {
    console.line(std::string_view(arguments.text).substr(0, arguments.text.size() - 1));
    console.flush();
    return 0;
  }
  const int code = arguments.run(arguments.options, console);
  console.flush();
  throw_if_interrupted();
  return code;
}

int report(const Error& error, const Arguments& arguments) {
  Console console(false);
  show_error(console, error, arguments.options.json, arguments.options.command);
  try {
    console.flush();
  } catch (const std::exception&) {
    // The same error stands on stderr.
  }
  return error.exit_code();
}

int guarded(int argc, const char* const* argv) {
  Arguments arguments;
  try {
    return run_command(argc, argv, arguments);
  } catch (const Interrupted&) {
    Console(false).say("interrupted");
    return kInterruptedExit;
  } catch (const ReaderGone&) {
    return kReaderGoneExit;
  } catch (const std::exception& exception) {
    return report(as_error(exception), arguments);
  }
}

}  // namespace
}  // namespace moert::tool

int main(int argc, char** argv) {
  moert::tool::catch_signals();
  return moert::tool::guarded(argc, argv);
}
