#!/usr/bin/env python3
"""Checks that the C++ in the documentation is that of files which are compiled and run: the first block of README.md is
examples/readme/readme.cpp, and each further block there and in docs/*.md is part of the .cpp or .hpp that was linked last before it. There
a line "// ..." stands for lines left out; indentation and empty lines do not count.

usage: check_readme.py          exit status 1 when they differ
       check_readme.py --write  puts the file into README.md
"""
import pathlib
import re
import sys

BLOCK = re.compile(r"(?<=^```cpp\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)]+\.[ch]pp)\)")


def lines(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def find(part, whole, start):
    """Where `part` ends in `whole`, or None."""
    for at in range(start, len(whole) - len(part) + 1):
        if whole[at:at + len(part)] == part:
            return at + len(part)
    return None


def missing(block, source):
    """The first run of lines of `block` that `source` does not have, in their order; None when it has all."""
    whole, at, part = lines(source), 0, []
    for line in lines(block) + ["// ..."]:
        if line != "// ...":
            part.append(line)
            continue
        at = find(part, whole, at)
        if at is None:
            return part
        part = []
    return None


def check_page(page, first=0):
    text, wrong = page.read_text(encoding="utf-8"), 0
    for block in list(BLOCK.finditer(text))[first:]:
        links = LINK.findall(text[:block.start()])
        if not links:
            print(f"{page.name}: a block of C++ has no link to its file before it")
            wrong += 1
            continue
        part = missing(block.group(0), (page.parent / links[-1]).read_text(encoding="utf-8"))
        if part is not None:
            print(f"{page.name}: {links[-1]} does not have these lines:", *part, sep="\n  ")
            wrong += 1
    return wrong


def main(arguments):
    root = pathlib.Path(__file__).resolve().parent.parent
    readme = root / "README.md"
    text, program = readme.read_text(), (root / "examples" / "readme" / "readme.cpp").read_text()
    block = BLOCK.search(text)
    if block is None:
        print("README.md has no block of C++")
        return 1
    if arguments == ["--write"]:
        readme.write_text(text[: block.start()] + program + text[block.end():])
    elif block.group(0) != program:
        print("README.md and examples/readme/readme.cpp differ: run scripts/check_readme.py --write")
        return 1
    wrong = check_page(readme, first=1)
    return 1 if wrong + sum([check_page(page) for page in sorted((root / "docs").glob("*.md"))]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
