"""Writes the modules in exported_by_torch, and PyTorch's values and derivatives of them, which test_import_torch.py
compares with. It needs torch, torchax and torch_xla, and is not run by the tests.

usage: JAX_PLATFORMS=cpu PJRT_DEVICE=CPU python export_torch.py [NAME...]
"""

import json
import os
import sys

import jax
import torch
import torch.nn.attention
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree

jax.config.update("jax_enable_x64", True)
import torch_xla.stablehlo  # noqa: E402
import torchax.export  # noqa: E402
from jax._src.interpreters import mlir as jax_mlir  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exported_by_torch")
PROGRAMS = {}  # name -> (exporter, function that makes a module, functions that make its arguments)


def u(*shape, low=-1.0, high=1.0):
    return lambda: torch.round(torch.rand(shape, dtype=torch.float64) * (high - low) + low, decimals=2)


def ints(n, *shape):
    return lambda: torch.randint(0, n, shape)


def distinct(*shape):
    return lambda: torch.randperm(torch.Size(shape).numel()).double().reshape(shape) / 10


class Function(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def program(name, exporter, f, *args):
    is_class = isinstance(f, type)
    is_layer = getattr(f, "__name__", "") == "<lambda>" and not f.__code__.co_argcount
    PROGRAMS[name] = exporter, f if is_class or is_layer else lambda: Function(f), args


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(7, 4), nn.Parameter(torch.randn(5, 4))
        self.projection, self.output = nn.Linear(4, 12), nn.Linear(4, 4)
        self.norms = nn.ModuleList([nn.LayerNorm(4), nn.LayerNorm(4)])
        self.mlp = nn.Sequential(nn.Linear(4, 8), nn.GELU(approximate="tanh"), nn.Linear(8, 4))
        self.head = nn.Linear(4, 7, bias=False)

    def forward(self, i, target):
        x = self.embedding(i) + self.position
        q, k, v = (a.view(2, 5, 2, 2).transpose(1, 2) for a in self.projection(self.norms[0](x)).split(4, 2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(a.transpose(1, 2).reshape(2, 5, 4))
        x = x + self.mlp(self.norms[1](x))
        return F.cross_entropy(self.head(x).view(-1, 7), target.view(-1))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 3, 3, 2, 1, bias=False), nn.Conv2d(3, 3, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(3), nn.BatchNorm2d(3)])
        self.shortcut = nn.Conv2d(2, 3, 1, 2, bias=False)

    def forward(self, x):
        y = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(y + self.shortcut(x))


class GraphAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.a = nn.Linear(3, 4, bias=False), nn.Parameter(torch.randn(8))

    def forward(self, x, source, target):
        h = self.w(x)
        e = F.leaky_relu(torch.cat([h[source], h[target]], 1) @ self.a, 0.2)
        most = torch.full((x.shape[0],), -1e9, dtype=x.dtype).scatter_reduce(0, target, e, "amax")
        w = torch.exp(e - most[target])
        total = torch.zeros(x.shape[0], dtype=x.dtype).index_add(0, target, w)
        return torch.zeros_like(h).index_add(0, target, (w / total[target])[:, None] * h[source])


def assign(x, y):
    z = x.clone()
    z[1:3, 0] = y
    z[0] += 1.0
    return z * x


program("transformer", "torchax", Transformer, ints(7, 2, 5), ints(7, 2, 5))
program("residual", "torchax", lambda: Residual().eval(), u(1, 2, 5, 5))
program("graph_attention", "torchax", GraphAttention, u(5, 3), ints(5, 8), ints(5, 8))
program("batch_norm", "torchax", lambda: nn.BatchNorm2d(3, track_running_stats=False), u(2, 3, 2, 2))
program("conv_transpose", "torchax", lambda: nn.ConvTranspose1d(2, 3, 3, stride=2, padding=1), u(1, 2, 4))
program("max_pool", "torchax", lambda: nn.MaxPool2d(3, 2, 1), u(1, 1, 5, 5))
program("scatter_reduce", "torchax", lambda x, i, y: x.scatter_reduce(0, i, y, "amax"), u(4), ints(4, 6), u(6))
program("topk", "torchax", lambda x: torch.topk(x, 2, dim=1), distinct(3, 5))
program("assign", "torchax", assign, u(4, 3), u(2))
program("lgamma", "torchax", torch.lgamma, u(2, 3, low=0.2, high=3.0))
program("rfft", "torchax", lambda x: torch.fft.rfft(x).abs(), u(9))
program("solve", "torchax", lambda a, b: torch.linalg.solve(a + 3 * torch.eye(3, dtype=a.dtype), b), u(3, 3), u(3, 2))
program("gru_cell", "xla", lambda: nn.GRUCell(2, 3), u(2, 2), u(2, 3))
program("encoder", "xla", lambda: nn.TransformerEncoderLayer(4, 2, 6, 0.0, batch_first=True), u(1, 3, 4))
program("max_pool_indices", "xla", lambda x: F.max_pool2d(x, 2, return_indices=True), u(1, 1, 4, 4))
program("eigh", "xla", lambda a: torch.linalg.eigh(a + a.T)[0], u(3, 3))
program("inv", "xla", lambda a: torch.linalg.inv(a + 3 * torch.eye(3, dtype=a.dtype)), u(3, 3))
program("logaddexp", "xla", torch.logaddexp, u(3, 1), u(4))
program("erfinv", "xla", torch.erfinv, u(2, 3, low=-0.9, high=0.9))
program("pad_reflect", "xla", lambda x: F.pad(x, (1, 2), mode="reflect"), u(1, 2, 5))
program("index_put", "xla", lambda x, i, y: x.index_put((i,), y, accumulate=True), u(4, 2), ints(4, 5), u(5, 2))
program("sort", "xla", lambda x: torch.sort(x, 0, descending=True)[0], distinct(4, 3))


def reference(model, named, args):
    """Values and derivatives by the names of what main takes: parameters, and positions of arguments."""
    values = {**named, **{f"argument {k}": x for k, x in enumerate(args)}}
    active = [k for k, x in values.items() if x.is_floating_point() and k not in dict(model.named_buffers())]

    def full(*v):
        now = {**values, **dict(zip(active, v))}
        given = tuple(now[f"argument {k}"] for k in range(len(args)))
        return pytree.tree_leaves(torch.func.functional_call(model, {k: now[k] for k in named}, given))

    primals = tuple(values[k] for k in active)
    outputs = full(*primals)
    floating = [k for k, y in enumerate(outputs) if y.is_floating_point()]
    f = lambda *v: tuple(full(*v)[k] for k in floating)
    tangents = tuple(u(*x.shape)() for x in primals)
    cotangents = tuple(u(*outputs[k].shape)() for k in floating)
    pulled = lambda *v: torch.func.vjp(f, *v)[1](cotangents)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return {
            "names": active,
            "tangents": tangents,
            "cotangents": cotangents,
            "outputs": outputs,
            "jvp": torch.func.jvp(f, primals, tangents)[1],
            "vjp": pulled(*primals),
            "hvp": torch.func.jvp(pulled, primals, tangents)[1],
        }, values


def by_torchax(program, args):
    signature = program.graph_signature
    names = [*signature.parameters, *signature.buffers, *(f"argument {k}" for k in range(len(args)))]
    assert not signature.lifted_tensor_constants
    exported = torchax.export.exported_program_to_stablehlo(program)[1]
    return exported.mlir_module(), [names[k] for k in exported.module_kept_var_idx]


def by_xla(program, args):
    made = torch_xla.stablehlo.exported_program_to_stablehlo(program)
    locations = made._bundle.stablehlo_funcs[0].meta.input_locations
    return made.get_stablehlo_text(), [x.name or f"argument {x.position}" for x in locations]


def without_locations(text):
    with jax_mlir.make_ir_context():
        return str(ir.Module.parse(text).operation.get_asm(enable_debug_info=False))


def write(name):
    exporter, make, makers = PROGRAMS[name]
    torch.manual_seed(sum(map(ord, name)))
    model, args = make().double(), tuple(m() for m in makers)
    with torch.no_grad():
        for x in model.parameters():
            x.copy_(torch.round(x, decimals=2))
    named = {k: x.detach().clone() for k, x in [*model.named_parameters(), *model.named_buffers()]}
    values, inputs = reference(model, named, args)
    text, names = (by_torchax if exporter == "torchax" else by_xla)(
        torch.export.export(model, args, strict=False), args
    )
    data = {k: x if k == "names" else [y.tolist() for y in x] for k, x in values.items()}
    data["inputs"] = {k: inputs[k].tolist() for k in names}
    with open(os.path.join(FOLDER, name + ".mlir"), "w") as file:
        file.write(without_locations(text))
    with open(os.path.join(FOLDER, name + ".json"), "w") as file:
        file.write("{\n" + ",\n".join(f'"{k}": {json.dumps(x)}' for k, x in data.items()) + "\n}\n")


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    for each in sys.argv[1:] or PROGRAMS:
        write(each)
