#!/usr/bin/env python3
"""The inputs of the workloads: the same files for tidu and for those it is measured beside.

ADBench's problems are files of its format, taken from examples/data where they are there and else made of the case's
sizes. Other workloads have one file NAME.bin each, of the tensors that TENSORS names, one after another, little-endian.
Numbers come from a generator seeded with the workload's name, so they are the same everywhere.

usage: inputs.py DIR WORKLOAD...
"""
import array
import pathlib
import random
import shutil
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples" / "data" / "adbench"
VERTICES, TRIANGLES, ANGLES = 544, 1084, 26  # of the model of the hand

# Cameras, points and observations of ADBench's cases.
BA = {"ba1": (49, 7776, 31843), "ba2": (21, 11315, 36455), "ba3": (161, 48126, 182072)}
GIVEN = {"gmm_1k_d2_K5": "gmm_1k_d2_K5", "gmm_1k_d10_K25": "gmm_1k_d10_K25", "lstm_l2_c1024": "lstm_l2_c1024",
         "hand_simple_small_c100": "hand_small/hand_simple_1", "hand_complicated_small_c100": "hand_small/hand_complicated_1"}


def layers(*widths):
    """Weights and bias of dense layers, of a size that keeps the magnitude of activations."""
    tensors = []
    for n, m in zip(widths, widths[1:]):
        tensors += [("f4", (n, m), (3 / n) ** 0.5), ("f4", (m,), 0.1)]
    return tensors


def transformer(batch, length, width):
    norm = [("f4", (width,), 1.0), ("f4", (width,), 0.1)]
    return [("f4", (batch, length, width), 1.0), *norm, *layers(width, 3 * width), *layers(width, width), *norm,
            *layers(width, 4 * width), *layers(4 * width, width)]


# By workload: type, shape and largest magnitude (of integers: how many there are) of each tensor.
TENSORS = {
    "elementwise10": [("f4", (1 << 20,), 3.0)],
    "softmax": [("f4", (4096, 1024), 3.0), ("f4", (4096, 1024), 1.0)],
    "layer_norm": [("f4", (4096, 1024), 3.0), ("f4", (1024,), 1.0), ("f4", (1024,), 1.0), ("f4", (4096, 1024), 1.0)],
    "mlp_784/64": [*layers(784, 512, 512, 10), ("f4", (64, 784), 1.0), ("i4", (64,), 10)],
    "mlp_784/256": [*layers(784, 512, 512, 10), ("f4", (256, 784), 1.0), ("i4", (256,), 10)],
    "mlp_4096": [*layers(1024, 4096, 4096, 1024), ("f4", (4096, 1024), 1.0), ("i4", (4096,), 1024)],
    "mlp_2_16": [*layers(2, 16, 16, 1), ("f4", (32, 2), 1.0), ("f4", (32, 1), 1.0)],
    "transformer/huge": transformer(8, 1024, 1024),
    "transformer/large": transformer(8, 128, 256),
    "transformer/small": transformer(2, 16, 64),
    "convnet": [("f4", (16, 1, 5, 5), 0.3), ("f4", (16,), 0.1), ("f4", (32, 16, 5, 5), 0.08), ("f4", (32,), 0.1),
                *layers(512, 10), ("f4", (64, 1, 28, 28), 1.0), ("i4", (64,), 10)],
    "call": [("f4", (4,), 1.0)],
    "compile": [("f4", (16,), 1.0)],
}


def base(workload):
    """The name under which a workload's inputs stand: those of objective and derivative are the same."""
    if workload.startswith(("compile/", "cache_hit")):
        return "compile"
    if workload == "launch" or workload.startswith(("chain/", "elementwise10/")):
        return "elementwise10"
    if workload.startswith("hot_loop"):
        return "mlp_2_16" if workload.endswith("small") else "mlp_784/64"
    for ending in ("/objective", "/derivative"):
        workload = workload.removesuffix(ending)
    return workload


def file_of(directory, workload):
    name = base(workload)
    return pathlib.Path(directory) / (name.replace("/", "_") + (".bin" if name in TENSORS else ".txt"))


