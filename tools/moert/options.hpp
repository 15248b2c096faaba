// What was asked on the command line, whatever the subcommand. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace moert::tool {

// A text is empty, a list has no items, where a flag was not given.
struct Options {
  std::string command;      // "moert plugins list"
  std::string target;       // the positional argument: RUN.yaml, DIR, NAME
  std::string destination;  // the second one, of `quantize`

  // talk
  bool json = false, no_color = false, quiet = false;
  int verbose = 0;
  std::string log, log_file;

  // what a run is made of
  std::vector<std::string> set, plugin_path, families;
  std::string plugins, device, threads, cpu_isa;

  // of single commands
  bool all = false, markdown = false, verify = false, remove_stale = false, no_probes = false,
       no_graph = false;
  std::string output, replay;
  std::string model, like, from, to, sequence, first_position, encoding, near_tie, pairs, rows,
      folder, wait;
  std::vector<std::string> more;  // further positional arguments
  std::string scheme, experts, hidden_states, shard_size;
  std::string shape, tokens, candidates, seconds, repeat, layers, cache_mb;
  std::vector<std::string> exclude, option;
};

}  // namespace moert::tool
