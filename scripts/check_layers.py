#!/usr/bin/env python3
"""Checks the dependences between the modules of tidu, from the #include lines of src/, backends/ and include/tidu/.

A module is a folder of src/, or for an executor of backends/, and the folder of the same name in include/tidu/. MAY_INCLUDE states the
allowed dependences; they are transitive, and all others are errors. A large module has folders of its own, for which INSIDE states the
dependences: all of them may include files in the module's folder itself, and these may include all. Public headers name no third
party's types, except the opt-in headers. The modules of BY_RECORD compare no primitive by its name as text.

usage: check_layers.py [ROOT]       exit status 0, or 1 with one line for each finding
       check_layers.py --self-test  shows that planted violations are found
"""
import pathlib
import re
import sys
import tempfile

BACKENDS = ["reference", "cpu", "cuda"]
IN_BACKENDS = [*BACKENDS, "mpi"]  # the others are folders of src/
MAY_INCLUDE = {
    "graph": [],
    "primitives": ["graph"],
    "linearize": ["graph"],
    "optimizer": ["graph"],
    "tensor": ["graph"],
    "eager": ["linearize"],
    **{name: ["optimizer", "eager", "tensor", "primitives"] for name in BACKENDS},
    "mpi": ["reference", "cpu"],
    "frontend": BACKENDS,
    "check": BACKENDS,
    "cli": ["frontend", "check"],
    "c": ["reference", "cpu"],
    "program": ["cpu"],  # headers of an earlier version, which forward to today's
}
# Module -> folder of it -> the other folders of it that this one may include.
INSIDE = {
    "cpu": {"schedule": [], "kernels": [], "matmul": ["kernels", "schedule"], "convolution": ["kernels", "matmul"],
            "fusion": ["kernels", "schedule"], "steps": ["fusion", "kernels", "matmul", "schedule"]},
    "cuda": {"kernels": [], "libraries": [], "rules": ["kernels"]},
}
# Headers directly in include/tidu/: the module of each (None: any module may include it, and it includes nothing). That of C is c.h.
OPT_IN = {"eigen": "tensor", "dlpack": "tensor", "boost_graph": "graph", "cuda": "cuda", "mpi": "mpi"}
ROOT_HEADERS = {"version": None, "c": "c", **OPT_IN}
THIRD_PARTY = re.compile(r"^(boost|nlohmann|Eigen|unsupported/Eigen|cuda|cublas|nvrtc|dnnl|oneapi|xbyak|mpi|nccl|cudnn|cblas|openblas|lapacke)")
# Modules in which a primitive is known by its traits or its record, never by its name as text.
BY_RECORD = ["linearize", "optimizer", "eager", "cpu"]
BY_NAME = re.compile(r'name(\(\))?\s*[!=]=\s*"|"\s*[!=]=\s*[\w.>()-]*name\b')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def closure():
    """Module -> every module that it may include, itself among them."""
    reach = {}
    for module in MAY_INCLUDE:
        seen, stack = set(), [module]
        while stack:
            at = stack.pop()
            if at not in seen:
                seen.add(at)
                stack.extend(MAY_INCLUDE[at])
        reach[module] = seen
    circles = [(a, b) for a in reach for b in reach[a] if a != b and a in reach[b]]
    assert not circles, f"MAY_INCLUDE has a circle through {circles[0]}"
    return reach


def module_of_public(path):
    """The module of <tidu/PATH>, None for a header that any module may include, "tidu.hpp" for the one of all modules."""
    parts = pathlib.PurePosixPath(path).parts
    if len(parts) > 1:
        return parts[0]
    stem = pathlib.PurePosixPath(path).stem
    return ROOT_HEADERS.get(stem, "tidu.hpp") if stem in ROOT_HEADERS else "tidu.hpp"


def folder_of(inside):
    """The folder of its module that a file lies in, if any; `inside` is its path in src/ or backends/."""
    return inside.parts[1] if len(inside.parts) > 2 else None


