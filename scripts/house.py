#!/usr/bin/env python3
"""Measures how easy the sources are to navigate, and prints a table: a row for each figure, with its goal.

Functions and classes are found by their braces in sources as clang-format lays them out; prose is the text of comments and of pages
under docs/, without code.

usage: house.py              prints the table; exit status 1 when a row that is held is beyond its goal
       house.py --list ROW   the items that a row counts, a line each, the largest first
       house.py --self-test  shows that the counts are right on a small example
"""
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = ("src", "backends", "include")
CONTROL = re.compile(r"^\s*(?:\}\s*)?(?:if|for|while|switch|catch|else|do|try|namespace|enum|union|extern)\b")
RECORD = re.compile(r"^\s*(?:template\s*<.*>\s*)?(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?(?:TIDU_\w+\s+)?(\w+)")
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)+\'')
FIRST_WORD = re.compile(r"(?:^|[.!?]\s+)(What|Where|Who|Of|Nor)\b")


def sources(root, folders=CODE):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".cpp", ".hpp", ".h", ".cu", ".cuh"):
                yield path


def plain(text):
    """The lines of a source without comments, string literals and macros that go on."""
    text = re.sub(r'R"(\w*)\((?:.|\n)*?\)\1"', lambda m: '""' + "\n" * m.group().count("\n"), text)
    lines, inside = [], False
    for line in text.split("\n"):
        if inside or line.lstrip().startswith("#"):
            inside = line.endswith("\\")
            lines.append("")
            continue
        lines.append(re.sub(r"//.*", "", LITERAL.sub('""', line)))
    return lines


def blocks(text):
    """(kind, name, first line, number of lines, kind of the enclosing block) of each function and record, from 1."""
    stack, head, found = [], "", []
    for number, line in enumerate(plain(text), 1):
        for part in re.findall(r"[{};]|[^{};]+", line):
            if part == "{":
                record = RECORD.match(head)
                if record and "(" not in head.split(record.group(1))[0] and not head.rstrip().endswith(")"):
                    kind, name = "record", record.group(1)
                elif CONTROL.match(head) or ")" not in head or re.search(r"[=,(]\s*$", head):
                    kind, name = "other", ""
                else:
                    name = (re.findall(r"([\w:~]+)\s*\(", head) or [""])[0]
                    kind = "function" if name else "other"  # a lambda, or the last part of a for
                stack.append((kind, name, number))
                head = ""
            elif part == "}":
                if stack:
                    kind, name, first = stack.pop()
                    outer = next((s for s in reversed(stack) if s[0] != "other"), ("", "", 0))
                    if kind != "other":
                        found.append((kind, name, first, number - first + 1, outer[0], outer[1]))
                head = ""
            elif part == ";":
                head = ""
            else:
                head += part
        head += " "
    return found


def prose(root):
    """Comments of sources and paragraphs of pages, as (where, text)."""
    for path in sources(root):
        texts, part = [], []
        for line in [*path.read_text(encoding="utf-8").split("\n"), ""]:
            match = re.match(r"\s*//[/<!]*\s?(.*)", line) or re.search(r"///<\s?(.*)", line)
            if match and not match.group(1).startswith("clang-format"):
                part.append(match.group(1))
            elif part:
                texts.append(" ".join(part))
                part = []
        for text in texts:
            yield f"comments of {path.relative_to(root).parts[0]}", text
    for path in sorted((root / "docs").glob("*.md")) + [root / "README.md"]:
        if not path.exists():
            continue
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
        for paragraph in re.split(r"\n\s*\n|\n(?=[-*|#] )|\n(?=\d+\. )", text):
            if paragraph.strip() and not paragraph.lstrip().startswith(("|", "#")):
                yield "docs", " ".join(paragraph.split())


def gauges(root):
    """Words per sentence of docs, occurrences of "what" per 1,000 words, share of sentences that begin with a word of FIRST_WORD."""
    words = whats = sentences = begins = doc_words = doc_sentences = 0
    for where, text in prose(root):
        text = re.sub(r"`[^`]*`", "x", text)
        in_text = re.findall(r"[A-Za-z][\w'-]*", text)
        ends = max(1, len(re.findall(r"[.!?](?:\s|$)", text)))
        words += len(in_text)
        sentences += ends
        whats += sum(word.lower() == "what" for word in in_text)
        begins += len(FIRST_WORD.findall(text))
        if where == "docs":
            doc_words += len(in_text)
            doc_sentences += ends
    return {"words of a sentence in docs": doc_words / max(1, doc_sentences), "'what' in 1,000 words": 1000 * whats / max(1, words),
            "% of sentences that begin with What, Where, Who, Of, Nor": 100 * begins / max(1, sentences)}


