#!/usr/bin/env python3
"""Holds one peer's layers and measures when asked: a line of JSON in, a line of JSON out. compare.py starts it."""
import ctypes
import importlib
import json
import os
import signal
import sys

from layers import Shape, Unfit, measure

PR_SET_PDEATHSIG = 1


def main():
    # compare.py stops this process between turns; if it is gone, nobody would wake it up.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Libraries talk on channel 1; the answers get a channel of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    wish = json.loads(sys.argv[1])
    shape = Shape(**wish["shape"])
    try:
        peer = importlib.import_module(f"{wish['peer']}_peer").Peer(shape, wish["scheme"], wish["layers"],
                                                                   wish["threads"], wish["options"])
    except (Unfit, ImportError, OSError, MemoryError, RuntimeError) as error:
        print(json.dumps({"error": str(error) or type(error).__name__}), file=answers)
        return
    print(json.dumps({"version": peer.version, "format": peer.format}), file=answers)
    for line in sys.stdin:
        point = json.loads(line)
        try:
            answer = measure(peer, shape, wish["layers"], point["tokens"], point["seconds"])
        except (Unfit, RuntimeError) as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