def findings(root):
    root, reach, found = pathlib.Path(root), closure(), []
    files = []
    for base in ("src", "backends", "include/tidu"):
        for path in sorted((root / base).rglob("*")):
            if path.suffix in (".cpp", ".hpp", ".h", ".cu", ".cuh"):
                files.append((base, path))
    for base, path in files:
        inside = path.relative_to(root / base)
        public = base == "include/tidu"
        if len(inside.parts) > 1:
            module = inside.parts[0]
            if module not in reach:
                found.append(f"{path.relative_to(root)}: {module} is not a module")
                continue
            home = "backends" if module in IN_BACKENDS else "src"
            if not public and base != home:
                found.append(f"{path.relative_to(root)}: {module} is a folder of {home}/")
                continue
            folder = None if public else folder_of(inside)
            if folder is not None and folder not in INSIDE.get(module, ()):
                found.append(f"{path.relative_to(root)}: {folder} is not a folder of {module}")
                continue
        elif public and inside.stem == "tidu":
            continue
        elif public and inside.stem in ROOT_HEADERS:
            module = ROOT_HEADERS[inside.stem]
        else:
            found.append(f"{path.relative_to(root)}: a header here is tidu.hpp or one of {', '.join(ROOT_HEADERS)}")
            continue
        opt_in = public and len(inside.parts) == 1 and inside.stem in OPT_IN
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if module in BY_RECORD and BY_NAME.search(line):
                found.append(f"{path.relative_to(root)}:{number}: {module} may not compare a primitive by its name as text")
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, name = match.groups()
            where = f"{path.relative_to(root)}:{number}"
            if name.startswith("tidu/"):
                target = module_of_public(name[len("tidu/"):])
            elif quote == '"':
                if public:
                    found.append(f'{where}: a public header includes "{name}", which is not installed')
                    continue
                beside = (path.parent / name).resolve()
                homes = [(root / home).resolve() for home in ("src", "backends")]
                local = next((at for at in (beside, *(home / name for home in homes)) if at.exists()), beside)
                home = next((home for home in homes if home in local.parents), None)
                if not local.exists() or home is None:
                    found.append(f'{where}: "{name}" is neither beside the file nor in src/ or backends/')
                    continue
                local = local.relative_to(home)
                target, target_folder = local.parts[0], folder_of(local)
                if target == module and None not in (folder, target_folder) and target_folder not in [folder, *INSIDE[module][folder]]:
                    found.append(f"{where}: {folder} may not include {target_folder} ({name})")
            else:
                if public and not opt_in and THIRD_PARTY.match(name):
                    found.append(f"{where}: a public header includes a third party's <{name}>")
                continue
            if target is not None and target not in reach.get(module, ()):
                found.append(f"{where}: {module or inside.stem} may not include {target} ({name})")
    return found


def self_test():
    planted = {  # file -> (its text, text of the finding, None for no finding)
        "include/tidu/graph/a.hpp": ("#include <vector>\n#include <tidu/version.hpp>\n", None),
        "include/tidu/linearize/l.hpp": ("#include <tidu/graph/a.hpp>\n", None),
        "include/tidu/eigen.hpp": ("#include <Eigen/Core>\n#include <tidu/tensor/t.hpp>\n", None),
        "include/tidu/version.hpp": ("#include <tidu/graph/a.hpp>\n", "version may not include graph"),
        "include/tidu/tensor/t.hpp": ('#include "t_impl.hpp"\n', "not installed"),
        "include/tidu/cpu/e.hpp": ("#  include <Eigen/Core>\n", "third party"),
        "src/graph/up.cpp": ("#include <tidu/linearize/l.hpp>\n", "graph may not include linearize"),
        "src/optimizer/side.cpp": ("#include <tidu/eager/e.hpp>\n", "optimizer may not include eager"),
        "src/optimizer/down.cpp": ("#include <tidu/cpu/schedule.hpp>\n", "optimizer may not include cpu"),
        "backends/cuda/s.cpp": ("#include <tidu/cpu/schedule.hpp>\n", "cuda may not include cpu"),
        "src/cli/old.cpp": ("#include <tidu/program/program.hpp>\n", "cli may not include program"),
        "src/eager/fine.cpp": ("#include <tidu/linearize/l.hpp>\n#include <tidu/graph/a.hpp>\n", None),
        "src/eager/tensor.cpp": ("#include <tidu/tensor/t.hpp>\n", "eager may not include tensor"),
        "backends/cpu/kernels.hpp": ("", None),
        "backends/cpu/k.cpp": ('#include "kernels.hpp"\n#include <Eigen/Core>\n#include <tidu/eager/e.hpp>\n', None),
        "backends/reference/r.cpp": ('#include "cpu/kernels.hpp"\n', "reference may not include cpu"),
        "backends/cpu/matmul/p.hpp": ('#include "cpu/kernels.hpp"\n#include "cpu/kernels/l.hpp"\n', None),
        "backends/cpu/kernels/l.hpp": ('#include "cpu/matmul/p.hpp"\n', "kernels may not include matmul"),
        "backends/cpu/odd/o.cpp": ("", "odd is not a folder of cpu"),
        "backends/cpu/all.cpp": ('#include "cpu/matmul/p.hpp"\n', None),
        "src/eager/name.cpp": ('bool f(Op op) { return op.name() == "add"; }\n', "may not compare a primitive by its name"),
        "src/check/name.cpp": ('bool f(Op op) { return op.name() == "add"; }\n', None),
        "src/check/c.cpp": ("#include <tidu/frontend/f.hpp>\n", "check may not include frontend"),
        "src/cli/c.cpp": ("#include <tidu/frontend/f.hpp>\n#include <tidu/check/c.hpp>\n", None),
        "src/cli/all.cpp": ("#include <tidu/tidu.hpp>\n", "may not include tidu.hpp"),
        "src/odd/o.cpp": ("", "not a module"),
        "src/cpu/misplaced.cpp": ("", "cpu is a folder of backends/"),
        "backends/graph/misplaced.cpp": ("", "graph is a folder of src/"),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, _) in planted.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = findings(folder)
    wrong = 0
    for name, (_, expected) in planted.items():
        said = [line for line in found if line.startswith(name)]
        right = not said if expected is None else len(said) == 1 and expected in said[0]
        if not right:
            print(f"self-test: of {name} expected {expected!r}, got {said}")
            wrong += 1
    print(f"self-test: {len(planted) - wrong} of {len(planted)} planted files judged rightly")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root = arguments[0] if arguments else pathlib.Path(__file__).resolve().parent.parent
    found = findings(root)
    print("\n".join(found) if found else "layers: nothing looks where it may not")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
