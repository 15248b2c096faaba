"""ggml, through the C functions of its libraries: gate, up, activation, down, weighted sum, as one graph."""
import ctypes
import glob
import importlib.util
import os
import pathlib

import numpy

from layers import Unfit, clock, random_rows, random_weights, widened

F32, I32 = 0, 26
# scheme -> (type, its name, bytes of a weight). Quantised rows: activations become eight-bit integers.
TYPES = {"bf16": (30, "bf16", 2), "f16": (1, "f16", 2), "f32": (0, "f32", 4), "mxfp4": (39, "mxfp4", 17 / 32),
         "fp8": (8, "q8_0", 34 / 32), "int8": (8, "q8_0", 34 / 32), "int4": (2, "q4_0", 18 / 32)}
MEGABYTE = 1 << 20

POINTER, SIZE, INT, INT64, FLOAT = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64, ctypes.c_float)


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", SIZE), ("mem_buffer", POINTER), ("no_alloc", ctypes.c_bool)]


SIGNATURES = {
    "ggml_init": (POINTER, [InitParams]),
    "ggml_tensor_overhead": (SIZE, []),
    "ggml_graph_overhead": (SIZE, []),
    "ggml_new_tensor_2d": (POINTER, [POINTER, INT, INT64, INT64]),
    "ggml_new_tensor_3d": (POINTER, [POINTER, INT, INT64, INT64, INT64]),
    "ggml_mul_mat_id": (POINTER, [POINTER] * 4),
    "ggml_swiglu_split": (POINTER, [POINTER] * 3),
    "ggml_swiglu_oai": (POINTER, [POINTER] * 3 + [FLOAT, FLOAT]),
    "ggml_mul": (POINTER, [POINTER] * 3),
    "ggml_add": (POINTER, [POINTER] * 3),
    "ggml_view_2d": (POINTER, [POINTER, POINTER, INT64, INT64, SIZE, SIZE]),
    "ggml_new_graph": (POINTER, [POINTER]),
    "ggml_build_forward_expand": (None, [POINTER, POINTER]),
    "ggml_quantize_chunk": (SIZE, [INT, POINTER, POINTER, INT64, INT64, INT64, POINTER]),
    "ggml_nbytes": (SIZE, [POINTER]),
    "ggml_free": (None, [POINTER]),
    "ggml_version": (ctypes.c_char_p, []),
    "ggml_backend_cpu_init": (POINTER, []),
    "ggml_backend_cpu_set_n_threads": (None, [POINTER, INT]),
    "ggml_backend_cpu_reg": (POINTER, []),
    "ggml_backend_cpu_buffer_type": (POINTER, []),
    "ggml_backend_reg_dev_get": (POINTER, [POINTER, SIZE]),
    "ggml_backend_reg_get_proc_address": (POINTER, [POINTER, ctypes.c_char_p]),
    "ggml_backend_buft_name": (ctypes.c_char_p, [POINTER]),
    "ggml_backend_alloc_ctx_tensors_from_buft": (POINTER, [POINTER, POINTER]),
    "ggml_backend_buffer_free": (None, [POINTER]),
    "ggml_backend_tensor_set": (None, [POINTER, POINTER, SIZE, SIZE]),
    "ggml_backend_tensor_get": (None, [POINTER, POINTER, SIZE, SIZE]),
    "ggml_backend_graph_compute": (INT, [POINTER, POINTER]),
}


class Library:
    """The functions of libggml-base and libggml-cpu, wherever they are."""

    def __init__(self, folder):
        self.loaded = []
        for name in ("libggml-base.so*", "libggml-cpu*.so*"):
            found = sorted(glob.glob(os.path.join(folder, name)))
            if not found:
                raise Unfit(f"{folder} has no {name}")
            self.loaded.append(ctypes.CDLL(found[0], mode=ctypes.RTLD_GLOBAL))
        for name, (result, arguments) in SIGNATURES.items():
            function = self.find(name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("ggml_"), function)

    def find(self, name):
        for library in self.loaded:
            if hasattr(library, name):
                return getattr(library, name)
        raise Unfit(f"this ggml has no function {name}")

    def extensions(self):
        names = ("avx", "avx2", "fma", "f16c", "avx512", "avx512_vnni", "avx512_bf16", "amx_int8")
        return [name for name in names if self.find(f"ggml_cpu_has_{name}")()]

    def repack_buffers(self):
        """The buffer type in which the processor's backend keeps weights in an order of its own, or None."""
        registry = self.backend_cpu_reg()
        address = self.backend_reg_get_proc_address(registry, b"ggml_backend_dev_get_extra_bufts")
        if not address:
            return None
        types = ctypes.CFUNCTYPE(ctypes.POINTER(POINTER), POINTER)(address)(self.backend_reg_dev_get(registry, 0))
        at = 0
        while types and types[at]:
            if b"REPACK" in self.backend_buft_name(types[at]).upper():
                return types[at]
            at += 1
        return None


def address_of(array):
    return array.ctypes.data_as(POINTER)


def installed_folder():
    for package, folder in (("llama_cpp", "lib"), ("libggml", "lib64")):
        spec = importlib.util.find_spec(package)
        if spec is not None:
            return str(pathlib.Path(spec.submodule_search_locations[0]) / folder)
    raise Unfit("neither llama-cpp-python nor libggml-python is there")