def size(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def write_tensors(file, name, rng):
    with open(file, "wb") as out:
        for dtype, shape, most in TENSORS[name]:
            if dtype == "i4":
                values = array.array("i", (rng.randrange(most) for _ in range(size(shape))))
            else:
                values = array.array("f", (most * (2 * rng.random() - 1) for _ in range(size(shape))))
            if sys.byteorder == "big":
                values.byteswap()
            values.tofile(out)


def rows(rng, count, columns, draw):
    return "".join(" ".join(f"{draw():.6f}" for _ in range(columns)) + "\n" for _ in range(count))


def gmm(name, rng):
    points, d, k = name.split("_")[1:]
    n, d, k = {"1k": 1000, "10k": 10000}[points], int(d[1:]), int(k[1:])
    draw = lambda: rng.gauss(0, 1)
    return (f"{d} {k} {n}\n" + rows(rng, k, 1, draw) + rows(rng, k, d, rng.random) +
            rows(rng, k, d * (d + 1) // 2, draw) + rows(rng, n, d, draw) + "1 0\n")


def ba(name, rng):
    n, m, p = BA[name]
    camera = [rng.gauss(0, 1) for _ in range(3)] + [rng.uniform(20, 60) for _ in range(3)] + \
        [rng.uniform(200, 500), rng.gauss(0, 10), rng.gauss(0, 10), rng.uniform(0, 0.1), rng.uniform(0, 0.1)]
    text = lambda values: " ".join(f"{v:.6f}" for v in values) + "\n"
    return (f"{n} {m} {p}\n" + text(camera) + text([rng.gauss(0, 5) for _ in range(3)]) + text([rng.random()]) +
            text([rng.uniform(-900, 900) for _ in range(2)]))


def hand(name, rng):
    count, complicated = int(name.rsplit("_c", 1)[1]), "complicated" in name
    places = "".join(f"{rng.randrange(TRIANGLES if complicated else VERTICES)} " + rows(rng, 1, 3, rng.random)
                     for _ in range(count))
    inside = rows(rng, count, 2, lambda: rng.uniform(0, 0.5)) if complicated else ""
    return f"{count} {ANGLES}\n" + places + inside + rows(rng, ANGLES, 1, lambda: rng.gauss(0, 0.3))


def lstm(name, rng):
    n, characters = (int(part[1:]) for part in name.split("_")[1:])
    bits = 14
    text = rows(rng, n * 2, 4 * bits, rng.random) + rows(rng, 3, bits, rng.random) + rows(rng, n * 2, bits, rng.random)
    for _ in range(characters):
        text += " ".join(str(int(rng.random() < 0.25)) for _ in range(bits)) + "\n"
    return f"{n} {characters} {bits}\n" + text


MAKERS = {"gmm": gmm, "ba": ba, "hand": hand, "lstm": lstm}


def write(directory, workload):
    """Writes the inputs of a workload unless they are there, by this script as it is."""
    name, file = base(workload), file_of(directory, workload)
    file.parent.mkdir(parents=True, exist_ok=True)
    if name.startswith("hand") and not (file.parent / "model").exists():
        shutil.copytree(EXAMPLES / "model", file.parent / "model")
    if file.exists() and file.stat().st_mtime >= pathlib.Path(__file__).stat().st_mtime:
        return
    rng, part = random.Random(name), file.with_suffix(".part")
    if name in TENSORS:
        write_tensors(part, name, rng)
    elif name in GIVEN:
        shutil.copyfile(EXAMPLES / (GIVEN[name] + ".txt"), part)
    else:
        part.write_text(MAKERS[name.split("_")[0].rstrip("0123456789")](name, rng))
    part.rename(file)


def read(directory, workload):
    """The tensors of a workload as NumPy arrays; for ADBench's problems those of adbench_tensors."""
    import numpy as np

    name, file = base(workload), file_of(directory, workload)
    if name not in TENSORS:
        return adbench_tensors(directory, name)
    tensors, offset, data = [], 0, file.read_bytes()
    for dtype, shape, _ in TENSORS[name]:
        tensors.append(np.frombuffer(data, "<" + dtype, size(shape), offset).reshape(shape))
        offset += 4 * size(shape)
    # Longer chains have the elements over and over.
    return [np.tile(t, 256) for t in tensors] if workload.endswith("/256M") else tensors


def adbench_tensors(directory, name):
    """GMM: alpha, mu, icf, x, gamma, m. BA: cameras, points, weights, seen, camera and point of each observation. Hand: a
    dictionary. LSTM: main [layers, 2, 4, bits], extra [3, bits], state [layers, 2, bits], sequence."""
    import numpy as np

    file = file_of(directory, name)
    if name.startswith("hand"):
        return hand_tensors(file, "complicated" in name)
    numbers = np.array(file.read_text().split(), np.float64)
    a, b, c = (int(v) for v in numbers[:3])
    at = 3

    def take(*shape):
        nonlocal at
        at += size(shape)
        return numbers[at - size(shape):at].reshape(shape)

    if name.startswith("gmm"):
        d, k, n = a, b, c
        return [take(k), take(k, d), take(k, d * (d + 1) // 2), take(n, d), take(), take()]
    if name.startswith("ba"):
        camera, point, weight, seen = take(11), take(3), take(), take(2)
        i = np.arange(c)
        return [np.tile(camera, (a, 1)), np.tile(point, (b, 1)), np.full(c, weight), np.tile(seen, (c, 1)),
                (i % a).astype(np.int32), (i % b).astype(np.int32)]
    return [take(a, 2, 4, c), take(3, c), take(a, 2, c), take(b, c)]


def hand_tensors(file, complicated):
    import numpy as np

    model = file.parent / "model"
    bones = [line.split(":") for line in (model / "bones.txt").read_text().splitlines()]
    matrices = np.array([[float(v) for v in bone[2:34]] for bone in bones]).reshape(-1, 2, 4, 4)
    vertices = [line.split(":") for line in (model / "vertices.txt").read_text().splitlines()]
    skin = np.zeros((len(bones), 4, len(vertices)))
    for j, vertex in enumerate(vertices):
        place = np.array([float(v) for v in vertex[:3]] + [1.0])
        for k in range(int(vertex[8])):
            skin[int(vertex[9 + 2 * k]), :, j] += float(vertex[10 + 2 * k]) * place
    triangles = np.array([[int(v) for v in line.split(":")[:3]] for line in (model / "triangles.txt").read_text().splitlines()])

    numbers = file.read_text().split()
    count = int(numbers[0])
    places = np.array(numbers[2:2 + 4 * count], np.float64).reshape(count, 4)
    rest = np.array(numbers[2 + 4 * count:], np.float64)
    which = places[:, 0].astype(np.int32)
    return {"theta": rest[-ANGLES:], "u": rest[:2 * count].reshape(count, 2) if complicated else None,
            "relative": matrices[:, 0], "inverse": matrices[:, 1], "skin": skin.reshape(4 * len(bones), len(vertices)),
            "points": places[:, 1:], "vertices": (triangles[which].T if complicated else which).astype(np.int32),
            "parents": [int(bone[1]) for bone in bones]}


if __name__ == "__main__":
    for workload_name in sys.argv[2:]:
        write(sys.argv[1], workload_name)
