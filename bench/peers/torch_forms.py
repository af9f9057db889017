"""The workloads in PyTorch: eagerly, or compiled. As jax_forms.py: { name: make }, where make() returns a function that runs
once and the results of its first run. ADBench's problems are in torch_adbench.py."""
import copy
import math

import torch
import torch.nn.functional as F

COMPILED = False
DEVICE = "cpu"


def start(threads, device, compiled):
    global COMPILED, DEVICE
    COMPILED, DEVICE = compiled, device
    if device != "cpu":  # no default device, which every call would look up
        torch.backends.cudnn.allow_tf32 = False
    torch.set_flush_denormal(True)
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(0)


def version():
    return torch.__version__


def finish():
    """None, or a function that waits for the device."""
    return torch.cuda.synchronize if DEVICE != "cpu" else None


def tensors_of(arrays):
    return [torch.from_numpy(array.copy()).to(DEVICE) for array in arrays]


def leaves(results):
    return [results] if isinstance(results, torch.Tensor) else [leaf for part in results for leaf in leaves(part)]


def as_it_is(f, *args):
    """A form: f of these arguments, compiled where that is asked for."""
    def make():
        torch._dynamo.reset()
        given = tensors_of(args)
        run = torch.compile(f) if COMPILED else f
        results = [leaf.detach().clone() for leaf in leaves(run(*given))]
        return lambda: run(*given), results
    return make


def by_autograd(f, wrt, *args, value=True):
    """A form: f and its gradients by autograd; compiled, f alone is."""
    def make():
        torch._dynamo.reset()
        given = tensors_of(args)
        function = torch.compile(f) if COMPILED else f
        variables = [given[i].requires_grad_() for i in wrt]

        def run():
            result = function(*given)
            gradients = torch.autograd.grad(result, variables)
            return (result, *gradients) if value else gradients
        return run, [leaf.detach().clone() for leaf in run()]
    return make


def gradients(f, wrt, *args, value=True):
    """Forms of f and its gradients: through autograd, and torch.func.grad_and_value."""
    def with_value(*given):
        found, result = torch.func.grad_and_value(f, argnums=tuple(wrt))(*given)
        return (result, *found) if value else found
    forms = {"autograd": by_autograd(f, wrt, *args, value=value)}
    if COMPILED:
        forms = {"grad_and_value": as_it_is(with_value, *args), **forms}
    return forms


def steps(loss, parameters, data):
    """Forms of steps of gradient descent; parameters are changed in place."""
    rate = 0.01

    def eager():
        p, batch = [t.requires_grad_() for t in tensors_of(parameters)], tensors_of(data)
        function = torch.compile(loss) if COMPILED else loss

        def run():
            value = function(p, *batch)
            found = torch.autograd.grad(value, p)
            with torch.no_grad():
                torch._foreach_add_(p, found, alpha=-rate)
            return value
        value = run().detach().clone()
        return run, [value, *(t.detach().clone() for t in p)]

    def whole(in_place):
        def make():
            p, batch = tensors_of(parameters), tensors_of(data)

            def step(p, *batch):
                found, value = torch.func.grad_and_value(loss)(p, *batch)
                if in_place:
                    for a, g in zip(p, found):
                        a.sub_(rate * g)
                    return value, p
                return value, [a - rate * g for a, g in zip(p, found)]
            torch._dynamo.reset()
            compiled = torch.compile(step)
            value, now = compiled(p, *batch)
            results = [value.clone(), *(t.clone() for t in now)]

            def run():
                nonlocal now
                _, now = compiled(now, *batch)
            return run, results
        return make
    if COMPILED:
        return {"whole step": whole(False), "whole step, in place": whole(True), "autograd": eager}
    return {"autograd": eager}


def mlp_784(arrays):
    def loss(p, x, labels):
        h = torch.relu(torch.addmm(p[1], x, p[0]))
        h = torch.relu(torch.addmm(p[3], h, p[2]))
        return F.cross_entropy(torch.addmm(p[5], h, p[4]), labels)
    return steps(loss, arrays[:6], [arrays[6], arrays[7].astype("int64")])


def mlp_2_16(arrays):
    def loss(p, x, y):
        h = torch.tanh(torch.addmm(p[1], x, p[0]))
        h = torch.tanh(torch.addmm(p[3], h, p[2]))
        return F.mse_loss(torch.addmm(p[5], h, p[4]), y)
    return steps(loss, arrays[:6], arrays[6:])


