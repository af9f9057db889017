#!/usr/bin/env python3
"""Keeps include/tidu/tidu.hpp, which includes every public header but the opt-in and deprecated ones.

usage: umbrella.py          exit status 1 when the file is out of date
       umbrella.py --write  writes it
"""
import pathlib
import sys

from check_layers import OPT_IN

DEPRECATED = "tidu/program/"  # headers that forward to others

HEAD = """// All of tidu but the headers that name someone else's types:
// {opt_in}.
// Written by scripts/umbrella.py; a test compares.
#pragma once

"""


def wanted(include):
    headers = sorted(path.relative_to(include).as_posix() for path in (include / "tidu").rglob("*.hpp"))
    left_out = {f"tidu/{name}.hpp" for name in OPT_IN} | {"tidu/tidu.hpp"}
    names = ", ".join(f"{name}.hpp" for name in OPT_IN)
    return HEAD.format(opt_in=names) + "".join(f"#include <{h}>\n" for h in headers if h not in left_out and not h.startswith(DEPRECATED))


def main(arguments):
    include = pathlib.Path(__file__).resolve().parent.parent / "include"
    umbrella, text = include / "tidu" / "tidu.hpp", wanted(include)
    if arguments == ["--write"]:
        umbrella.write_text(text)
    elif not umbrella.exists() or umbrella.read_text() != text:
        print("include/tidu/tidu.hpp is out of date: run scripts/umbrella.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
