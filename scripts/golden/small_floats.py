"""Tables of floats of eight and four bits, as ml_dtypes has them: tests/data/small_floats.json."""

import json

import ml_dtypes
import numpy as np

# name -> type, number of codes, largest finite number
FORMATS = {
    "e4m3fn": (ml_dtypes.float8_e4m3fn, 256, 448.0),
    "e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 256, 240.0),
    "e5m2": (ml_dtypes.float8_e5m2, 256, 57344.0),
    "e8m0": (ml_dtypes.float8_e8m0fnu, 256, 2.0**127),
    "e2m1": (ml_dtypes.float4_e2m1fn, 16, 6.0),
}
DRAWN = 400
SEED = 20261130


def as_text(values):
    """f32 bits in hexadecimal; every NaN is "nan"."""
    bits = values.astype(np.float32).view(np.uint32)
    return " ".join("nan" if v != v else f"{b:08x}" for v, b in zip(values, bits))


def drawn_numbers(largest, generator):
    """Numbers of every size up to the largest, and some that round to zero. Beyond it libraries differ."""
    exponents = generator.uniform(-20, np.log2(largest), DRAWN)
    signs = generator.choice([-1.0, 1.0], DRAWN)
    return (signs * np.exp2(exponents)).astype(np.float32)


def table_of(kind, codes, largest, generator):
    values = np.arange(codes, dtype=np.uint8).view(kind).astype(np.float32)
    table = {"values": as_text(values)}
    if largest < 2.0**100:
        numbers = drawn_numbers(largest, generator)
        table["numbers"] = as_text(numbers)
        table["codes"] = numbers.astype(kind).view(np.uint8).tobytes().hex(" ")
    return table


def make(folder):
    generator = np.random.default_rng(SEED)
    tables = {"source": f"ml_dtypes {ml_dtypes.__version__}"}
    for name, (kind, codes, largest) in FORMATS.items():
        tables[name] = table_of(kind, codes, largest, generator)
    target = folder / "small_floats.json"
    partial = target.with_suffix(".partial")
    partial.write_text(json.dumps(tables, indent=1) + "\n")
    partial.rename(target)
