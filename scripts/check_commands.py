#!/usr/bin/env python3
"""Checks that CI runs the commands that the documents tell a user to type: every command in an `sh` block of README.md, docs/ or
bench/ that begins with scripts/ or cmake stands in .ci/run or in a script that CI runs, or in NOT_RUN with the reason.

usage: check_commands.py                exit status 0, or 1 with one line for each finding
       check_commands.py --self-test    shows that a command that CI does not run is found
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "bench").glob("*.md"))]
# The scripts that CI runs, itself and through its scripts and tests.
RUN = [".ci/run", "scripts/demo.sh", "scripts/test.sh", "tests/project/install.sh"]
NOT_RUN = {
    "cmake -S . -B build": "the tutorial's project of a reader; the test documentation_cmake configures it",
    "cmake --build build": "the same project; tests/consumer builds such ones",
}
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.M | re.S)


def commands_of(text):
    """The commands of the sh blocks of a page that begin with scripts/ or cmake, without comments."""
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            line = re.sub(r"\s+#.*", "", line)
            for command in re.split(r"&&|;|\|", line):
                command = command.strip(" ()").removeprefix("sudo ")
                if re.match(r"(scripts/|cmake\b)", command):
                    yield command


def findings(pages, run, not_run):
    """Lines on commands of pages that CI does not run, and on exceptions that name none."""
    listed = {re.sub(r"^[A-Z_]+=\S+ ", "", " ".join(line.split())) for text in run for line in re.split(r"\n|&&|;", text)}
    found, named = [], set()
    for name, text in pages:
        for command in commands_of(text):
            if command in not_run:
                named.add(command)
            elif command not in listed:
                found.append(f"{name}: CI does not run: {command}")
    found += [f"NOT_RUN: no page has: {command}" for command in not_run if command not in named]
    return found


def self_test():
    page = "```sh\nscripts/a.sh   # one\ncmake -B x && sudo cmake --build x\nls\n```\n"
    cases = [
        (["scripts/a.sh\ncmake -B x\ncmake --build x"], {}, []),
        (["  scripts/a.sh\n  cmake -B x && cmake --build x"], {}, []),
        (["scripts/a.sh --all\ncmake -B x\n"], {"cmake --build x": "why"}, ["p: CI does not run: scripts/a.sh"]),
        (["scripts/a.sh\ncmake -B x\ncmake --build x"], {"cmake y": "why"}, ["NOT_RUN: no page has: cmake y"]),
    ]
    wrong = [case for case in cases if findings([("p", page)], case[0], case[1]) != case[2]]
    print(f"self-test: {len(cases) - len(wrong)} of {len(cases)} cases judged rightly")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    pages = [(path.relative_to(ROOT), path.read_text(encoding="utf-8")) for path in PAGES]
    run = [(ROOT / name).read_text(encoding="utf-8") for name in RUN]
    found = findings(pages, run, NOT_RUN)
    print("\n".join(found) if found else "commands: CI runs what the documents tell a user to type")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
