#!/usr/bin/env python3
"""Keeps the blocks of code in README.md and docs/*.md true. The language of a block determines its check:

cpp      with a main function: a program, which is compiled and run. A block "output" right after it shows its output.
         After the comment <!-- compiled -->: declarations and definitions, which are compiled.
         Else lines of the .cpp or .hpp that was linked last before it; "// ..." stands for lines left out there.
c        a C99 program with a main function and a name, linked to tidu_c alone, compiled with warnings as errors and run, with its "output".
console  commands after "$ " with their output. They run in one folder per page, where tidu, examples/ and scripts/ are at hand.
sh       commands that are not run; their syntax is checked, and that scripts they call exist.
cmake    the lines of a project that uses tidu: such a project is configured.
json     valid JSON.
text     anything but C++.
python   a program of docs/python.md or README.md, and a block "output" after it: python/tests/test_docs.py runs these, with the package.

<!-- file: NAME --> before a block names it: messages of a program name that file, and other blocks find theirs in the page's folder.
In output a line "…" stands for any lines; floating numbers may differ by 1e-9 of their size, or by any amount if they are below
1e-6, and spaces may be more or fewer.

usage: docs.py check                       the checks that need no build, and that links lead somewhere
       docs.py generate FOLDER             a C++ file for each page, and one with a main function: docs_pages PAGE PROGRAM
       docs.py run DOCS_PAGES [--write]    runs programs and commands and compares; --write puts their output into the pages
                                           (CC, or cc, compiles those in C, with the tidu_c of the folder above)
       docs.py configure PREFIX            configures the projects, with tidu installed in PREFIX
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"cpp", "c", "output", "console", "sh", "cmake", "json", "text", "python"}
SOURCE_LINK = re.compile(r"\]\(([^)]+\.[ch]pp)\)")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.?\d*(?:e[-+]?\d+)?(?![\w])")


class Block:
    """A fenced block: lines [first, last) of the page are its text."""

    def __init__(self, page, lines, first, last, language, before):
        self.page, self.first, self.last, self.language = page, first, last, language
        self.text = "".join(lines[first:last])
        marks = re.findall(r"<!-- (.*?) -->\s*\Z", before)
        self.compiled = "compiled" in marks
        self.file = next((mark.removeprefix("file: ") for mark in marks if mark.startswith("file: ")), None)
        self.is_program = language == "cpp" and "int main()" in self.text
        self.is_c_program = language == "c"
        if self.is_program and self.file is None:
            self.file = f"{page.stem.lower()}_{first}.cpp"

    def place(self):
        return f"{self.page.relative_to(ROOT)}:{self.first + 1}"


def blocks_of(page):
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    blocks, start = [], None
    for number, line in enumerate(lines):
        if line.startswith("```"):
            if start is None:
                start = number
            else:
                before = "".join(lines[:start])
                blocks.append(Block(page, lines, start + 1, number, lines[start][3:].strip(), before))
                start = None
    return blocks


# --- check

def squeezed(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def find(part, whole, start):
    """Where `part` ends in `whole`, or None."""
    for at in range(start, len(whole) - len(part) + 1):
        if whole[at:at + len(part)] == part:
            return at + len(part)
    return None


def missing(text, source):
    """The first run of lines of `text` that `source` does not have, in their order; None when it has all."""
    whole, at, part = squeezed(source), 0, []
    for line in squeezed(text) + ["// ..."]:
        if line != "// ...":
            part.append(line)
            continue
        at = find(part, whole, at)
        if at is None:
            return part
        part = []
    return None


def excerpt_faults(block):
    text = block.page.read_text(encoding="utf-8").splitlines(keepends=True)
    links = SOURCE_LINK.findall("".join(text[:block.first]))
    if not links:
        return "expected a main function, a link to the file that this is part of, or <!-- compiled -->"
    part = missing(block.text, (block.page.parent / links[-1]).read_text(encoding="utf-8"))
    return None if part is None else "\n  ".join([f"{links[-1]} does not have these lines:", *part])


def json_faults(block):
    try:
        json.loads(block.text)
    except ValueError as error:
        return str(error)
    return None


def sh_faults(block):
    checked = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
    if checked.returncode != 0:
        return checked.stderr.strip()
    absent = [name for name in re.findall(r"(?<![\w/])(?:scripts|bench)/[\w/.]+", block.text) if not (ROOT / name).exists()]
    return f"there is no {absent[0]}" if absent else None


def text_faults(block):
    if re.search(r"^\s*#include\b|;\s*(?://.*)?$", block.text, re.MULTILINE):
        return "expected C++ to be a block of cpp, which is compiled, got it as text"
    return None


def block_faults(block):
    if block.language not in LANGUAGES:
        return f'expected one of {", ".join(sorted(LANGUAGES))} as language, got "{block.language}"'
    if block.language == "cpp" and not block.is_program and not block.compiled:
        return excerpt_faults(block)
    if block.is_c_program and ("int main(void)" not in block.text or not (block.file or "").endswith(".c")):
        return "expected a program in C with int main(void) and a name <!-- file: NAME.c -->"
    return {"json": json_faults, "sh": sh_faults, "text": text_faults}.get(block.language, lambda block: None)(block)


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def link_faults(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if path.startswith(("https:", "http:")):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{page.relative_to(ROOT)}: the link {link} leads nowhere"
        elif anchor and anchor not in anchors(target):
            yield f"{page.relative_to(ROOT)}: the link {link} leads to a heading that there is not"


def check():
    faults = []
    for page in PAGES:
        for block in blocks_of(page):
            fault = block_faults(block)
            if fault:
                faults.append(f"{block.place()}: {fault}")
        faults += link_faults(page)
    return faults


# --- generate

def page_source(page, blocks):
    """Every block in a namespace of its own, behind the #include lines of all."""
    includes, bodies, cases = set(), [], []
    for number, block in enumerate(blocks):
        name = f"{page.stem.lower()}_{number}"
        lines = block.text.splitlines()
        includes |= {line for line in lines if line.startswith("#include")}
        body = "\n".join("" if line.startswith("#include") else line.replace("int main()", "void main_()") for line in lines)
        bodies.append(f'namespace {name} {{\n#line 1 "{block.file or block.place()}"\n{body}\n}}  // namespace {name}\n')
        if block.is_program:
            cases.append(f'  if (program == "{block.file}") return {name}::main_(), 0;\n')
    includes |= {"#include <string_view>", "#include <tidu/tidu.hpp>"}
    return ("\n".join(sorted(includes)) + "\n\n" + "\n".join(bodies)
            + f'#line 1 "{page.stem.lower()}_run"\nint run_{page.stem.lower()}(std::string_view program);\n'
            + f"int run_{page.stem.lower()}([[maybe_unused]] std::string_view program) {{\n"
            + "".join(cases) + "  return 2;\n}\n")


