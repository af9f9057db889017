#!/usr/bin/env python3
"""Checks the exported symbols of tidu's libraries, by nm.

In a shared library (.so), every exported symbol belongs to namespace tidu; in libtidu_c, every one is a function tidu_*. In a static one
(.a), so does every symbol except those that C++ lets each library have (templates and inline functions, of which the linker keeps one).
If code is compiled for an instruction set that not every processor has, also those belong to a namespace named after it, so that the
linker never uses them for code that runs anywhere; and none is of Eigen, whose templates differ with the instruction set under one name.

usage: check_symbols.py LIBRARY...   exit status 0, or 1 with one line for each finding
       check_symbols.py --self-test  shows that planted violations are found
"""
import re
import subprocess
import sys

SPECIAL = r"(?:T[IVSTHWC]|GV|GR|Th\d+_|Thn\d+_|Tv0_n\d+_)?"
TIDU = re.compile(rf"^_Z{SPECIAL}Z?N[VK]*[RO]?4tidu")
EIGEN = re.compile(r"(?<!\d)5Eigen")
WEAK = "WwVvu"
C_NAME = re.compile(r"^tidu_[a-z0-9_]+$")
C_LIBRARY = re.compile(r"libtidu_c\.(so|dylib)")
LINE = re.compile(r"^(?:.+?:)?(?P<member>[^\s:]+\.o)?:?(?:[0-9a-f]+) (?P<kind>\S) (?P<name>\S+)$")
INSTRUCTION_SET = re.compile(r"_(avx2|avx512)\.cpp\.o$")


def finding(shared, member, kind, name):
    """The fault of a symbol that a library defines, or None. `shared`: False, True, or "c"."""
    if shared == "c":
        return None if kind == "T" and C_NAME.match(name) else "is no function tidu_*"
    if shared or kind not in WEAK:
        return None if TIDU.match(name) else "is not of namespace tidu"
    if EIGEN.search(name):
        return "is of Eigen, of which a program may have its own"
    match = INSTRUCTION_SET.search(member)
    if match and not name.startswith("DW.ref.") and f"{len(match.group(1))}{match.group(1)}" not in name:
        return f"is not of a namespace {match.group(1)}, but compiled for it"
    return None


def check(library):
    """Number of symbols of `library`, and a line for each that is wrong."""
    shared = not library.endswith(".a")
    command = ["nm", "-D", "--defined-only", library] if shared else ["nm", "-A", "-g", "--defined-only", library]
    count, found = 0, []
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        match = LINE.match(line)
        if not match:
            continue
        count += 1
        what = finding("c" if C_LIBRARY.search(library) else shared, match["member"] or "", match["kind"], match["name"].split("@")[0])
        if what:
            plain = subprocess.run(["c++filt", match["name"]], capture_output=True, text=True).stdout.strip()
            found.append(f"{library}: {plain} ({match['kind']}) {what}")
    if count == 0:
        found.append(f"{library}: nm found no symbol")
    return count, found


def self_test():
    cases = [  # shared, member, kind, name, is it right?
        (True, "", "T", "_ZN4tidu4gradERKNS_5GraphE", True),
        (True, "", "V", "_ZTIN4tidu5ErrorE", True),
        (True, "", "T", "_ZNKR4tidu6ResultIiE5valueEv", True),
        (True, "", "u", "_ZGVZN4tidu7plain_opIiEEvvE2op", True),
        (True, "", "W", "_ZThn16_NK4tidu11CpuExecutor4nameEv", True),
        (True, "", "W", "_ZNSt6vectorIN4tidu6TensorESaIS1_EED1Ev", False),
        (True, "", "W", "_ZN8nlohmann10basic_jsonEv", False),
        (True, "", "T", "tidu_version", False),
        (True, "", "T", "_ZN5tidux1fEv", False),
        ("c", "", "T", "tidu_graph_retain", True),
        ("c", "", "T", "_ZN4tidu4gradERKNS_5GraphE", False),
        ("c", "", "B", "tidu_table", False),
        ("c", "", "T", "main", False),
        (False, "a.cpp.o", "W", "_ZNSt6vectorIiSaIiEED1Ev", True),
        (False, "a.cpp.o", "W", "_ZN5Eigen8internal4gemmEv", False),
        (False, "a.cpp.o", "W", "_ZN10tidu_eigen8internal4gemmEv", True),
        (False, "a.cpp.o", "T", "_Z6helperv", False),
        (False, "a.cpp.o", "B", "table", False),
        (False, "gemm_avx2.cpp.o", "W", "_ZN4tidu10cpu_detail4avx24tileEv", True),
        (False, "gemm_avx2.cpp.o", "W", "_ZN4tidu10cpu_detail4tileEv", False),
        (False, "gemm_avx512.cpp.o", "W", "_ZNSt6vectorIiSaIiEED1Ev", False),
    ]
    wrong = [case for case in cases if (finding(*case[:4]) is None) != case[4]]
    lines = ["0000000000001130 T f", "lib.a:gemm_avx2.cpp.o:0000000000000000 W f", "/a/b/lib.a:x.cpp.o:0000000000000000 W f",
             "/a b/lib.a:x_avx2.cpp.o:0000000000000010 t f"]
    members = [m and m["member"] for m in map(LINE.match, lines)]
    if members != [None, "gemm_avx2.cpp.o", "x.cpp.o", "x_avx2.cpp.o"]:
        wrong.append(members)
    for case in wrong:
        print(f"self-test: judged wrongly: {case}")
    print(f"self-test: {len(cases) - len(wrong)} of {len(cases)} symbols judged rightly")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if not arguments:
        print(__doc__.strip())
        return 2
    total, found = 0, []
    for library in arguments:
        count, wrong = check(library)
        total += count
        found += wrong
    print("\n".join(found) if found else f"symbols: {total} of {len(arguments)} libraries, all as they should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