class Peer:
    def __init__(self, shape, scheme, layers, threads, options):
        if scheme not in TYPES:
            raise Unfit(f"ggml has nothing near to {scheme}; it has {', '.join(TYPES)}")
        self.shape = shape
        self.lib = Library(options.get("ggml_folder") or installed_folder())
        self.type, self.format, bytes_of_weight = TYPES[scheme]
        self.bytes_of_expert = shape.weights_of_expert * bytes_of_weight
        self.backend = self.lib.backend_cpu_init()
        self.lib.backend_cpu_set_n_threads(self.backend, threads)
        self.version = f"{self.lib.version().decode()} ({' '.join(self.lib.extensions())})"
        self.context = None
        self.layers = self.load_layers(layers)

    # -- weights

    def one_matrix(self, rows, columns, seed):
        """The bytes of one expert's matrix."""
        bits = random_weights((rows, columns), seed)
        if self.format == "bf16":
            return bits.view(numpy.uint8).reshape(-1)
        numbers = widened(bits)
        if self.format == "f32":
            return numbers.view(numpy.uint8).reshape(-1)
        out = numpy.empty(rows * columns * 4, numpy.uint8)
        size = self.lib.quantize_chunk(self.type, address_of(numbers), address_of(out), 0, rows, columns, None)
        return out[:size].copy()

    def load_layers(self, count):
        shape, lib = self.shape, self.lib
        up = self.one_matrix(shape.intermediate, shape.hidden, 5)
        down = self.one_matrix(shape.hidden, shape.intermediate, 6)
        repacked = lib.repack_buffers() if self.format in ("mxfp4", "q4_0") else None
        layers = []
        for _ in range(count):
            context = lib.init(InitParams(16 * lib.tensor_overhead(), None, True))
            tensors = [lib.new_tensor_3d(context, self.type, shape.hidden, shape.intermediate, shape.experts),
                       lib.new_tensor_3d(context, self.type, shape.hidden, shape.intermediate, shape.experts),
                       lib.new_tensor_3d(context, self.type, shape.intermediate, shape.hidden, shape.experts)]
            buffer = lib.backend_alloc_ctx_tensors_from_buft(context, repacked or lib.backend_cpu_buffer_type())
            if not buffer:
                raise MemoryError("ggml has no memory for the weights")
            for tensor, matrix in zip(tensors, (up, up, down)):
                whole = numpy.tile(matrix, shape.experts)  # repacking wants all of it at once
                lib.backend_tensor_set(tensor, address_of(whole), 0, whole.nbytes)
            layers.append(tensors)
        if repacked:
            self.format += " in repacked buffers"
        return layers

    # -- computing

    def prepare(self, tokens):
        lib, shape = self.lib, self.shape
        if self.context:
            lib.backend_buffer_free(self.buffer)
            lib.free(self.context)
        nodes = 64 * len(self.layers)
        size = nodes * lib.tensor_overhead() + len(self.layers) * lib.graph_overhead() + MEGABYTE
        self.context = lib.init(InitParams(size, None, True))
        self.input = lib.new_tensor_3d(self.context, F32, shape.hidden, 1, tokens)
        self.ids = lib.new_tensor_2d(self.context, I32, shape.top_k, tokens)
        self.weights = lib.new_tensor_3d(self.context, F32, 1, shape.top_k, tokens)
        self.tokens = tokens
        graphs = [self.graph(layer, tokens) for layer in self.layers]
        self.graphs, self.outputs = [g for g, _ in graphs], [out for _, out in graphs]
        self.buffer = lib.backend_alloc_ctx_tensors_from_buft(self.context, lib.backend_cpu_buffer_type())
        rows = widened(random_rows((tokens, shape.hidden)))
        lib.backend_tensor_set(self.input, address_of(rows), 0, rows.nbytes)
        shares = numpy.full((tokens, shape.top_k), 1 / shape.top_k, numpy.float32)
        lib.backend_tensor_set(self.weights, address_of(shares), 0, shares.nbytes)

    def graph(self, layer, tokens):
        lib, context, shape = self.lib, self.context, self.shape
        gate, up = (lib.mul_mat_id(context, matrix, self.input, self.ids) for matrix in layer[:2])
        if shape.activation == "swigluoai":
            middle = lib.swiglu_oai(context, gate, up, 1.702, 7.0)
        elif shape.activation == "silu":
            middle = lib.swiglu_split(context, gate, up)
        else:
            raise Unfit(f"no activation {shape.activation} here")
        slots = lib.mul(context, lib.mul_mat_id(context, layer[2], middle, self.ids), self.weights)
        row = shape.hidden * 4
        out = None
        for k in range(shape.top_k):
            slot = lib.view_2d(context, slots, shape.hidden, tokens, row * shape.top_k, row * k)
            out = slot if out is None else lib.add(context, out, slot)
        graph = lib.new_graph(context)
        lib.build_forward_expand(graph, out)
        return graph, out

    def forward(self, layer, ids):
        self.lib.backend_tensor_set(self.ids, address_of(ids), 0, ids.nbytes)
        self.last = layer
        start = clock()
        status = self.lib.backend_graph_compute(self.backend, self.graphs[layer])
        took = clock() - start
        if status != 0:
            raise RuntimeError(f"ggml answers {status}")
        return took

    def output(self):
        rows = numpy.empty((self.tokens, self.shape.hidden), numpy.float32)
        self.lib.backend_tensor_get(self.outputs[self.last], address_of(rows), 0, rows.nbytes)
        return rows
