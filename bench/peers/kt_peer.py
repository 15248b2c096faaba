"""kt-kernel, through its extension module, without torch."""
import importlib.metadata
import importlib.util
import pathlib

import numpy

from layers import Unfit, clock, random_rows, random_weights, widened

MOST_TOKENS = 4096
GROUP = 32
# scheme -> (class, what it keeps, bytes of a weight)
FORMATS = {"bf16": ("AMXBF16_MOE", "bf16", 2), "fp8": ("AMXFP8_MOE", "fp8 128x128, f32 scales", 1 + 4 / 128**2),
           "mxfp4": ("AMXFP4_KGroup_MOE", "mxfp4, f32 scales of 32", 0.5 + 4 / GROUP),
           "int4": ("AMXInt4_KGroup_MOE", "int4, f32 scales of 32", 0.5 + 4 / GROUP)}


def extension():
    """The variant that the package takes for this processor, and its name."""
    spec = importlib.util.find_spec("kt_kernel")
    if spec is None:
        raise Unfit("the package kt-kernel is not there")
    # The package itself wants torch; what detects the processor and loads the variant does not.
    file = pathlib.Path(spec.submodule_search_locations[0]) / "_cpu_detect.py"
    detect_spec = importlib.util.spec_from_file_location("kt_cpu_detect", file)
    detect = importlib.util.module_from_spec(detect_spec)
    detect_spec.loader.exec_module(detect)
    return detect.initialize()


class Peer:
    def __init__(self, shape, scheme, layers, threads, options):
        if scheme not in FORMATS:
            raise Unfit(f"kt-kernel has nothing near to {scheme}; measured are {', '.join(FORMATS)}")
        if shape.activation != "silu":
            raise Unfit(f"the activation {shape.activation} is not measured with kt-kernel")
        self.module, variant = extension()
        kind, self.format, bytes_of_weight = FORMATS[scheme]
        self.make = getattr(self.module.moe, kind, None)
        if self.make is None:
            raise Unfit(f"the variant {variant} has no {kind}")
        self.version = f"{importlib.metadata.version('kt-kernel')} ({variant})"
        self.shape, self.scheme = shape, scheme
        self.bytes_of_expert = shape.weights_of_expert * bytes_of_weight
        pool = self.module.WorkerPoolConfig()
        pool.subpool_count, pool.subpool_numa_map, pool.subpool_thread_count = 1, [0], [threads]
        self.pool = self.module.CPUInfer(pool)
        self.kept = self.matrices()
        self.layers = [self.load(number) for number in range(layers)]

    def matrices(self):
        """Codes and scales of gate and up, and of down."""
        shape, random = self.shape, numpy.random.default_rng(5)
        kept = {}
        for name, (rows, columns) in {"up": (shape.intermediate, shape.hidden),
                                      "down": (shape.hidden, shape.intermediate)}.items():
            if self.scheme == "bf16":
                kept[name] = (random_weights((rows, columns), 5), None)
            elif self.scheme == "fp8":
                codes = random.integers(0, 0x70, (rows, columns), dtype=numpy.uint8)
                codes |= random.integers(0, 2, (rows, columns), dtype=numpy.uint8) << 7
                blocks = (-(-rows // 128), -(-columns // 128))
                kept[name] = (codes, numpy.full(blocks, 2.0**-9, numpy.float32))
            else:
                codes = random.integers(0, 256, (rows, columns // 2), dtype=numpy.uint8)
                scales = numpy.full((rows, columns // GROUP), 0x3C00, numpy.uint16)  # bf16 of 2^-7
                kept[name] = (codes, scales)
        return kept

    def load(self, number):
        shape = self.shape
        config = self.module.moe.MOEConfig(shape.experts, shape.top_k, shape.hidden, shape.intermediate, 0)
        config.layer_idx, config.pool, config.max_len = number, self.pool.backend_, MOST_TOKENS
        for part, name in (("gate", "up"), ("up", "up"), ("down", "down")):
            codes, scales = self.kept[name]
            setattr(config, f"{part}_projs", [[codes.ctypes.data] * shape.experts])
            setattr(config, f"{part}_scales", [[0 if scales is None else scales.ctypes.data] * shape.experts])
        if self.scheme != "bf16":
            config.quant_config.bits = 8 if self.scheme == "fp8" else 4
            config.quant_config.group_size = 128 if self.scheme == "fp8" else GROUP
            config.quant_config.zero_point = False
        layer = self.make(config)
        order = numpy.arange(shape.experts, dtype=numpy.int64)
        self.pool.submit(layer.load_weights_task(order.ctypes.data))
        self.pool.sync()
        return layer

    def prepare(self, tokens):
        if tokens > MOST_TOKENS:
            raise Unfit(f"more than {MOST_TOKENS} tokens")
        shape = self.shape
        self.rows = random_rows((tokens, shape.hidden))
        self.out = numpy.zeros((tokens, shape.hidden), numpy.uint16)
        self.shares = numpy.full((tokens, shape.top_k), 1 / shape.top_k, numpy.float32)
        self.count = numpy.array([tokens], numpy.int32)

    def forward(self, layer, ids):
        wide = ids.astype(numpy.int64)
        task = self.layers[layer].forward_task(self.count.ctypes.data, self.shape.top_k, wide.ctypes.data,
                                               self.shares.ctypes.data, self.rows.ctypes.data, self.out.ctypes.data,
                                               False)
        start = clock()
        self.pool.submit(task)
        self.pool.sync()
        return clock() - start

    def output(self):
        return widened(self.out)
