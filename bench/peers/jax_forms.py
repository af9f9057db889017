"""The workloads in JAX, jitted, each in the forms among which the fastest is chosen: { name: make }, where make() returns
a function that runs once and the results of its first run. ADBench's problems are in jax_adbench.py."""
import math
import os
import time


DEVICE = "cpu"
LAST = None  # the last results that were enqueued on a device


def start(threads, device):
    """Before JAX is imported. Without asynchronous dispatch small steps are faster on one thread."""
    global DEVICE
    DEVICE = device
    if device == "cpu":
        # The pool of threads has as many as the processors that this process may run on.
        flags = [f"--xla_cpu_multi_thread_eigen={'true' if threads > 1 else 'false'}"]
        os.environ["XLA_FLAGS"] = " ".join([*flags, f"intra_op_parallelism_threads={threads}"])
    os.environ["JAX_PLATFORMS"] = device
    global jax, jnp
    import jax
    import jax.numpy as jnp
    jax.config.update("jax_enable_x64", True)
    if device == "cpu":
        jax.config.update("jax_cpu_enable_async_dispatch", threads > 1)
    else:  # products are rounded to tf32 otherwise
        jax.config.update("jax_default_matmul_precision", "highest")


def version():
    return jax.__version__


def finish():
    """None, or a function that waits for the device."""
    return (lambda: jax.block_until_ready(LAST)) if DEVICE != "cpu" else None


def done(results):
    """Waits for results, on a device when finish() is called."""
    global LAST
    if DEVICE == "cpu":
        return jax.block_until_ready(results)
    LAST = results
    return results


def jitted(f, *args, **options):
    """A form: f, compiled, of these arguments."""
    def make():
        given = [jnp.asarray(a) for a in args]
        run = jax.jit(f, **options)
        results = jax.block_until_ready(run(*given))
        return lambda: done(run(*given)), jax.tree_util.tree_leaves(results)
    return make


def stepping(loss, parameters, data, donate):
    """A form: steps of gradient descent, from the parameters that the step before gave."""
    def make():
        def step(p, batch):
            value, gradients = jax.value_and_grad(loss)(p, *batch)
            return value, [a - jnp.float32(0.01) * g for a, g in zip(p, gradients)]

        run = jax.jit(step, donate_argnums=(0,) if donate else ())
        batch = [jnp.asarray(a) for a in data]
        value, now = run([jnp.asarray(a) for a in parameters], batch)
        results = [value.copy(), *(a.copy() for a in now)]

        def next_step():
            nonlocal now
            value, now = run(now, batch)
            done(now)
        return next_step, results
    return make


def steps(loss, parameters, data, name="plain"):
    return {name: stepping(loss, parameters, data, False), name + ", donated": stepping(loss, parameters, data, True)}


def cross_entropy(logits, labels):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))


def mlp_784(tensors):
    def loss(p, x, labels):
        h = jax.nn.relu(x @ p[0] + p[1])
        h = jax.nn.relu(h @ p[2] + p[3])
        return cross_entropy(h @ p[4] + p[5], labels)
    return steps(loss, tensors[:6], tensors[6:])


def mlp_2_16(tensors):
    def loss(p, x, y):
        h = jnp.tanh(x @ p[0] + p[1])
        h = jnp.tanh(h @ p[2] + p[3])
        return jnp.mean((h @ p[4] + p[5] - y) ** 2)
    return steps(loss, tensors[:6], tensors[6:])


def convnet(tensors):
    def loss(p, x, labels, last):
        names = ("NHWC", "HWIO", "NHWC") if last else ("NCHW", "OIHW", "NCHW")

        def block(h, w, b):
            w = w.transpose(2, 3, 1, 0) if last else w
            h = jax.lax.conv_general_dilated(h, w, (1, 1), "VALID", dimension_numbers=names)
            h = jax.nn.relu(h + (b if last else b[:, None, None]))
            window = (1, 2, 2, 1) if last else (1, 1, 2, 2)
            return jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, window, window, "VALID")

        h = x.transpose(0, 2, 3, 1) if last else x
        h = block(block(h, p[0], p[1]), p[2], p[3])
        h = h.transpose(0, 3, 1, 2) if last else h
        return cross_entropy(h.reshape(h.shape[0], -1) @ p[4] + p[5], labels)

    return {**steps(lambda p, x, labels: loss(p, x, labels, False), tensors[:6], tensors[6:], "channels first"),
            **steps(lambda p, x, labels: loss(p, x, labels, True), tensors[:6], tensors[6:], "channels last")}


def normalized(x, weight, bias):
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5) * weight + bias


