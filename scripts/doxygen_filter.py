#!/usr/bin/env python3
"""The input of Doxygen for a file. For a page: the page without links to headings, which Doxygen does not find. For a header: the
header with more comments than people need there, so that Doxygen's warnings show the declarations that need one. Line numbers stay.
Added are
- the head comment, as documentation of the file;
- a comment on declarations that need no explanation: copies, moves, comparisons, swaps, the members that make a class a container or
  a pointer as the standard library has them, accessors without arguments;
- if a comment stands above several declarations without an empty line between, the same comment on those that differ from
  the first in nothing but their name, or in all but their name (overloads, a try_ form).
All other declarations have a comment of their own, or are a warning.

usage: doxygen_filter.py FILE    to standard output
"""
import re
import sys

ACCESSOR = re.compile(r"^(virtual )?[\w:<>,&*() ]+?[ &*](\w+)\(\) (const|const&|noexcept|const noexcept)( override)?( = 0;|;| \{.*)$")
STANDARD = [
    (r".* = delete;$", "Deleted."),
    (r"^(explicit |constexpr )*(\w+)\(const \2& ?\w*\)", "Copies."),
    (r"^(explicit |constexpr )*(\w+)\(\2&& ?\w*\)", "Moves."),
    (r"^(\w+)& operator=\(", "Assigns."),
    (r"^friend .*\boperator(==|<=>)\(", "Compares."),
    (r"^friend void swap\(", "Exchanges the two."),
    (r"^explicit (constexpr )?operator bool\(", "Is there one?"),
    (r".*[ &*]operator(\*|->)\(\)", "The value."),
    (r".*[ &*]operator\[\]\(std::size_t \w+\)", "The element at that position."),
    (r".*[ &*](begin|end|data)\(\)( const)?( noexcept)? \{", "As of a standard container."),
    (r".*[ &*](push_back|emplace_back|resize|reserve)\(", "As of std::vector."),
]


def sentence(name):
    words = name.rstrip("_").split("_")
    if words[0] == "num":
        return "Number of " + " ".join(words[1:]) + "."
    if words[0] in ("is", "has"):
        return {"is": "Is it ", "has": "Has it "}[words[0]] + " ".join(words[1:]) + "?"
    return "The " + " ".join(words) + "."


def comment(line):
    """The comment that `line` needs none but this, or None."""
    for pattern, text in STANDARD:
        if re.match(pattern, line):
            return text
    accessor = ACCESSOR.match(line)
    return sentence(accessor.group(2)) if accessor and not line.startswith("return") else None


def head(lines):
    """The lines of a header's head comment as documentation of the file, in the place of it and of "#pragma once"."""
    end = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    words = [line.removeprefix("//").strip() for line in lines[:end]]
    words[0] = words[0].split(" - ", 1)[-1]
    if not words[0].split()[0].endswith(":"):
        words[0] = words[0][0].upper() + words[0][1:]
    return end, ["/** \\file\n"] + [word + "\n" for word in words[:-1]] + [words[-1] + " */\n"]


def forms(code):
    """The declaration of a line in two forms: the function's name without the suffix or prefix of its forms, and the line without that
    name. None for a line that declares neither a function nor a constant."""
    code = re.sub(r"^(template <.*?>|requires.*?) (?=\w)", "", code)
    function = re.match(r"^([^(=]*?[ *&])?(operator\W{1,3}|~?\w+)(\([^)]*)", code)
    if function and function.group(1) not in (None, "explicit ", "return "):
        return re.sub(r"^try_|_parts$", "", function.group(2)), (function.group(1), function.group(3))
    constant = re.match(r"^((inline constexpr|extern const) \w+) \w+", code)
    return ("", constant.group(1)) if constant else None


def one_each(line, words):
    """Constants that one declaration lists, each in a declaration with the comment of the list."""
    return re.sub(r",(?=\s+\w)|,$", f"; /** {words} */ extern const Primitive", line)


def page(text):
    """The page with links to files alone, and to Doxygen's list of pages instead of our index of them."""
    text = text.replace("(docs/README.md)", "(pages.html)")
    return re.sub(r"(\]\([^)#\s]+)#[^)\s]+\)", r"\1)", re.sub(r"\[([^]]*)\]\(#[^)]*\)", r"\1", text))


def main(path):
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    if path.endswith(".md"):
        sys.stdout.write(page("".join(lines)))
        return
    end, documentation = head(lines)
    sys.stdout.writelines(documentation)
    words, about, inside, listed = [], None, False, False  # the last comment; the declaration below it, by its forms
    for number, line in enumerate(lines[end + 1:], start=end + 1):
        code = line.strip()
        if code.startswith("///"):
            words = words + [code[3:].strip()] if about is None else [code[3:].strip()]
            about = None
        elif code and not inside:
            alone = code.startswith(("template <", "requires")) and code.endswith((">", ")"))
            declaration = lines[number + 1].strip() if alone else code
            declared = forms(declaration)
            listed = code.startswith("extern const Primitive")
            if words and about is None:
                about = declared or ()
            elif "///<" not in code:
                said = comment(declaration)
                if said is None and declared and about and any(a == b for a, b in zip(declared, about)):
                    said = " ".join(words)
                if said:
                    line = line.replace(code, f"/** {said} */ {code}", 1)
        if listed:
            line = one_each(line, " ".join(words))
        if not code:
            words, about = [], None
        statement = code.split("  //")[0].strip()
        inside = bool(code) and not code.startswith("//") and not statement.endswith((";", "}", "{", ":"))
        listed = listed and inside
        sys.stdout.write(line)


if __name__ == "__main__":
    main(sys.argv[1])
