"""Shapes, made-up routing and timing: the same for every peer as for `moert bench experts`."""
import dataclasses
import statistics
import time

import numpy

LEAST_SAMPLES, WARM_UPS = 3, 2


@dataclasses.dataclass(frozen=True)
class Shape:
    hidden: int
    intermediate: int
    experts: int
    top_k: int
    activation: str = "silu"

    @property
    def weights_of_expert(self):
        return 3 * self.hidden * self.intermediate


class Unfit(Exception):
    """A peer has no such format or shape; the text says which it has."""


class Deck:
    """Tokens choose uniformly; which experts these are is dealt in turn from a shuffled deck."""

    def __init__(self, shape, seed):
        self.shape = shape
        self.random = numpy.random.default_rng(seed)
        self.cards = self.random.permutation(shape.experts).astype(numpy.int32)
        self.at = 0

    def deal(self, tokens):
        """[tokens, top_k] of int32, and how many different experts these are."""
        keys = self.random.random((tokens, self.shape.experts))
        chosen = numpy.argsort(keys, axis=1)[:, : self.shape.top_k].reshape(-1)
        _, first, inverse = numpy.unique(chosen, return_index=True, return_inverse=True)
        place = numpy.argsort(numpy.argsort(first))  # in order of first occurrence
        cards = self.cards[(self.at + place) % self.shape.experts]
        self.at = (self.at + len(first)) % self.shape.experts
        return numpy.ascontiguousarray(cards[inverse.reshape(tokens, -1)]), len(first)


def measure(peer, shape, layers, tokens, seconds):
    """Forwards of `peer`, whose layers take turns. `peer.prepare(tokens)` comes first; `peer.forward(layer, ids)` returns
    the seconds of the computation alone; `peer.output()` what came out last."""
    decks = [Deck(shape, 11 + layer) for layer in range(layers)]
    peer.prepare(tokens)
    times, rates = [], []
    turn, spent = -WARM_UPS, 0.0
    while turn < LEAST_SAMPLES or spent < seconds:
        layer = turn % layers
        ids, distinct = decks[layer].deal(tokens)
        took = peer.forward(layer, ids)
        if turn >= 0:
            times.append(took)
            rates.append(distinct * peer.bytes_of_expert / took)
            spent += took
        turn += 1
    result = numpy.asarray(peer.output(), dtype=numpy.float32)
    if not numpy.isfinite(result).all() or not numpy.abs(result).max() > 0:
        raise RuntimeError("what it computes is not finite, or nothing but zeros")
    times.sort()
    middle = statistics.median(times)
    return {"median_ms": middle * 1e3, "quartile1_ms": times[len(times) // 4] * 1e3,
            "quartile3_ms": times[len(times) * 3 // 4] * 1e3, "sample_count": len(times),
            "gb_per_s": statistics.median(rates) / 1e9,
            "gflop_per_s": 2 * shape.weights_of_expert * shape.top_k * tokens / middle / 1e9}


def clock():
    return time.perf_counter()


def bf16_bits(shape, seed, exponent):
    """Bits of bf16 numbers of both signs, from 2^exponent to four times that."""
    random = numpy.random.default_rng(seed)
    bits = random.integers(0, 0x200, shape, dtype=numpy.uint16)
    return (((127 + exponent) << 7) + (bits & 0xFF) + ((bits & 0x100) << 7)).astype(numpy.uint16)


def random_weights(shape, seed):
    return bf16_bits(shape, seed, -8)


def random_rows(shape):
    """Of tokens. Their products with weights stay where formats with f16 scales are exact enough."""
    return bf16_bits(shape, 7, -1)


def widened(bits):
    """bf16 bits as float32."""
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32)
