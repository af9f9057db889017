"""report.py - the measurements as a table of ratios, as JSON and as a picture, with the goals."""
import json
import math

NAMES = {"jax": "JAX jit", "torch": "PyTorch", "torch_compile": "torch.compile"}
FAR = 280  # nanoseconds from one thread to another and back
COLOURS = {"jax": "#7b4fb5", "torch": "#e4572e", "torch_compile": "#f2a541", "bound": "#3a7d44", "goal": "#555"}


def device_goals(workload):
    """Large sizes are held against the fastest of the others, small ones against PyTorch, the chain against a copy."""
    if workload in ("mlp_4096", "transformer/huge", "gmm_10k_d64_K200/derivative"):
        return [("best", 1.0)]
    if workload in ("mlp_2_16", "mlp_784/64", "transformer/small", "gmm_1k_d10_K25/derivative"):
        return [("torch", 1 / 3)]
    return {"chain/256M": [("bound", 1.15)], "launch": [("us", 10.0)]}.get(workload, [])


def goals(workload, device=None):
    """The goal for a workload's time: (reference, at most that many times its time). `best` is the fastest of the others, `bound`
    the bound by hand, `us` microseconds, `objective` that of the same problem."""
    if device:
        return device_goals(workload)
    name, _, kind = workload.partition("/")
    if name.startswith("gmm") and kind == "derivative":
        d = int(name.split("_d")[1].split("_")[0])
        return ([("jax", 1.0), ("objective", 3.0)] if d >= 10 else []) + ([("bound", 1.2)] if d >= 32 else [])
    if name.startswith("compile"):
        return [("us", 50.0 * int(kind))]
    if kind == "derivative":
        return [("best", 0.5 if name.startswith("ba") else 0.7)]
    return {"elementwise10": [("bound", 1.25), ("torch_compile", 1 / 1.8), ("jax", 1 / 4.8)],
            "mlp_784": [("bound", 1.08)], "mlp_2_16": [("us", 12.0)], "softmax": [("best", 0.8)], "layer_norm": [("best", 0.8)],
            "convnet": [("best", 0.7)], "call": [("us", 1.0)], "cache_hit": [("us", 2.0)], "hot_loop": [("bound", 1.2)],
            "transformer": [("torch_compile", 0.9)] if kind == "large" else [("jax", 0.4)]}.get(name, [])


def references(row, rows):
    """The references of the goals of a row, if they were measured. A peer that is faster with fewer threads may have fewer."""
    found = {"us": 1.0}
    for other in rows or [row]:
        if other["workload"] == row["workload"] and other["threads"] <= row["threads"]:
            for name, time in [*other["peers"].items(), ("bound", other["bound"])]:
                if time:
                    found[name] = min(time, found.get(name, time))
    peers = [found[name] for name in NAMES if name in found]
    if peers:
        found["best"] = min(peers)
    if row["workload"].endswith("/derivative"):
        objective = row["workload"].replace("/derivative", "/objective")
        found["objective"] = next(
            (r["tidu"] for r in rows if r["workload"] == objective and r["threads"] == row["threads"]), None)
    return {name: value for name, value in found.items() if value}


def judged(row, rows):
    """For each goal: its text, the actual ratio, and whether it is reached; both None if the reference was not measured."""
    known = references(row, rows)
    result = []
    for name, limit in goals(row["workload"], row.get("device")):
        text = f"{limit:g} us" if name == "us" else f"{limit:.3g} x {name}"
        ratio = row["tidu"] / known[name] if name in known and row["tidu"] else None
        result.append((text, ratio, None if ratio is None else ratio <= limit))
    return result


def verdict(ratio, good):
    return "not judged" if good is None else f"reached, {number(ratio)}" if good else f"not yet, {number(ratio)}"


def number(value):
    if value is None:
        return "-"
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def far(detail):
    """Is the latency between two threads above that of a group of cores that share a cache? Sharing data costs several times as much
    then; a virtual machine's processors may move at any time."""
    return max(detail["apart_ns"], default=0) > FAR


def progress(row, detail):
    parts = [f"{row['workload']} ({row['threads']}):", f"tidu {number(row['tidu'])}"]
    parts += [f"{name} {number(time)}" for name, time in row["peers"].items()]
    parts += [f"bound {number(row['bound'])}"]
    parts += [f"processors {min(detail['apart_ns']):.0f} to {max(detail['apart_ns']):.0f} ns apart"] if far(detail) else []
    parts += [f"{name}: {why}" for name, why in {**detail["failed"], **detail["disagrees"]}.items()]
    return "  ".join(parts)