def transformer(tensors):
    def loss(*p):
        x, heads = p[0], 8
        batch, length, width = x.shape
        qkv = normalized(x, p[1], p[2]) @ p[3] + p[4]
        q, k, v = qkv.reshape(batch, length, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
        weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) / math.sqrt(width // heads))
        h = x + (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, width) @ p[5] + p[6]
        inner = jax.nn.gelu(normalized(h, p[7], p[8]) @ p[9] + p[10], approximate=True)
        return jnp.mean((h + inner @ p[11] + p[12]) ** 2)

    def einsum_loss(*p):
        x, heads = p[0], 8
        batch, length, width = x.shape
        qkv = (normalized(x, p[1], p[2]) @ p[3] + p[4]).reshape(batch, length, 3, heads, width // heads)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        weights = jax.nn.softmax(jnp.einsum("blhs,bmhs->bhlm", q, k) / math.sqrt(width // heads))
        h = x + jnp.einsum("bhlm,bmhs->blhs", weights, v).reshape(batch, length, width) @ p[5] + p[6]
        inner = jax.nn.gelu(normalized(h, p[7], p[8]) @ p[9] + p[10], approximate=True)
        return jnp.mean((h + inner @ p[11] + p[12]) ** 2)

    wrt = tuple(range(len(tensors)))
    return {"matmul": jitted(jax.value_and_grad(loss, wrt), *tensors),
            "einsum": jitted(jax.value_and_grad(einsum_loss, wrt), *tensors)}


def elementwise10(tensors):
    def f(x):
        c = x * x
        return jnp.sum(jnp.tanh(jnp.sin(x) * x + jnp.exp(-c)) * jnp.sqrt(c + 1))
    return {"plain": jitted(jax.value_and_grad(f), *tensors)}


def cheap_chain(tensors):
    def f(x):
        a = x * 0.5 + 1
        b = a * a - x
        c = jnp.maximum(b, x) * 0.25 + a
        return jnp.sqrt(jnp.abs(c) + 1) - b
    return {"plain": jitted(f, *tensors)}


def softmax(tensors):
    def plain(x, cotangent):
        y, pullback = jax.vjp(jax.nn.softmax, x)
        return y, pullback(cotangent)[0]

    def by_hand(x, cotangent):
        y = jax.nn.softmax(x)
        return y, y * (cotangent - jnp.sum(y * cotangent, -1, keepdims=True))
    return {"vjp": jitted(plain, *tensors), "by hand": jitted(by_hand, *tensors)}


def layer_norm(tensors):
    def plain(x, weight, bias, cotangent):
        y, pullback = jax.vjp(normalized, x, weight, bias)
        return y, *pullback(cotangent)

    def by_hand(x, weight, bias, cotangent):
        centred = x - jnp.mean(x, -1, keepdims=True)
        scale = jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5)
        normal, inner = centred * scale, cotangent * weight
        dx = scale * (inner - jnp.mean(inner, -1, keepdims=True) -
                      normal * jnp.mean(inner * normal, -1, keepdims=True))
        return normal * weight + bias, dx, jnp.sum(cotangent * normal, 0), jnp.sum(cotangent, 0)
    return {"vjp": jitted(plain, *tensors), "by hand": jitted(by_hand, *tensors)}


def call(tensors):
    return {"jit": jitted(lambda x: jnp.sin(x) * x + 1, *tensors)}


def compile_chain(tensors, operations):
    """The timed part is the compiler alone, without tracing."""
    kinds = (lambda y, x: jnp.sin(y), lambda y, x: y * x, lambda y, x: jnp.tanh(y), lambda y, x: y + x,
             lambda y, x: jnp.exp(y), lambda y, x: -y)

    def chain(x):
        y = x
        for i in range(operations):
            y = kinds[i % 6](y, x)
        return jnp.sum(y)

    def make():
        x = jnp.asarray(tensors[0])

        def run():
            jax.clear_caches()
            lowered = jax.jit(jax.value_and_grad(chain)).lower(x)
            start = time.perf_counter()
            compiled = lowered.compile()
            run.seconds = time.perf_counter() - start
            return compiled
        return run, run()(x)
    return {"jit": make}


FORMS = {"hot_loop": mlp_784, "hot_loop/small": mlp_2_16,
         "mlp_784/64": mlp_784, "mlp_784/256": mlp_784, "mlp_4096": mlp_784, "mlp_2_16": mlp_2_16, "convnet": convnet,
         "transformer/large": transformer, "transformer/small": transformer, "elementwise10": elementwise10,
         "transformer/huge": transformer, "elementwise10/256M": elementwise10, "chain/256M": cheap_chain,
         "softmax": softmax, "layer_norm": layer_norm, "call": call}


def forms(workload, tensors):
    import jax_adbench

    if workload in ("cache_hit", "launch"):
        return {}
    if workload.startswith("compile/"):
        operations = int(workload.split("/")[1])
        return compile_chain(tensors, operations) if operations <= 1000 else {}
    if workload in FORMS:
        return FORMS[workload](tensors)
    return jax_adbench.forms(workload, tensors)
