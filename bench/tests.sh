#!/usr/bin/env bash
# Runs bench/run.py on small workloads without other libraries and checks its output against the format.
# usage: tests.sh TIDU_WORKLOADS FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
program=$1
folder=$2
rm -rf "$folder"
mkdir -p "$folder"
python3 -B "$here/run.py" --program "$program" --only mlp_2_16 call hand_simple_small_c100 --quick --threads 1 --rounds 2 \
  --seconds 0.01 --inputs "$folder/inputs" --cache "$folder" --json "$folder/out.json" --details "$folder/details.json" \
  --picture "$folder/out.svg" >"$folder/table.txt" 2>"$folder/progress.txt"
# The gain of each rewrite: one of them, on a workload and on a dump.
python3 -B "$here/ablation.py" --program "$program" --only mlp_2_16 --passes vector_code --rounds 1 --seconds 0.01 \
  --inputs "$folder/inputs" --cache "$folder" --files "$here/../tests/data/conformance/add_plain.json" --json "$folder/gains.json" \
  >"$folder/gains.txt" 2>>"$folder/progress.txt"
grep -q '^| vector_code | [0-9.]*, mlp_2_16 | [0-9.]*, add_plain.json | [0-9] of 2 |$' "$folder/gains.txt"
# A run that is terminated prints its results so far.
python3 -B "$here/run.py" --program "$program" --only mlp_2_16 compile/100000 --threads 1 --rounds 2 --seconds 0.01 \
  --inputs "$folder/inputs" --cache "$folder" >"$folder/ended.txt" 2>"$folder/ended_progress.txt" &
until grep -q mlp_2_16 "$folder/ended_progress.txt" || ! kill -0 $! 2>/dev/null; do sleep 0.05; done
kill $! 2>/dev/null || true
wait $! && { echo "run.py ended by itself" >&2; exit 1; }
grep -q mlp_2_16 "$folder/ended.txt"
python3 -B - "$here" "$folder" "$program" <<'END'
import json
import sys
import xml.dom.minidom

sys.path.insert(0, sys.argv[1])
import run
import report

folder = sys.argv[2]
rows = json.load(open(f"{folder}/out.json"))
assert sorted(r["workload"] for r in rows) == ["call", "hand_simple_small_c100/derivative", "hand_simple_small_c100/objective",
                                               "mlp_2_16"], rows
for row in rows:
    assert set(row) == {"workload", "threads", "tidu", "peers", "bound"}, row
    assert row["threads"] == 1 and row["peers"] == {} and row["tidu"] > 0 and row["bound"] > 0, row
table = open(f"{folder}/table.txt").read()
assert "mlp_2_16" in table and "goals reached" in table, table
xml.dom.minidom.parse(f"{folder}/out.svg")

# The comparison must be able to fail: for each workload, a result that is off by a little.
details = json.load(open(f"{folder}/details.json"))
for detail in details:
    checks = detail["prepared"]["tidu"]["checks"]
    name = detail["workload"]
    assert run.disagreement(name, checks, checks) is None
    for i, (size, total, norm, weighted) in enumerate(checks):
        off = [list(c) for c in checks]
        off[i][3] += norm * (1e-3 if size == 1 or name == "call" else 1e-5)
        assert run.disagreement(name, checks, off), (name, i)
    assert run.disagreement(name, checks, checks[1:])
# Goals are judged by the available measurements, either way.
row = {"workload": "softmax", "threads": 1, "tidu": 7.0, "peers": {"jax": 10.0, "torch": 20.0}, "bound": 5.0}
assert [good for _, _, good in report.judged(row, [row])] == [True]
# If a peer is faster with one thread, its time with two is not used.
two = {"workload": "softmax", "threads": 2, "tidu": 7.9, "peers": {"jax": 30.0}, "bound": 5.0}
assert [good for _, _, good in report.judged(two, [row, two])] == [True]
two["tidu"] = 8.1
assert [good for _, _, good in report.judged(two, [row, two])] == [False]
assert [good for _, _, good in report.judged({**two, "peers": {}}, [])] == [None]
row["tidu"] = 8.1
assert [good for _, _, good in report.judged(row, [row])] == [False]
row = {"workload": "mlp_2_16", "threads": 1, "tidu": 7.0, "peers": {"jax": 1.0, "torch": 22.0}, "bound": None, "device": "cuda"}
assert [good for _, _, good in report.judged(row, [row])] == [True]
# A workload that runs on a device has inputs.
import subprocess
import inputs
known = subprocess.run([sys.argv[3], "--list"], capture_output=True, text=True, check=True).stdout.split()
for name in run.DEVICE:
    assert name in known and (inputs.base(name) in inputs.TENSORS or name.startswith("gmm")), name
END
# Without a device there is a message of one line.
if ! nvidia-smi -L >/dev/null 2>&1; then
  said=$(python3 -B "$here/run.py" --program "$program" --device cuda 2>&1) && exit 1
  [[ $said == *"no CUDA device"* && $(wc -l <<<"$said") -eq 1 ]] || { echo "tests.sh: expected a line, got $said" >&2; exit 1; }
fi
# Wrong arguments give a message, with status 1.
if python3 -B "$here/run.py" --program "$program" --only mlp_2_16 --quick --threads 1 --rounds 1 --seconds 0.01 \
    --inputs /dev/null/none --cache "$folder" >/dev/null 2>&1; then
  echo "tests.sh: expected a failure without inputs" >&2
  exit 1
fi
