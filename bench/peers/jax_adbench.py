"""ADBench's problems in JAX, plainly and as someone who knows JAX rewrites them: blocks of points, columns, scans."""
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, logsumexp

from jax_forms import jitted

# --- GMM


def places_in_triangle(d):
    """Where in a row [exp q, l, 0] the element [i, j] of the lower triangular Q lies."""
    i, j = np.meshgrid(np.arange(d), np.arange(d), indexing="ij")
    below = d + j * d - j * (j + 1) // 2 + (i - j - 1)
    return np.where(i == j, i, np.where(i > j, below, d * (d + 1) // 2))


def components(alpha, mu, icf, gamma, m, n):
    """The parts that do not depend on the points: Q, Q mu, the weights, and the rest of the log-posterior."""
    k, d = mu.shape
    q = icf[:, :d]
    entries = jnp.concatenate([jnp.exp(q), icf[:, d:]], 1)
    factors = jnp.pad(entries, ((0, 0), (0, 1)))[:, places_in_triangle(d)]
    nu = m + d + 1
    log_gammas = jnp.sum(gammaln(0.5 * (nu - jnp.arange(d)))) + 0.25 * d * (d - 1) * math.log(math.pi)
    normalizer = nu * d * (jnp.log(gamma) - 0.5 * math.log(2)) - log_gammas
    wishart = 0.5 * gamma**2 * jnp.sum(entries**2) - m * jnp.sum(q) - k * normalizer
    rest = wishart - 0.5 * n * d * math.log(2 * math.pi) - n * logsumexp(alpha)
    return (factors, jnp.einsum("kij,kj->ki", factors, mu), alpha + jnp.sum(q, 1)), rest


def fit(parts, x):
    factors, shift, weights = parts
    k, d = shift.shape
    y = (x @ factors.reshape(k * d, d).T).reshape(-1, k, d) - shift
    return jnp.sum(logsumexp(weights - 0.5 * jnp.sum(y * y, 2), axis=1))


def fit_broadcast(parts, x):
    factors, shift, weights = parts
    y = jnp.einsum("kij,nj->nki", factors, x) - shift
    return jnp.sum(logsumexp(weights - 0.5 * jnp.sum(y**2, 2), axis=1))


def gmm(tensors, derivative):
    n, d = tensors[3].shape

    def whole(fit):
        def f(alpha, mu, icf, x, gamma, m):
            parts, rest = components(alpha, mu, icf, gamma, m, n)
            return fit(parts, x) + rest
        return f

    def blocked(size):
        """Value block by block; the gradients by the parts are added up, so that nothing of a block outlives it."""
        def value(alpha, mu, icf, x, gamma, m):
            parts, rest = components(alpha, mu, icf, gamma, m, n)
            add = lambda total, block: (total + fit(parts, block), None)
            return jax.lax.scan(add, rest, x.reshape(-1, size, d))[0]

        def gradient(alpha, mu, icf, x, gamma, m):
            (parts, rest), pullback = jax.vjp(lambda a, b, c: components(a, b, c, gamma, m, n), alpha, mu, icf)
            add = lambda total, block: (jax.tree.map(jnp.add, total, jax.grad(fit)(parts, block)), None)
            zero = jax.tree.map(jnp.zeros_like, parts)
            return pullback((jax.lax.scan(add, zero, x.reshape(-1, size, d))[0], jnp.ones_like(rest)))
        return gradient if derivative else value

    of = (lambda f: jax.grad(f, (0, 1, 2))) if derivative else (lambda f: f)
    forms = {f"blocks of {size}": jitted(blocked(size), *tensors) for size in (100, 50, 250, 25) if n % size == 0 and n > size}
    return {**forms, "product": jitted(of(whole(fit)), *tensors), "einsum": jitted(of(whole(fit_broadcast)), *tensors)}


# --- bundle adjustment


def project(camera, point, weight, seen):
    """Residuals of one observation: vectors of 11, 3, 1 and 2 numbers, or such with an axis of observations behind."""
    r, center = camera[0:3], camera[3:6]
    p = [point[i] - center[i] for i in range(3)]
    squared = r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
    zero = squared == 0
    angle = jnp.sqrt(jnp.where(zero, 1.0, squared))
    c, s = jnp.cos(angle), jnp.sin(angle)
    cross = lambda a, b: [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    v = [r[i] / angle for i in range(3)]
    along = (v[0] * p[0] + v[1] * p[1] + v[2] * p[2]) * (1 - c)
    about, small = cross(v, p), cross(r, p)
    t = [jnp.where(zero, p[i] + small[i], p[i] * c + about[i] * s + v[i] * along) for i in range(3)]
    e0, e1 = t[0] / t[2], t[1] / t[2]
    s2 = e0 * e0 + e1 * e1
    focal = camera[6] * (1 + camera[9] * s2 + camera[10] * s2 * s2)
    return weight * (e0 * focal + camera[7] - seen[0]), weight * (e1 * focal + camera[8] - seen[1])


def ba(tensors, derivative):
    def columns(cameras, points, weights, seen, camera_of, point_of):
        return [*cameras.T[:, camera_of], *points.T[:, point_of], weights], seen.T

    def objective(*inputs):
        x, seen = columns(*inputs)
        return jnp.stack(project(x[:11], x[11:14], x[14], seen), 1), 1 - x[14] ** 2

    def of_row(x, seen):
        return jnp.stack(project(x[:11], x[11:14], x[14], seen))

    def by_row(mode):
        def f(cameras, points, weights, seen, camera_of, point_of):
            x = jnp.concatenate([cameras[camera_of], points[point_of], weights[:, None]], 1)
            return jax.vmap(mode(of_row))(x, seen).reshape(-1, 30), -2 * weights
        return f

    def by_column(stack):
        def f(*inputs):
            x, seen = columns(*inputs)
            _, pullback = jax.vjp(lambda *x: project(x[:11], x[11:14], x[14], seen), *x)
            one, none = jnp.ones_like(x[0]), jnp.zeros_like(x[0])
            return stack([*pullback((one, none)), *pullback((none, one))]), -2 * x[14]
        return f

    if not derivative:
        return {"columns": jitted(objective, *tensors)}
    transposed = lambda rows: jax.lax.optimization_barrier(jnp.stack(rows)).T
    return {"columns, transposed after": jitted(by_column(transposed), *tensors),
            "columns": jitted(by_column(lambda rows: jnp.stack(rows, 1)), *tensors),
            "vmap of jacrev": jitted(by_row(jax.jacrev), *tensors)}


# --- hand tracking


def hand(tensors, derivative):
    parents, complicated = tensors["parents"], tensors["u"] is not None
    bones = len(parents)
    bending, spreading = np.full(bones, 26), np.full(bones, 26)
    for finger in range(5):
        bone, angle = 2 + 4 * finger, 6 + 4 * finger
        bending[bone:bone + 3] = [angle, angle + 2, angle + 3]
        spreading[bone] = angle + 1
    generation = []
    for parent in parents:
        generation.append(0 if parent < 0 else generation[parent] + 1)
    members = [[b for b in range(bones) if generation[b] == g] for g in range(max(generation) + 1)]
    order = np.argsort([b for group in members for b in group])

    def transforms(theta, relative, inverse):
        angles = jnp.append(theta, 0.0)
        x, z = angles[bending], angles[spreading]
        cx, sx, cz, sz = jnp.cos(x), jnp.sin(x), jnp.cos(z), jnp.sin(z)
        zero = jnp.zeros_like(x)
        turn = jnp.stack([cz, -sz * cx, sz * sx, sz, cz * cx, -cz * sx, zero, sx, cx], 1).reshape(-1, 3, 3)
        local = jnp.concatenate([relative[:, :, :3] @ turn, relative[:, :, 3:]], 2)
        absolute = [local[np.array(members[0])]]
        for g in range(1, len(members)):
            above = np.array([members[g - 1].index(parents[b]) for b in members[g]])
            absolute.append(absolute[-1][above] @ local[np.array(members[g])])
        return (jnp.concatenate(absolute)[order] @ inverse)[:, :3]

    def rotation(a):
        squared = a @ a
        none = jnp.sqrt(squared) < 1e-4
        angle = jnp.sqrt(jnp.where(none, 1.0, squared))
        v, c, s = a / angle, jnp.cos(angle), jnp.sin(angle)
        skew = jnp.array([[0, -1, 0], [1, 0, 0], [0, 0, 0]]) * v[2] + jnp.array([[0, 0, 1], [0, 0, 0], [-1, 0, 0]]) * v[1] + \
            jnp.array([[0, 0, 0], [0, 0, -1], [0, 1, 0]]) * v[0]
        return jnp.where(none, jnp.eye(3), c * jnp.eye(3) + s * skew + (1 - c) * jnp.outer(v, v))

    def pose(theta, relative, inverse):
        """[3, 4 bones], to be multiplied by the skin."""
        transposed = jnp.einsum("ij,bjk->ibk", rotation(theta[:3]), transforms(theta, relative, inverse))
        return transposed.reshape(3, -1)

    def pick(surface, u, vertices):
        """Of [..., 3, vertices] the places of the points [..., N, 3]."""
        if not complicated:
            return surface[..., vertices].swapaxes(-1, -2)
        a, b, c = (surface[..., vertices[k]].swapaxes(-1, -2) for k in range(3))
        return u[:, :1] * a + u[:, 1:] * b + (1 - u[:, :1] - u[:, 1:]) * c

    def residuals(theta, u, relative, inverse, skin, points, vertices):
        surface = pose(theta, relative, inverse) @ skin + theta[3:6, None]
        return points - pick(surface, u, vertices)

    def by_u(surface, vertices):
        a, b, c = (surface[:, vertices[k]].T for k in range(3))
        return jnp.stack([c - a, c - b])

    def one_product(theta, u, relative, inverse, skin, points, vertices):
        """All directions through one product."""
        directions = jnp.moveaxis(jax.jacfwd(pose)(theta, relative, inverse), 2, 0)  # [26, 3, 4 bones]
        moved = (directions.reshape(-1, skin.shape[0]) @ skin).reshape(26, 3, -1)
        shift = jnp.zeros((26, 3, 1)).at[3:6, :, 0].set(jnp.eye(3))
        by_theta = -pick(moved + shift, u, vertices)
        if not complicated:
            return by_theta
        surface = pose(theta, relative, inverse) @ skin
        return by_u(surface, vertices), by_theta

    def few(f):
        """f of the vertices that are wanted alone, gathered first."""
        def of_few(theta, u, relative, inverse, skin, points, vertices):
            wanted = vertices.reshape(-1)
            return f(theta, u, relative, inverse, skin[:, wanted], points, jnp.arange(wanted.size).reshape(vertices.shape))
        return of_few

    def plain(theta, u, relative, inverse, skin, points, vertices):
        by_theta = jnp.moveaxis(jax.jacfwd(residuals)(theta, u, relative, inverse, skin, points, vertices), 2, 0)
        if not complicated:
            return by_theta
        seed = lambda j: jnp.zeros_like(u).at[:, j].set(1.0)
        along = lambda v: jax.jvp(lambda w: residuals(theta, w, relative, inverse, skin, points, vertices), (u,), (v,))[1]
        return jnp.stack([along(seed(0)), along(seed(1))]), by_theta

    args = [tensors["theta"], tensors["u"] if complicated else np.zeros((1, 2)), tensors["relative"], tensors["inverse"],
            tensors["skin"], tensors["points"], tensors["vertices"]]
    if not derivative:
        return {"product": jitted(residuals, *args), "of few": jitted(few(residuals), *args)}
    return {"one product": jitted(one_product, *args), "one product of few": jitted(few(one_product), *args),
            "jacfwd": jitted(plain, *args)}


# --- D-LSTM


def lstm(tensors, derivative):
    count = tensors[0].shape[0]

    def cell(s, forget, into, out, change):
        s = s * forget + into * change
        return out * jnp.tanh(s), s

    def likelihood(u, extra, following):
        y = u * extra[1] + extra[2]
        total = jnp.sum(following * (y - jnp.log(2 + jnp.sum(jnp.exp(y), -1, keepdims=True))))
        return -total / following.size

    def step(main, h, s, u):
        w, b = main[0], main[1]
        forget, out = jax.nn.sigmoid(u * w[0] + b[0]), jax.nn.sigmoid(u * w[2] + b[2])
        return cell(s, forget, jax.nn.sigmoid(h * w[1] + b[1]), out, jnp.tanh(h * w[3] + b[3]))

    def plain(unroll):
        def f(main, extra, state, sequence):
            def body(carry, x):
                u, after = x * extra[0], []
                for k in range(count):
                    u, s = step(main[k], carry[k][0], carry[k][1], u)
                    after.append((u, s))
                return after, u
            _, u = jax.lax.scan(body, [(state[k, 0], state[k, 1]) for k in range(count)], sequence[:-1], unroll=unroll)
            return likelihood(u, extra, sequence[1:])
        return f

    def by_layer(unroll):
        """Layer by layer; gates that do not depend on its own state for all steps at once."""
        def f(main, extra, state, sequence):
            u = sequence[:-1] * extra[0]
            for k in range(count):
                w, b = main[k]
                gates = jax.nn.sigmoid(u * w[0] + b[0]), jax.nn.sigmoid(u * w[2] + b[2])

                def body(carry, gate, w=w, b=b):
                    h, s = carry
                    h, s = cell(s, gate[0], jax.nn.sigmoid(h * w[1] + b[1]), gate[1], jnp.tanh(h * w[3] + b[3]))
                    return (h, s), h
                _, u = jax.lax.scan(body, (state[k, 0], state[k, 1]), gates, unroll=unroll)
            return likelihood(u, extra, sequence[1:])
        return f

    def skewed(unroll):
        """All layers in one step, layer k at the character k behind that of the first."""
        def f(main, extra, state, sequence):
            w, b = main[:, 0], main[:, 1]
            steps = sequence.shape[0] - 1
            first = jnp.pad(sequence[:-1] * extra[0], ((0, count - 1), (0, 0)))
            ready = np.arange(steps + count - 1)[:, None] >= np.arange(count)

            def body(carry, given):
                h, s = carry
                x, on = given
                u = jnp.concatenate([x[None], h[:-1]])
                forget, out = jax.nn.sigmoid(u * w[:, 0] + b[:, 0]), jax.nn.sigmoid(u * w[:, 2] + b[:, 2])
                new = cell(s, forget, jax.nn.sigmoid(h * w[:, 1] + b[:, 1]), out, jnp.tanh(h * w[:, 3] + b[:, 3]))
                h, s = jnp.where(on[:, None], new[0], h), jnp.where(on[:, None], new[1], s)
                return (h, s), h[-1]
            _, u = jax.lax.scan(body, (state[:, 0], state[:, 1]), (first, ready), unroll=unroll)
            return likelihood(u[count - 1:], extra, sequence[1:])
        return f

    of = (lambda f: jax.grad(f, (0, 1))) if derivative else (lambda f: f)
    ways = {"skewed": skewed, "scan": plain, "layer by layer": by_layer}
    return {f"{name}, {unroll} at once": jitted(of(way(unroll)), *tensors) for unroll in (1, 4, 8) for name, way in ways.items()}


def forms(workload, tensors):
    name, kind = workload.rsplit("/", 1)
    family = {"gmm": gmm, "hand": hand, "lstm": lstm}.get(name.split("_")[0], ba)
    return family(tensors, kind == "derivative")
