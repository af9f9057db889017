"""ADBench's problems in PyTorch, plainly and as someone who knows PyTorch rewrites them."""
import math

import numpy as np
import torch

import torch_forms
from torch_forms import as_it_is, gradients


def places_in_triangle(d):
    i, j = np.meshgrid(np.arange(d), np.arange(d), indexing="ij")
    below = d + j * d - j * (j + 1) // 2 + (i - j - 1)
    places = np.where(i == j, i, np.where(i > j, below, d * (d + 1) // 2))
    return torch.from_numpy(places).to(torch_forms.DEVICE)


def gmm(arrays, derivative):
    n, d = arrays[3].shape
    places = places_in_triangle(d)

    def f(alpha, mu, icf, x, gamma, m):
        k = mu.shape[0]
        q = icf[:, :d]
        entries = torch.cat([torch.exp(q), icf[:, d:]], 1)
        factors = torch.nn.functional.pad(entries, (0, 1))[:, places]
        y = (x @ factors.reshape(k * d, d).T).reshape(n, k, d) - torch.einsum("kij,kj->ki", factors, mu)
        value = torch.sum(torch.logsumexp(alpha + torch.sum(q, 1) - 0.5 * torch.sum(y * y, 2), 1))
        nu = m + d + 1
        log_gammas = torch.sum(torch.lgamma(0.5 * (nu - torch.arange(d, device=alpha.device)))) + 0.25 * d * (d - 1) * math.log(math.pi)
        normalizer = nu * d * (torch.log(gamma) - 0.5 * math.log(2)) - log_gammas
        wishart = 0.5 * gamma**2 * torch.sum(entries**2) - m * torch.sum(q) - k * normalizer
        return value + wishart - 0.5 * n * d * math.log(2 * math.pi) - n * torch.logsumexp(alpha, 0)
    return gradients(f, [0, 1, 2], *arrays, value=False) if derivative else {"product": as_it_is(f, *arrays)}


def project(x, seen):
    """Residuals of observations; x: 15 columns."""
    r, center = x[0:3], x[3:6]
    p = [x[11 + i] - center[i] for i in range(3)]
    squared = r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
    zero = squared == 0
    angle = torch.sqrt(torch.where(zero, 1.0, squared))
    c, s = torch.cos(angle), torch.sin(angle)
    cross = lambda a, b: [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    v = [r[i] / angle for i in range(3)]
    along = (v[0] * p[0] + v[1] * p[1] + v[2] * p[2]) * (1 - c)
    about, small = cross(v, p), cross(r, p)
    t = [torch.where(zero, p[i] + small[i], p[i] * c + about[i] * s + v[i] * along) for i in range(3)]
    e0, e1 = t[0] / t[2], t[1] / t[2]
    s2 = e0 * e0 + e1 * e1
    focal = x[6] * (1 + x[9] * s2 + x[10] * s2 * s2)
    return x[14] * (e0 * focal + x[7] - seen[0]), x[14] * (e1 * focal + x[8] - seen[1])


def ba(arrays, derivative):
    arrays = [*arrays[:4], arrays[4].astype(np.int64), arrays[5].astype(np.int64)]

    def columns(cameras, points, weights, seen, camera_of, point_of):
        return [*cameras.T[:, camera_of], *points.T[:, point_of], weights], seen.T

    def objective(*inputs):
        x, seen = columns(*inputs)
        return torch.stack(project(x, seen), 1), 1 - x[14] ** 2

    def jacobian(*inputs):
        x, seen = columns(*inputs)
        _, back = torch.func.vjp(lambda *x: project(x, seen), *x)
        one, none = torch.ones_like(x[0]), torch.zeros_like(x[0])
        return torch.stack([*back((one, none)), *back((none, one))], 1), -2 * x[14]

    def by_row(cameras, points, weights, seen, camera_of, point_of):
        x = torch.cat([cameras[camera_of], points[point_of], weights[:, None]], 1)
        of_row = lambda x, seen: torch.stack(project(x.unbind(), seen))
        return torch.vmap(torch.func.jacrev(of_row))(x, seen).reshape(-1, 30), -2 * weights
    if not derivative:
        return {"columns": as_it_is(objective, *arrays)}
    return {"vmap of jacrev": as_it_is(by_row, *arrays), "columns": as_it_is(jacobian, *arrays)}


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
    above = [torch.tensor([members[g - 1].index(parents[b]) for b in members[g]]) for g in range(1, len(members))]
    order = torch.from_numpy(np.argsort([b for group in members for b in group]))
    groups = [torch.tensor(group) for group in members]
    bending, spreading = torch.from_numpy(bending), torch.from_numpy(spreading)

    def transforms(theta, relative, inverse):
        angles = torch.cat([theta, theta.new_zeros(1)])
        x, z = angles[bending], angles[spreading]
        cx, sx, cz, sz = torch.cos(x), torch.sin(x), torch.cos(z), torch.sin(z)
        zero = torch.zeros_like(x)
        turn = torch.stack([cz, -sz * cx, sz * sx, sz, cz * cx, -cz * sx, zero, sx, cx], 1).reshape(-1, 3, 3)
        local = torch.cat([relative[:, :, :3] @ turn, relative[:, :, 3:]], 2)
        absolute = [local[groups[0]]]
        for g in range(1, len(groups)):
            absolute.append(absolute[-1][above[g - 1]] @ local[groups[g]])
        return (torch.cat(absolute)[order] @ inverse)[:, :3]

    def rotation(a):
        squared = (a * a).sum()
        none = torch.sqrt(squared) < 1e-4
        angle = torch.sqrt(torch.where(none, 1.0, squared))
        v, c, s = a / angle, torch.cos(angle), torch.sin(angle)
        zero = torch.zeros_like(c)
        skew = torch.stack([zero, -v[2], v[1], v[2], zero, -v[0], -v[1], v[0], zero]).reshape(3, 3)
        eye = torch.eye(3, dtype=a.dtype)
        return torch.where(none, eye, c * eye + s * skew + (1 - c) * torch.outer(v, v))

    def pose(theta, relative, inverse):
        transposed = torch.einsum("ij,bjk->ibk", rotation(theta[:3]), transforms(theta, relative, inverse))
        return transposed.reshape(3, -1)

    def pick(surface, u, vertices):
        if not complicated:
            return surface[..., vertices].transpose(-1, -2)
        a, b, c = (surface[..., vertices[k]].transpose(-1, -2) for k in range(3))
        return u[:, :1] * a + u[:, 1:] * b + (1 - u[:, :1] - u[:, 1:]) * c

    def residuals(theta, u, relative, inverse, skin, points, vertices):
        return points - pick(pose(theta, relative, inverse) @ skin + theta[3:6, None], u, vertices)

    def one_product(theta, u, relative, inverse, skin, points, vertices):
        directions = torch.func.jacfwd(pose)(theta, relative, inverse).movedim(2, 0)
        moved = (directions.reshape(-1, skin.shape[0]) @ skin).reshape(26, 3, -1)
        shift = torch.nn.functional.pad(torch.eye(3, dtype=theta.dtype), (0, 0, 3, 20))[:, :, None]
        by_theta = -pick(moved + shift, u, vertices)
        if not complicated:
            return by_theta
        surface = pose(theta, relative, inverse) @ skin
        a, b, c = (surface[:, vertices[k]].T for k in range(3))
        return torch.stack([c - a, c - b]), by_theta

    def few(f):
        """f of the vertices that are wanted alone, gathered first."""
        def of_few(theta, u, relative, inverse, skin, points, vertices):
            wanted = vertices.reshape(-1)
            return f(theta, u, relative, inverse, skin[:, wanted], points, torch.arange(wanted.numel()).reshape(vertices.shape))
        return of_few

    args = [tensors["theta"], tensors["u"] if complicated else np.zeros((1, 2)), tensors["relative"], tensors["inverse"],
            tensors["skin"], tensors["points"], tensors["vertices"].astype(np.int64)]
    name, f = ("one product", one_product) if derivative else ("product", residuals)
    return {name: as_it_is(f, *args), name + " of few": as_it_is(few(f), *args)}


def lstm(arrays, derivative):
    """A loop over the characters: for the compiler too many operations."""
    if torch_forms.COMPILED:
        return {}
    count = arrays[0].shape[0]

    def f(main, extra, state, sequence):
        first, outputs = sequence[:-1] * extra[0], []
        h, s = list(state[:, 0]), list(state[:, 1])
        parts = [(main[k, 0].reshape(-1), main[k, 1].reshape(-1)) for k in range(count)]
        for x in first.unbind():
            u = x
            for k in range(count):
                w, b = parts[k]
                gates = torch.addcmul(b, torch.cat([u, h[k], u, h[k]]), w)
                forget, into, out = torch.sigmoid(gates[:-x.numel()]).chunk(3)
                s[k] = torch.addcmul(s[k] * forget, into, torch.tanh(gates[-x.numel():]))
                h[k] = u = out * torch.tanh(s[k])
            outputs.append(u)
        y = torch.stack(outputs) * extra[1] + extra[2]
        total = torch.sum(sequence[1:] * (y - torch.log(2 + torch.sum(torch.exp(y), -1, keepdim=True))))
        return -total / first.numel()
    return gradients(f, [0, 1], *arrays, value=False) if derivative else {"loop": as_it_is(f, *arrays)}


def forms(workload, tensors):
    name, kind = workload.rsplit("/", 1)
    family = {"gmm": gmm, "hand": hand, "lstm": lstm}.get(name.split("_")[0], ba)
    return family(tensors, kind == "derivative")