def table(rows, versions, least=False):
    peers = [name for name in NAMES if any(name in row["peers"] for row in rows)]
    head = ["workload", "threads", "tidu, us", "bound", *(NAMES[p] for p in peers), "tidu/bound", "tidu/best", "goals"]
    lines = [head]
    for row in rows:
        known = references(row, rows)
        ratio = lambda name: f"{row['tidu'] / known[name]:.2f}" if row["tidu"] and name in known else "-"
        found = judged(row, rows)
        lines.append([row["workload"], str(row["threads"]), number(row["tidu"]), number(row["bound"]),
                      *(number(row["peers"].get(p)) for p in peers), ratio("bound"), ratio("best"),
                      "; ".join(f"{text}: {verdict(value, good)}" for text, value, good in found)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    left = (0, len(head) - 1)
    text = "\n".join("  ".join(cell.ljust(w) if i in left else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(line, widths))).rstrip() for line in lines)
    all_goals = [good for row in rows for _, _, good in judged(row, rows)]
    others = ", ".join(f"{NAMES[n]} {v}" for n, v in versions.items() if n in NAMES)
    judged_goals = [good for good in all_goals if good is not None]
    missing = len(all_goals) - len(judged_goals)
    return f"{text}\n\n{sum(judged_goals)} of {len(judged_goals)} goals reached" + \
        (f", {missing} not judged, as who they refer to was not measured" if missing else "") + "; times are " + \
        ("those of the fastest run" if least else "medians of the best round") + \
        (f"; {others}" if others else "; without PyTorch and JAX")


def as_json(rows):
    return "[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]\n"


def picture(rows, versions):
    """An SVG: a line for each workload, a panel for each number of threads; where the others stand, tidu being 1."""
    threads = sorted({row["threads"] for row in rows})
    names = list(dict.fromkeys(row["workload"] for row in rows))
    ratios = [t / row["tidu"] for row in rows if row["tidu"] for t in [*row["peers"].values(), row["bound"] or row["tidu"]]]
    low = min(-1, math.floor(math.log10(max(1e-3, min(ratios, default=1)))))
    high = max(1, math.ceil(math.log10(min(1e4, max(ratios, default=1)))))
    label, gap, width, step, top = 270, 70, 430, 19, 84
    height = top + step * len(names) + 34
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{label + (width + gap) * len(threads)}" height="{height}" '
           'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
           '<text x="10" y="22" font-size="16">Time of the others, that of tidu being 1: further right is slower than tidu</text>']
    at = 10
    entries = [(n, NAMES[n] + (f" {versions[n]}" if n in versions else "")) for n in NAMES if any(n in r["peers"] for r in rows)]
    for name, text in [*entries, ("bound", "bound by hand"), ("goal", "goals of tidu reached / not yet")]:
        if name == "goal":
            out.append(f'<path d="M{at} 42 l5 6 l8 -11" stroke="#3a7d44" stroke-width="2" fill="none"/>'
                       f'<path d="M{at + 20} 38 l8 8 m0 -8 l-8 8" stroke="#c1121f" stroke-width="2" fill="none"/>')
            at += 24
        else:
            out.append(mark(name, at + 5, 42))
        out.append(f'<text x="{at + 16}" y="46">{text}</text>')
        at += 40 + 7 * len(text)
    for column, count in enumerate(threads):
        x0 = label + column * (width + gap)
        place = lambda ratio: x0 + width * (min(max(math.log10(ratio), low), high) - low) / (high - low)
        out.append(f'<text x="{x0}" y="{top - 20}" font-weight="bold">{count} thread{"s" if count > 1 else ""}</text>')
        for power in range(low, high + 1):
            x = place(10.0**power)
            heavy = 'stroke="#222" stroke-width="1.5"' if power == 0 else 'stroke="#ddd"'
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{height - 30}" {heavy}/>'
                       f'<text x="{x:.1f}" y="{height - 14}" text-anchor="middle">{10.0**power:g}</text>')
        for line, name in enumerate(names):
            y = top + step * line + 8
            if column == 0:
                out.append(f'<text x="{label - 24}" y="{y + 4}" text-anchor="end">{name}</text>')
            out.append(f'<line x1="{x0}" x2="{x0 + width}" y1="{y}" y2="{y}" stroke="#f0f0f0"/>')
            row = next((r for r in rows if r["workload"] == name and r["threads"] == count and r["tidu"]), None)
            if row is None:
                continue
            for who, value in [*row["peers"].items(), ("bound", row["bound"])]:
                if value:
                    out.append(mark(who, place(value / row["tidu"]), y))
            found = [reached for _, _, reached in judged(row, rows) if reached is not None]
            if found:
                good = all(found)
                shape = f'M{x0 - 16} {y} l4 5 l6 -9' if good else f'M{x0 - 15} {y - 4} l8 8 m0 -8 l-8 8'
                out.append(f'<path d="{shape}" stroke="{"#3a7d44" if good else "#c1121f"}" stroke-width="2" fill="none"/>')
    return "\n".join(out) + "\n</svg>\n"


def mark(who, x, y):
    if who == "bound":
        return f'<path d="M{x:.1f} {y - 6} v12" stroke="{COLOURS[who]}" stroke-width="3"/>'
    return f'<circle cx="{x:.1f}" cy="{y}" r="4.5" fill="{COLOURS[who]}"/>'
