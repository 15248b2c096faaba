// SPDX-License-Identifier: Apache-2.0
#include "signals.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

namespace moert::tool {

namespace {

// The only way in which a signal handler may leave a message.
volatile sig_atomic_t stop_requested = 0;

constexpr unsigned kPatienceSeconds = 2;

// In a signal handler, so nothing but system calls. A channel that takes nothing now must not keep the process.
[[noreturn]] void leave() {
  static constexpr char kText[] = "interrupted\n";
  pollfd channel = {STDERR_FILENO, POLLOUT, 0};
  if (::poll(&channel, 1, 0) == 1)
    static_cast<void>(!::write(STDERR_FILENO, kText, sizeof kText - 1));
  ::_exit(kInterruptedExit);
}

extern "C" void on_stop(int) {
  if (stop_requested != 0) leave();
  stop_requested = 1;
  ::alarm(kPatienceSeconds);
}

extern "C" void on_alarm(int) { leave(); }

void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

// Opened for the wrong direction, so that using the channel fails as it would have done.
void occupy(int channel, int flags) {
  if (::fcntl(channel, F_GETFD) != -1) return;
  const int file = ::open("/dev/null", flags);
  if (file < 0 || file == channel) return;
  ::dup2(file, channel);
  ::close(file);
}

}  // namespace

void catch_signals() {
  occupy(STDIN_FILENO, O_WRONLY);
  occupy(STDOUT_FILENO, O_RDONLY);
  occupy(STDERR_FILENO, O_RDONLY);
  handle(SIGINT, on_stop);
  handle(SIGTERM, on_stop);
  handle(SIGALRM, on_alarm);
  handle(SIGPIPE, SIG_IGN);
  handle(SIGXFSZ, SIG_IGN);  // a file above the limit is then a write that fails
}

bool interrupted() noexcept { return stop_requested != 0; }

void throw_if_interrupted() {
  if (interrupted()) throw Interrupted();
}

}  // namespace moert::tool