def convnet(arrays):
    def loss(last):
        def f(p, x, labels):
            if last:
                x = x.contiguous(memory_format=torch.channels_last)
            h = F.max_pool2d(torch.relu(F.conv2d(x, p[0], p[1])), 2)
            h = F.max_pool2d(torch.relu(F.conv2d(h, p[2], p[3])), 2)
            return F.cross_entropy(torch.addmm(p[5], h.flatten(1), p[4]), labels)
        return f
    data = [arrays[6], arrays[7].astype("int64")]
    return {f"{name}, {how}": make for how, last in (("channels last", True), ("channels first", False))
            for name, make in steps(loss(last), arrays[:6], data).items()}


def transformer(arrays):
    def block(fused):
        def loss(*p):
            x, heads = p[0], 8
            batch, length, width = x.shape
            qkv = F.layer_norm(x, (width,), p[1], p[2]) @ p[3] + p[4]
            q, k, v = qkv.view(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            if fused:
                mixed = F.scaled_dot_product_attention(q, k, v)
            else:
                mixed = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width // heads), -1) @ v
            h = x + mixed.transpose(1, 2).reshape(batch, length, width) @ p[5] + p[6]
            inner = F.gelu(F.layer_norm(h, (width,), p[7], p[8]) @ p[9] + p[10], approximate="tanh")
            return torch.mean((h + inner @ p[11] + p[12]) ** 2)
        return loss
    wrt = range(len(arrays))
    return {f"{name}{how}": make for how, fused in (("", False), (", fused attention", True))
            for name, make in gradients(block(fused), wrt, *arrays).items()}


def elementwise10(arrays):
    def f(x):
        c = x * x
        return torch.sum(torch.tanh(torch.sin(x) * x + torch.exp(-c)) * torch.sqrt(c + 1))
    return gradients(f, [0], *arrays)


def cheap_chain(arrays):
    def f(x):
        a = x * 0.5 + 1
        b = a * a - x
        c = torch.maximum(b, x) * 0.25 + a
        return torch.sqrt(torch.abs(c) + 1) - b
    return {"plain": as_it_is(f, *arrays)}


def pullback(f, wrt, arrays):
    """Forms of a value, and its gradients for the last of `arrays` as its cotangent."""
    def by_func(*given):
        y, back = torch.func.vjp(f, *given[:-1])
        return y, *back(given[-1])

    def autograd():
        torch._dynamo.reset()
        given = tensors_of(arrays)
        function = torch.compile(f) if COMPILED else f
        variables = [given[i].requires_grad_() for i in wrt]

        def run():
            y = function(*given[:-1])
            return y, *torch.autograd.grad(y, variables, given[-1])
        return run, [leaf.detach().clone() for leaf in run()]
    return {"vjp": as_it_is(by_func, *arrays), "autograd": autograd} if COMPILED else {"autograd": autograd}


def softmax(arrays):
    return pullback(lambda x: torch.softmax(x, -1), [0], arrays)


def layer_norm(arrays):
    return pullback(lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b), [0, 1, 2], arrays)


def call(arrays):
    return {"call": as_it_is(lambda x: torch.sin(x) * x + 1, *arrays)}


def compile_chain(arrays, operations):
    """Compiling value and gradient, tracing included, with nothing taken from a cache on disk."""
    import time

    import torch._inductor.config

    def chain(x):
        y = x
        for i in range(operations):
            y = (torch.sin, lambda v: v * x, torch.tanh, lambda v: v + x, torch.exp, torch.neg)[i % 6](y)
        return torch.sum(y)

    def make():
        torch._inductor.config.force_disable_caches = True
        x = tensors_of(arrays)[0]

        def run():
            torch._dynamo.reset()
            start = time.perf_counter()
            found, value = torch.compile(torch.func.grad_and_value(chain))(x)
            run.seconds = time.perf_counter() - start
            return value, found
        return run, list(run())
    return {"grad_and_value": make} if COMPILED and operations <= 100 else {}


FORMS = {"hot_loop": mlp_784, "hot_loop/small": mlp_2_16,
         "mlp_784/64": mlp_784, "mlp_784/256": mlp_784, "mlp_4096": mlp_784, "mlp_2_16": mlp_2_16, "convnet": convnet,
         "transformer/large": transformer, "transformer/small": transformer, "elementwise10": elementwise10,
         "transformer/huge": transformer, "elementwise10/256M": elementwise10, "chain/256M": cheap_chain,
         "softmax": softmax, "layer_norm": layer_norm, "call": call}


def forms(workload, arrays):
    import torch_adbench

    if workload in ("cache_hit", "launch"):
        return {}
    if workload.startswith("compile/"):
        return compile_chain(arrays, int(workload.split("/")[1]))
    if workload in FORMS:
        return FORMS[workload](copy.copy(arrays))
    return torch_adbench.forms(workload, arrays)