def main_source(pages):
    names = [page.stem.lower() for page in pages]
    return ("#include <string_view>\n\n" + "".join(f"int run_{name}(std::string_view program);\n" for name in names)
            + "\nint main(int count, char** arguments) {\n  if (count != 3) return 2;\n  const std::string_view page = arguments[1];\n"
            + "".join(f'  if (page == "{name}") return run_{name}(arguments[2]);\n' for name in names) + "  return 2;\n}\n")


def generate(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    sources = {}
    for page in PAGES:
        blocks = [block for block in blocks_of(page) if block.is_program or block.compiled]
        if blocks:
            sources[page] = page_source(page, blocks)
    files = {f"{page.stem.lower()}.cpp": text for page, text in sources.items()} | {"main.cpp": main_source(sources)}
    for path in folder.glob("*.cpp"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return []


# --- run

def same_number(a, b):
    if a == b:
        return True
    if not re.search(r"[.e]", a + b):
        return False
    x, y = float(a), float(b)
    return abs(x - y) <= 1e-9 * max(abs(x), abs(y)) or max(abs(x), abs(y)) < 1e-6


def same_line(expected, got):
    words, got_words = (re.sub(r"\s+", " ", " ".join(NUMBER.split(line))) for line in (expected, got))
    if words != got_words:
        return False
    return all(same_number(a, b) for a, b in zip(NUMBER.findall(expected), NUMBER.findall(got)))


def agrees(expected, got):
    """Are these the lines, "…" standing for any?"""
    if not expected:
        return not got
    if expected[0].strip() == "…":
        return any(agrees(expected[1:], got[at:]) for at in range(len(got) + 1))
    return bool(got) and same_line(expected[0], got[0]) and agrees(expected[1:], got[1:])


def printed(command, folder, bin_folder, shell=False):
    environment = dict(os.environ, PATH=f"{bin_folder}:{os.environ['PATH']}", LC_ALL="C.UTF-8")
    done = subprocess.run(command, shell=shell, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, encoding="utf-8", timeout=300)
    return [line.rstrip() for line in done.stdout.splitlines()], done.returncode


def console(block, folder, bin_folder):
    """The expected text of the block, and whether it agrees."""
    commands = []  # each with the lines below it
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append((line, []))
        else:
            commands[-1][1].append(line)
    lines, same = [], True
    for command, wanted in commands:
        got, _ = printed(command[2:], folder, bin_folder, shell=True)
        right = agrees(wanted, got)
        lines += [command, *(wanted if right else got)]
        same = same and right
    return lines, same


C_FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]


def c_program(block, folder, libraries):
    """The program's output, and its exit status; the compiler's if it is not compiled."""
    source = folder / block.file
    source.write_text(block.text, encoding="utf-8")
    command = [os.environ.get("CC", "cc"), *C_FLAGS, str(source), "-I", str(ROOT / "include"), "-L", str(libraries), "-ltidu_c",
               f"-Wl,-rpath,{libraries}", "-o", str(source.with_suffix(""))]
    got, status = printed(command, folder, libraries)
    return (got, status) if status != 0 else printed([str(source.with_suffix(""))], folder, libraries)


def run_page(page, docs_pages, folder):
    """For each block that shows output: the block, its expected text, and a fault or None."""
    for name in ("examples", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    program = None
    language = None
    for block in blocks_of(page):
        before, language = language, block.language
        if before == "python" and block.language == "output":
            continue
        if block.is_program or block.is_c_program:
            got, status = (c_program(block, folder, docs_pages.parent.parent) if block.is_c_program else
                           printed([docs_pages, page.stem.lower(), block.file], folder, docs_pages.parent))
            program = (block, got)
            if status != 0:
                yield block, None, "\n  ".join([f"{block.file} ends with status {status}:", *got])
        elif block.language == "output":
            if program is None:
                yield block, None, "expected a program before what it prints"
                continue
            wanted = [line.rstrip() for line in block.text.splitlines()]
            fault = None if agrees(wanted, program[1]) else "\n  ".join([f"{program[0].file} prints:", *program[1]])
            yield block, program[1], fault
        elif block.language == "console":
            lines, same = console(block, folder, docs_pages.parent)
            yield block, lines, None if same else "\n  ".join(["this is printed:", *lines])
        elif block.file is not None:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def run(docs_pages, write):
    docs_pages, faults = pathlib.Path(docs_pages).resolve(), []
    for page in PAGES:
        changes = []
        with tempfile.TemporaryDirectory() as folder:
            for block, lines, fault in run_page(page, docs_pages, pathlib.Path(folder)):
                if fault and write and lines is not None:
                    changes.append((block, lines))
                elif fault:
                    faults.append(f"{block.place()}: {fault}")
        text = page.read_text(encoding="utf-8").splitlines(keepends=True)
        for block, lines in reversed(changes):
            text[block.first:block.last] = [line + "\n" for line in lines]
        if changes:
            page.write_text("".join(text), encoding="utf-8")
    return faults


# --- configure

def configure(prefix):
    faults = []
    for page in PAGES:
        for block in blocks_of(page):
            if block.language != "cmake":
                continue
            project = block.text
            if "project(" not in project:
                targets = sorted(set(re.findall(r"target_link_libraries\((\w+)", project)))
                made = "".join(f"add_executable({target} main.cpp)\n" for target in targets)
                project = f"cmake_minimum_required(VERSION 3.25)\nproject(page LANGUAGES CXX)\n{made}{project}"
            with tempfile.TemporaryDirectory() as folder:
                pathlib.Path(folder, "main.cpp").write_text("", encoding="utf-8")
                pathlib.Path(folder, "CMakeLists.txt").write_text(project, encoding="utf-8")
                lines, status = printed(["cmake", "-S", folder, "-B", f"{folder}/build", f"-DCMAKE_PREFIX_PATH={prefix}"], folder, "")
                if status != 0:
                    faults.append("\n  ".join([f"{block.place()}: cmake fails:", *lines]))
    return faults


def main(arguments):
    commands = {("check", 0): check, ("generate", 1): generate, ("configure", 1): configure,
                ("run", 1): lambda pages: run(pages, False), ("run", 2): lambda pages, _: run(pages, True)}
    command = commands.get((arguments[0], len(arguments) - 1)) if arguments else None
    if command is None or (len(arguments) == 3 and arguments[2] != "--write"):
        print(__doc__)
        return 2
    faults = command(*arguments[1:])
    print(*faults, sep="\n", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
