#!/usr/bin/env python3
"""Checks that the first C++ block of README.md is examples/readme/readme.cpp, which is compiled and run.

usage: check_readme.py          exit status 1 when they differ
       check_readme.py --write  puts the file into README.md
"""
import pathlib
import re
import sys

BLOCK = re.compile(r"(?<=^```cpp\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)


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
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
