#!/usr/bin/env python3
"""Measures `moert bench experts` and peers that PyPI ships in one run, in turn, and prints how their times relate.

Peers are installed as published wheels into an environment of their own in a temporary folder; nothing is built. One
that does not install, or has nothing near to the format, is named with the reason. bench/README.md says what the
columns mean.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
STEADY = 0.1  # probes that differ by more than this share spoil a round
LEAST_STEADY = 3

# peer -> what to install: the first list whose wheels there are. --no-deps: kt-kernel's extension needs no torch.
PEERS = {"ggml": [["llama-cpp-python", "numpy"], ["libggml-python", "numpy"]],
         "kt": [["--no-deps", "kt-kernel", "numpy"]],
         "torch": [["torch", "numpy"]],
         "xiaotu": [["xiaotu-moe"]]}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moert", default="build/run/bin/moert", help="the program [build/run/bin/moert]")
    parser.add_argument("--shape", default="olmoe", help="as of `moert bench experts` [olmoe]")
    parser.add_argument("--scheme", default="bf16,mxfp4", help="formats, separated by commas [bf16,mxfp4]")
    parser.add_argument("--candidate", default="cpu.simd", help="who is compared with them [cpu.simd]")
    parser.add_argument("--tokens", default="1,4,32,128,512", help="tokens of a forward [1,4,32,128,512]")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="[one a processor]")
    parser.add_argument("--rounds", type=int, default=5, help="turns of everybody; 5 at least for figures [5]")
    parser.add_argument("--seconds", type=float, default=0.5, help="time of each in a turn [0.5]")
    parser.add_argument("--cache-mb", help="size of the last cache [the system's]")
    parser.add_argument("--peers", default=",".join(PEERS), help=f"[{','.join(PEERS)}]")
    parser.add_argument("--environment", type=pathlib.Path,
                        help="folder to install peers in and to keep for the next run [a temporary one]")
    parser.add_argument("--ggml-folder", help="take ggml's libraries from here, built for this processor, say")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures here")
    options = parser.parse_args()
    unknown = set(options.peers.split(",")) - set(PEERS)
    if unknown:
        parser.error(f"no peer {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    if options.rounds < 1 or options.seconds <= 0 or options.threads < 1:
        parser.error("--rounds and --threads are 1 at least, --seconds above 0")
    return options


# -- the peers


def install(peer, folder):
    """(python of the peer's environment, None), or (None, the reason)."""
    python = folder / peer / "bin" / "python"
    done = folder / peer / "installed"
    if done.exists():
        return python, None
    if not python.exists():
        made = subprocess.run([sys.executable, "-m", "venv", folder / peer], capture_output=True, text=True)
        if made.returncode != 0:
            return None, last_line(made.stdout + made.stderr)
    reasons = []
    for packages in PEERS[peer]:
        result = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                                 "--only-binary", ":all:", *packages], capture_output=True, text=True)
        if result.returncode == 0:
            done.touch()
            return python, None
        reasons.append(f"{' '.join(packages)}: {last_line(result.stderr)}")
    return None, "; ".join(reasons)


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no message"


