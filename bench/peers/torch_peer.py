"""torch, a loop over experts as model code without fused kernels has it: gather, three products, add."""
import torch

from layers import Unfit, clock, random_rows, random_weights

FORMATS = {"bf16": (torch.bfloat16, 2), "f16": (torch.float16, 2), "f32": (torch.float32, 4)}


class Peer:
    def __init__(self, shape, scheme, layers, threads, options):
        if scheme not in FORMATS:
            raise Unfit(f"a loop over experts in torch has nothing near to {scheme}; measured are {', '.join(FORMATS)}")
        if shape.activation != "silu":
            raise Unfit(f"the activation {shape.activation} is not measured with torch")
        torch.set_num_threads(threads)
        self.version = f"{torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"
        self.format = f"{scheme}, loop over experts"
        self.shape, (self.dtype, size) = shape, FORMATS[scheme]
        self.bytes_of_expert = shape.weights_of_expert * size
        self.layers = [self.load() for _ in range(layers)]

    def numbers(self, bits):
        return torch.from_numpy(bits.view("int16")).view(torch.bfloat16).to(self.dtype)

    def load(self):
        shape = self.shape
        up = self.numbers(random_weights((shape.intermediate, shape.hidden), 5))
        down = self.numbers(random_weights((shape.hidden, shape.intermediate), 6))
        both = torch.cat((up, up))
        return both.repeat(shape.experts, 1, 1), down.repeat(shape.experts, 1, 1)

    def prepare(self, tokens):
        self.rows = self.numbers(random_rows((tokens, self.shape.hidden)))
        self.share = 1 / self.shape.top_k

    @torch.inference_mode()
    def forward(self, layer, ids):
        both, down = self.layers[layer]
        ids = torch.from_numpy(ids.astype("int64"))
        start = clock()
        self.out = torch.zeros_like(self.rows)
        for expert in torch.unique(ids).tolist():
            tokens = torch.nonzero(ids == expert)[:, 0]
            rows = self.rows if len(tokens) == len(self.rows) else self.rows[tokens]
            gate, up = torch.nn.functional.linear(rows, both[expert]).chunk(2, dim=-1)
            result = torch.nn.functional.linear(torch.nn.functional.silu(gate) * up, down[expert])
            self.out.index_add_(0, tokens, result * self.share)
        return clock() - start

    def output(self):
        return self.out.float().numpy()
