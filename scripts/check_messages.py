#!/usr/bin/env python3
"""Checks that the functions which messages advise to call exist: each name with parentheses in a string of the sources, as in
"see grad_of()", is declared in a public header.

usage: check_messages.py [--self-test]
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
CALL = re.compile(r"(?<![\w:.])((?:\w+::)*\w+)\(\)")
# Strings that are programs, and the words of printed values.
PROGRAMS = ("backends/cuda/",)
PRINTED = {"array"}


def advised(text):
    """The functions that the strings of a source name, with their lines."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith(("//", "#")):
            continue
        for literal in LITERAL.findall(line):
            for name in CALL.findall(literal):
                yield number, name


def is_declared(name, headers):
    last = name.split("::")[-1]
    return re.search(rf"\b{re.escape(last)}\s*\(", headers) is not None or re.search(rf"\b(class|struct) {re.escape(last)}\b", headers) is not None


def unknown(sources, headers):
    """Names that `sources`, texts by path, mention in advice and that the headers do not declare."""
    return [f"{path}:{number}: {name}() is declared in no public header"
            for path, text in sources.items() if not path.startswith(PROGRAMS)
            for number, name in advised(text) if name not in PRINTED and not is_declared(name, headers)]


def self_test():
    headers = "Array where(const Array& x);\nclass GradMode {\n  Array detach() const;\n};\n"
    right = {"a.cpp": 'fail("choose by where(), detach() or GradMode()");\n// none()\n', "backends/cuda/k.cpp": '"block_x()"\n'}
    wrong = {"b.cpp": 'fail("x"\n     "see clone_of()");\n'}
    assert not unknown(right, headers), unknown(right, headers)
    assert unknown(wrong, headers) == ["b.cpp:2: clone_of() is declared in no public header"], unknown(wrong, headers)


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    headers = "\n".join(path.read_text() for path in sorted((ROOT / "include").rglob("*.hpp")))
    sources = {str(path.relative_to(ROOT)): path.read_text()
               for folder in ("src", "backends", "include") for path in sorted((ROOT / folder).rglob("*.?pp"))}
    if not any(True for text in sources.values() for _ in advised(text)):
        print("check_messages.py: expected messages that name functions, got none")
        return 1
    faults = unknown(sources, headers)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