class Worker:
    """A peer's process, stopped while others have their turn: threads that wait in a loop would take their time.
    `error` says why there is none."""

    def __init__(self, name, python, wish):
        self.name, self.error = name, None
        if not (HERE / f"{name}_peer.py").exists():
            self.error = "installs, but nothing here measures it"
            return
        self.talk = tempfile.TemporaryFile("w+", errors="replace")
        environment = dict(os.environ, OMP_NUM_THREADS=str(wish["threads"]), PYTHONDONTWRITEBYTECODE="1")
        self.process = subprocess.Popen([python, HERE / "worker.py", json.dumps(wish)], text=True, env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.talk)
        answer = self.read()
        self.error = answer.get("error")
        self.version, self.format = answer.get("version"), answer.get("format")
        self.process.send_signal(signal.SIGSTOP)

    def read(self):
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.talk.seek(0)
        return {"error": f"its process ended with {code}: {last_line(self.talk.read())}"}

    def measure(self, tokens, seconds):
        self.process.send_signal(signal.SIGCONT)
        try:
            print(json.dumps({"tokens": tokens, "seconds": seconds}), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # read() says why
        answer = self.read()
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def stop(self):
        if hasattr(self, "process"):
            self.process.send_signal(signal.SIGCONT)
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended already; what was written for it is still in the buffer
            self.process.wait()
            self.talk.close()


# -- moert


class Moert:
    def __init__(self, options, scheme):
        self.options, self.scheme = options, scheme

    def run(self, *more):
        command = [self.options.moert, "bench", "experts", "--threads", str(self.options.threads), "--json", *more]
        if self.options.cache_mb:
            command += ["--cache-mb", self.options.cache_mb]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode not in (0, 4) or not result.stdout:
            raise SystemExit(f"{' '.join(command)} ended with {result.returncode}:\n{result.stderr or result.stdout}")
        return json.loads(result.stdout)

    def layer(self, *more):
        return self.run("--shape", self.options.shape, "--scheme", self.scheme, "--candidates", self.options.candidate,
                        *more)

    def probe(self):
        """GB/s that the machine reads right now: a run of next to nothing, for its probes."""
        point = self.run("--shape", "64x32x8x2", "--layers", "1", "--tokens", "1", "--repeat", "1", "--candidates",
                         "cpu.ref")["points"][0]["read_probe_gb_per_s"]
        return (point["before"] + point["after"]) / 2

    def measure(self, tokens, layers, seconds):
        point = self.layer("--tokens", str(tokens), "--layers", str(layers), "--seconds", str(seconds))["points"][0]
        probe = point["read_probe_gb_per_s"]
        keys = ("median_ms", "quartile1_ms", "quartile3_ms", "sample_count", "gb_per_s", "gflop_per_s")
        return {**{key: point[key] for key in keys}, "probes": [probe["before"], probe["after"]]}


# -- rounds


def one_round(moert, workers, tokens, layers, seconds, backwards):
    """name -> figures. Peers stand between probes; moert has its own. Every other round goes backwards."""
    figures = {}
    for name in reversed(["moert", *workers]) if backwards else ["moert", *workers]:
        if name == "moert":
            figures[name] = moert.measure(tokens, layers, seconds)
            continue
        before = moert.probe()
        figures[name] = workers[name].measure(tokens, seconds)
        figures[name]["probes"] = [before, moert.probe()]
    return figures


def quartiles(values):
    values = sorted(values)
    if len(values) == 1:
        return values * 3
    return statistics.quantiles(values, n=4, method="inclusive")


def is_steady(*figures):
    probes = [probe for figure in figures for probe in figure["probes"]]
    return max(probes) - min(probes) <= STEADY * max(probes)


def summary(name, rounds):
    """Over the rounds of one number of tokens."""
    failed = next((r[name]["error"] for r in rounds if "error" in r[name]), None)
    if failed:
        return {"error": failed}
    pairs = [(r["moert"], r[name]) for r in rounds]
    steady = [pair for pair in pairs if is_steady(*pair)]
    kept = steady if len(steady) >= LEAST_STEADY else pairs
    low, middle, high = quartiles([theirs["median_ms"] / ours["median_ms"] for ours, theirs in kept])
    mine = [theirs for _, theirs in kept]

    def median(key):
        return statistics.median(figure[key] for figure in mine)

    return {"ms": median("median_ms"), "gb_per_s": median("gb_per_s"), "gflop_per_s": median("gflop_per_s"),
            "of_probe": statistics.median(f["gb_per_s"] / statistics.mean(f["probes"]) for f in mine),
            "ratio": middle, "ratio_quartiles": [low, high], "steady_rounds": len(steady), "rounds": len(pairs)}


def digits(value):
    return f"{value:.3f}" if value < 10 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def row_text(tokens, name, row):
    if "error" in row:
        return f"| {tokens} | {name} | {row['error']} | | | | | |"
    mark = "" if row["steady_rounds"] >= LEAST_STEADY else " (unsteady)"
    low, high = row["ratio_quartiles"]
    ratio = "1" if name == "moert" else f"{row['ratio']:.2f} ({low:.2f}-{high:.2f}){mark}"
    return (f"| {tokens} | {name} | {digits(row['ms'])} | {row['gb_per_s']:.1f} | {row['of_probe'] * 100:.0f} % | "
            f"{row['gflop_per_s']:.0f} | {ratio} | {row['steady_rounds']} of {row['rounds']} |")


def start_workers(options, pythons, first, layers):
    names = ("hidden_size", "hidden"), ("intermediate_size", "intermediate"), ("num_experts", "experts"), \
        ("top_k", "top_k"), ("activation", "activation")
    shape = {ours: first["conditions"]["shape"][theirs] for theirs, ours in names}
    wish = {"shape": shape, "scheme": first["entrants"][0]["scheme"], "layers": layers, "threads": options.threads,
            "options": {"ggml_folder": options.ggml_folder}}
    workers = {}
    for name, python in pythons.items():
        worker = Worker(name, python, {**wish, "peer": name})
        if worker.error:
            print(f"* {name}: not measured: {worker.error}")
            worker.stop()
            continue
        print(f"* {name}: {worker.version}, {worker.format}")
        workers[name] = worker
    return workers


def compare(options, pythons, scheme):
    moert = Moert(options, scheme)
    first = moert.layer("--tokens", "1", "--repeat", "1", "--no-probes")
    entrant, conditions = first["entrants"][0], first["conditions"]
    print(f"\n## {options.shape}, {scheme}\n\n* moert: {conditions['version']}, {entrant['candidate']}, "
          f"{entrant['scheme_name']}; {conditions['compiler']}, {conditions['build_type']}")
    if not entrant["accepted"]:
        print(f"* not measured: {entrant['reason']}")
        return {"error": entrant["reason"]}
    layers = entrant["layers"]
    workers = start_workers(options, pythons, first, layers)
    print(f"* {conditions['processor']}, {options.threads} threads, layers in turn: {layers}; {options.rounds} rounds of "
          f"{options.seconds} s; load average {os.getloadavg()[0]:.1f} before\n")
    print("| tokens | who | ms | GB/s | of probe | GFLOP/s | time / moert's (quartiles) | steady rounds |")
    print("|---|---|---|---|---|---|---|---|")
    points = []
    try:
        for tokens in (int(word) for word in options.tokens.split(",")):
            rounds = [one_round(moert, workers, tokens, layers, options.seconds, number % 2 == 1)
                      for number in range(options.rounds)]
            for name in ("moert", *workers):
                row = summary(name, rounds)
                print(row_text(tokens, name, row), flush=True)
                points.append({"tokens": tokens, "who": name, **row, "each_round": [r[name] for r in rounds]})
    finally:
        for worker in workers.values():
            worker.stop()
    versions = {name: {"version": w.version, "format": w.format} for name, w in workers.items()}
    return {"conditions": conditions, "moert": entrant, "peers": versions, "points": points}


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="moert-peers-") as temporary:
        folder = options.environment or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        pythons, results = {}, {}
        for peer in options.peers.split(","):
            start = time.monotonic()
            python, reason = install(peer, folder)
            if reason:
                print(f"{peer}: did not install: {reason}")
            else:
                print(f"{peer}: installed ({time.monotonic() - start:.0f} s)")
                pythons[peer] = python
        for scheme in options.scheme.split(","):
            results[scheme] = compare(options, pythons, scheme)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
