#!/usr/bin/env python3
# mutations.py - plants one fault at a time in a scratch copy of the tree, builds the tests that should notice,
# and reports which fail: under each fault the tests that carry its tag must fail, and few others should. A
# fault that more than a few others notice must say why no narrower one would do. Not part of CI (each fault is
# a build); run it after a change of code that has faults, or of its tests.
#
#   scripts/mutations.py                    all faults
#   scripts/mutations.py P4 'T[1-3]'        those of some tags (regular expressions, whole tags)
#   scripts/mutations.py --check            that every fault still fits the sources, without building
#
# To add a fault: in a file tests/mutations/NAME.py call
#   mutation("P4", "description of the fault", "src/eager/reached.cpp", """old text""", """new text""")
# The old text must stand in the file exactly once. A fault of several places passes further (file, old, new)
# tuples. `programs` names the test programs that may show it, test_eager alone by default; `wide` says why so
# many others notice it. A fault that cannot be shown by a test (it costs time only) does not belong here.
import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = "build/dev"  # in the scratch copy
LIMIT_S = 120  # of one run of a test program: a fault may well make it wait for ever
FEW = 5  # so many tests of other tags may notice a fault that does not say why
# These hold whole programs against an oracle and so notice whatever makes a gradient wrong: they are no others.
WHOLE = ("[T10] random programs of single and composite nodes agree with dual numbers",
         "the program whose faults are walked through is right without any",
         "[T7] [C7] whatever throws at any of its calls leaves no leak and a working tape")


class Mutation:
    def __init__(self, tag, what, edits, programs, wide):
        self.tag, self.what, self.edits, self.programs, self.wide = tag, what, edits, programs, wide


def load():
    found = []

    def mutation(tag, what, file, old, new, *more, programs=("test_eager",), wide=""):
        found.append(Mutation(tag, what, [(file, old, new), *more], programs, wide))

    for path in sorted((ROOT / "tests/mutations").glob("*.py")):
        exec(compile(path.read_text(), str(path), "exec"), {"mutation": mutation})
    return found


def misfits(mutation, tree):
    return [f"{file}: the old text stands there {n} times"
            for file, old, _ in mutation.edits
            if (n := (tree / file).read_text().count(old)) != 1]


def copy_tree(scratch):
    """The tracked and the new files, with their times, so that a second run builds little."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.split("\n")
    wanted = {name for name in names if name and (ROOT / name).is_file()}
    for name in wanted:
        to = scratch / name
        if to.exists() and to.read_bytes() == (ROOT / name).read_bytes():
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, to)
    for path in [p for p in scratch.rglob("*") if p.is_file()]:
        name = path.relative_to(scratch).as_posix()
        if name not in wanted and not name.startswith("build/"):
            path.unlink()


def environment(scratch):
    return {**os.environ, "CCACHE_BASEDIR": str(scratch), "CCACHE_NOHASHDIR": "1"}


def build(scratch, programs, jobs):
    command = ["ninja", "-C", BUILD, f"-j{jobs}", *programs]
    return subprocess.run(command, cwd=scratch, capture_output=True, text=True, env=environment(scratch))


def configure(scratch):
    command = ["cmake", "-S", ".", "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
               "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1"]
    if shutil.which("ccache"):
        command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    subprocess.run(command, cwd=scratch, check=True, stdout=subprocess.DEVNULL, env=environment(scratch))


def run(scratch, program, *filters):
    """Names of the cases that failed; a crash or a time-out is a failure of its own."""
    command = [str(scratch / BUILD / "bin" / program), "-r=console", "-nc", *filters]
    if program.endswith("_small_stack"):
        command = ["sh", "-c", 'ulimit -s 512 && exec "$@"', "sh", *command]
    env = {**os.environ, "TIDU_TEST_SCALE": os.environ.get("TIDU_TEST_SCALE", "0.2")}
    try:
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, errors="replace", env=env,
                              timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return ["(runs for ever)"]
    failed = []
    for case, text in re.findall(r"^TEST CASE:  (.*?)$(.*?)(?=^={20})", done.stdout, re.M | re.S):
        if ("ERROR" in text or "FATAL" in text) and case not in failed:
            failed.append(case)
    if done.returncode not in (0, 1):
        failed.append(f"(ends with status {done.returncode})")
    return failed if done.returncode != 0 else []


def main():
    parser = argparse.ArgumentParser(description="plants faults and reports which tests notice")
    parser.add_argument("tags", nargs="*", help="regular expressions for tags; all when none is given")
    parser.add_argument("--check", action="store_true", help="only see that the faults fit the sources")
    parser.add_argument("--scratch", type=Path, default=ROOT / "build/mutations", help="where to build")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help="do not run the tests of other tags")
    options = parser.parse_args()
    mutations = [m for m in load()
                 if not options.tags or any(re.fullmatch(t, m.tag) for t in options.tags)]
    stale = 0
    for mutation in mutations:
        for text in misfits(mutation, ROOT):
            stale += 1
            print(f"[{mutation.tag}] {mutation.what}: does not fit\n    {text}")
    if options.check or stale:
        print(f"{len(mutations)} faults, {stale} that do not fit")
        return 1 if stale else 0

    scratch = options.scratch.resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    copy_tree(scratch)
    configure(scratch)
    programs = sorted({p for m in mutations for p in m.programs})
    made = build(scratch, programs, options.jobs)
    if made.returncode != 0:
        sys.exit(made.stdout[-4000:])
    for program in programs:
        if failed := run(scratch, program):
            sys.exit(f"without a fault {program} fails: {failed}")
    missed = too_wide = 0
    for mutation in mutations:
        originals = {file: (scratch / file).read_text() for file, _, _ in mutation.edits}
        try:
            for file, old, new in mutation.edits:
                text = (scratch / file).read_text()
                (scratch / file).write_text(text.replace(old, new))
            made = build(scratch, mutation.programs, options.jobs)
            if made.returncode != 0:
                missed += 1
                print(f"[{mutation.tag}] {mutation.what}: does not build\n{made.stdout[-2000:]}", flush=True)
                continue
            mine = f"*[{mutation.tag}]*"
            noticed = [f for p in mutation.programs for f in run(scratch, p, f"-tc={mine}")]
            others = [] if options.alone else [
                f for p in mutation.programs for f in run(scratch, p, f"-tce={mine}")]
        finally:
            for file, text in originals.items():
                (scratch / file).write_text(text)
        whole = [case for case in others if case in WHOLE]
        others = [case for case in others if case not in WHOLE]
        missed += 0 if noticed else 1
        wide = len(others) > FEW and not mutation.wide
        too_wide += 1 if wide else 0
        print(f"[{mutation.tag}] {mutation.what}: {'noticed' if noticed else 'MISSED'} by {len(noticed)} of its tag, "
              f"{len(others)} others, {len(whole)} of whole programs{', TOO WIDE' if wide else ''}", flush=True)
        for case in others:
            print(f"      {case}", flush=True)
    print(f"{len(mutations)} faults, {missed} missed, {too_wide} too wide")
    return 1 if missed or too_wide else 0


if __name__ == "__main__":
    sys.exit(main())