def circles(root):
    """Pairs of folders of src/ and backends/ that include each other."""
    arrows = set()
    for path in sources(root, ("src", "backends")):
        base = root / path.relative_to(root).parts[0]
        home = path.parent.relative_to(base).as_posix()
        for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(encoding="utf-8"), re.M):
            for folder in ("src", "backends"):
                if not name.startswith("tidu/") and (root / folder / name).exists():
                    there = pathlib.PurePosixPath(name).parent.as_posix()
                    if there != home and not home.startswith(there + "/") and not there.startswith(home + "/"):
                        arrows.add((home, there))
    return sorted(f"{a} <-> {b}" for a, b in arrows if (b, a) in arrows and a < b)


def lists(root):
    """Row -> the items that it counts, as (size, where)."""
    files, functions, places, cpu = [], [], [], []
    methods = {}  # by folder and class
    for path in sources(root):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
        number = text.count("\n")
        files.append((number, name))
        if name.startswith("backends/cpu/"):
            cpu.append((number, name))
        for kind, called, first, size, _, outer in blocks(text):
            if kind == "record":
                if called in ("Place", "Places"):
                    places.append((size, f"{name}:{first} {called}"))
                continue
            functions.append((size, f"{name}:{first} {called}"))
            owner = called.split("::")[-2] if "::" in called else outer
            if owner:
                key = f"{path.parent.relative_to(root).as_posix()} {owner}"
                methods[key] = methods.get(key, 0) + size
    return {"lines of backends/cpu": cpu, "files over 500 lines": [f for f in files if f[0] > 500],
            "functions over 80 lines": [f for f in functions if f[0] > 80],
            "classes with over 300 lines of methods": [(size, key) for key, size in methods.items() if size > 300],
            "structs called Place or Places": places, "circles between folders": [(1, c) for c in circles(root)]}


# Row -> (goal, is it held?). A row is held once its goal is reached.
GOALS = {"lines of backends/cpu": (24000, False), "files over 500 lines": (0, True), "functions over 80 lines": (5, True),
         "classes with over 300 lines of methods": (6, True), "structs called Place or Places": (0, True),
         "circles between folders": (0, True), "words of a sentence in docs": (20, True), "'what' in 1,000 words": (3, True),
         "% of sentences that begin with What, Where, Who, Of, Nor": (2, True)}


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "src" / "a").mkdir(parents=True)
        (root / "src" / "b").mkdir()
        body = "  int x = 0;\n" * 90
        (root / "src" / "a" / "a.cpp").write_text(
            '#include "b/b.hpp"\n// What is here? Of course.\nstruct Place {\n  int x;\n};\nint long_one(int y) {\n' + body + "}\n"
            "class Big {\n" + "".join(f"  int f{i}() const {{\n{body[:26 * 11]}  }}\n" for i in range(14)) + "};\n")
        (root / "src" / "a" / "a.hpp").write_text("struct Place;\nint f();\n")
        (root / "src" / "b" / "b.hpp").write_text('#include "a/a.hpp"\nconst char* text = "{ ( {";\n')
        found = lists(root)
        assert [w for _, w in found["functions over 80 lines"]] == ["src/a/a.cpp:6 long_one"], found
        assert [w for _, w in found["classes with over 300 lines of methods"]] == ["src/a Big"], found
        assert [w for _, w in found["structs called Place or Places"]] == ["src/a/a.cpp:3 Place"], found
        assert [w for _, w in found["circles between folders"]] == ["a <-> b"], found
        assert gauges(root)["% of sentences that begin with What, Where, Who, Of, Nor"] == 100


def main(arguments):
    if arguments == ["--self-test"]:
        self_test()
        return 0
    found = lists(ROOT)
    if arguments[:1] == ["--list"] and len(arguments) == 2:
        if arguments[1] not in found:
            print(f"house.py: expected a row that is a list, {', '.join(found)}; got {arguments[1]}", file=sys.stderr)
            return 2
        for size, where in sorted(found[arguments[1]], reverse=True):
            print(f"{size:6}  {where}")
        return 0
    if arguments:
        print(__doc__.split("usage: ")[1], file=sys.stderr)
        return 2
    table = {row: sum(s for s, _ in items) if row.startswith("lines") else len(items) for row, items in found.items()}
    table.update(gauges(ROOT))
    beyond = False
    for row, (goal, held) in GOALS.items():
        over = table[row] > goal
        beyond = beyond or (over and held)
        number = f"{table[row]:.1f}" if isinstance(table[row], float) else str(table[row])
        print(f"{row:58} {number:>8}  at most {goal:<6} {'beyond' if over else 'held' if held else 'reached'}")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
