"""Writes the ctypes declarations of libbochner from its public headers.

    python3 python/bindings.py OUTPUT [--cc CC]

The headers are the only source of the declarations: every public struct, enumerator, callback and function is
translated, including experimental ones. A member whose name is a keyword of Python gets an underscore: `lambda_`. The
preprocessor expands the headers first, so that a list of plain typedefs and prototypes remains. An unknown declaration
stops the program. tests/python checks the sizes and offsets of the structs against tests/house/layout.txt.
"""

import argparse
import keyword
import pathlib
import re
import subprocess
import sys
from typing import NoReturn

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include"
MARK = '__attribute__((visibility("default")))'

# C type -> (ctypes type, Python type of a struct member)
SCALARS = {
    "void": ("None", "None"),
    "bool": ("c_bool", "bool"),
    "_Bool": ("c_bool", "bool"),
    "char": ("c_char", "builtins.bytes"),
    "int": ("c_int", "int"),
    "unsigned": ("c_uint", "int"),
    "unsigned int": ("c_uint", "int"),
    "size_t": ("c_size_t", "int"),
    "int8_t": ("c_int8", "int"),
    "uint8_t": ("c_uint8", "int"),
    "int32_t": ("c_int32", "int"),
    "uint32_t": ("c_uint32", "int"),
    "int64_t": ("c_int64", "int"),
    "uint64_t": ("c_uint64", "int"),
    "float": ("c_float", "float"),
    "double": ("c_double", "float"),
}


def fail(text: str) -> NoReturn:
    sys.exit(f"bindings.py: unknown declaration: {text}")


def preprocess(cc: str) -> str:
    command = [*cc.split(), "-E", "-P", "-DBO_EXPERIMENTAL", f"-I{INCLUDE}", str(INCLUDE / "bochner" / "bochner.h")]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def statements(text: str) -> list[str]:
    """The top-level declarations, with single spaces and without semicolons. Inline functions are omitted:
    the library does not export them."""
    found, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if character == "}" and depth == 0 and text[start:at].lstrip().startswith("static inline"):
            start = at + 1
        if character == ";" and depth == 0:
            found.append(" ".join(text[start:at].split()))
            start = at + 1
    return found


class Translator:
    def __init__(self) -> None:
        self.enums: set[str] = set()
        self.structs: set[str] = set()
        self.callbacks: set[str] = set()
        self.lines: list[str] = []
        self.functions: list[str] = []

    def type_of(self, c_type: str, place: str) -> tuple[str, str]:
        """The ctypes type of a C type and the Python type of such a member. `place`: member, argument, result."""
        plain = re.sub(r"\b(const|struct|enum)\b", "", c_type).replace(" ", "")
        if plain == "char*":
            return "c_char_p", "builtins.bytes | None"
        if plain.endswith("*"):
            target = plain[:-1]
            if place != "argument" and target in self.structs:
                return f"POINTER({target})", f"_Pointer[{target}] | None"
            return "c_void_p", "int | None"
        if " ".join(c_type.replace("const", "").split()) in SCALARS:
            return SCALARS[" ".join(c_type.replace("const", "").split())]
        if plain in self.enums:
            return "c_int", "int"
        if plain in self.structs:
            return plain, plain
        if plain in self.callbacks:
            return plain, "Any"
        fail(c_type)

    def declarator(self, text: str, place: str) -> tuple[str, str, str]:
        """Name, ctypes type and Python type of "const float *x" or "uint64_t reserved[4]"."""
        match = re.fullmatch(r"(.*?[\s*])([A-Za-z_]\w*)((?:\[\w*\])*)", text.strip())
        if not match:
            fail(text)
        c_type, name, array = match.group(1).strip(), match.group(2), match.group(3)
        if array and place == "argument":
            return name, "c_void_p", "int | None"
        kind, hint = self.type_of(c_type, place)
        for length in re.findall(r"\[(\d+)\]", array):
            kind, hint = f"{kind} * {length}", "Array[Any]"
        return name, kind, hint

    def arguments(self, text: str, place: str) -> list[str]:
        parts = [part.strip() for part in text.split(",")]
        if parts == ["void"]:
            return []
        if "..." in parts:
            parts = parts[: parts.index("...")]
        return [self.declarator(part, place)[1] for part in parts]

    def enum(self, name: str, body: str) -> None:
        self.enums.add(name)
        self.lines.append(f"# enum {name}")
        following = 0
        for part in filter(None, (part.strip() for part in body.split(","))):
            constant, _, value = (item.strip() for item in part.partition("="))
            following = eval(value, {"__builtins__": {}}) if value else following
            self.lines.append(f"{constant} = {following}")
            following += 1
        self.lines.append("")

    def callback(self, name: str, result: str, arguments: str) -> None:
        kinds = [self.type_of(result, "result")[0], *self.arguments(arguments, "callback")]
        self.callbacks.add(name)
        self.lines += [f"{name} = CFUNCTYPE({', '.join(kinds)})", ""]

    def struct(self, name: str, body: str) -> None:
        members = []
        for text in filter(None, (text.strip() for text in body.split(";"))):
            pointer = re.fullmatch(r"(.+?)\(\*\s*(\w+)\)\((.*)\)", text)
            if pointer:
                self.callback(f"{name}_{pointer.group(2)}", pointer.group(1).strip(), pointer.group(3))
                kind = f"{name}_{pointer.group(2)}"
                members.append((pointer.group(2), kind, "Any"))
                continue
            first, *rest = text.split(",")
            members.append(self.declarator(first, "member"))
            base = re.match(r"(?:const )?(?:struct )?\w+ ", first)
            members += [self.declarator(f"{base.group(0) if base else fail(text)}{other.strip()}", "member") for other in rest]
        self.structs.add(name)
        members = [(member + "_" * keyword.iskeyword(member), kind, hint) for member, kind, hint in members]
        self.lines.append(f"class {name}(Structure):")
        self.lines += [f"    {member}: {hint}" for member, _, hint in members]
        self.lines.append("    _fields_ = [")
        self.lines += [f'        ("{member}", {kind}),' for member, kind, _ in members]
        self.lines += ["    ]", ""]

    def function(self, text: str) -> None:
        match = re.fullmatch(r"(.*?[\s*])(bo_\w+)\((.*)\)", text)
        if not match:
            fail(text)
        result, name, arguments = match.groups()
        kinds = self.arguments(arguments, "argument")
        returned = "bo_status" if result.strip() == "bo_status" else self.type_of(result.strip(), "result")[0]
        if returned == "c_char_p" and "const" not in result:
            returned = "c_void_p"  # the caller frees it
        self.functions.append(f'    "{name}": ({returned}, ({"".join(kind + ", " for kind in kinds)})),')

    def translate(self, text: str) -> None:
        for statement in statements(text):
            if MARK in statement:
                clean = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", statement)
                self.function(" ".join(clean.split()))
            elif match := re.fullmatch(r"typedef enum \w+ \{(.*)\} (bo_\w+)", statement):
                self.enum(match.group(2), match.group(1))
            elif match := re.fullmatch(r"(?:typedef )?struct (bo_\w+) \{(.*)\}(?: bo_\w+)?", statement):
                self.struct(match.group(1), match.group(2))
            elif match := re.fullmatch(r"typedef (.*?)\(\*(bo_\w+)\)\((.*)\)", statement):
                self.callback(match.group(2), match.group(1).strip(), match.group(3))
            elif match := re.fullmatch(r"typedef (\w+) (bo_\w+)", statement):
                SCALARS[match.group(2)] = SCALARS[match.group(1)]
            elif "bo_" in statement and not re.fullmatch(r"typedef struct bo_\w+ bo_\w+", statement):
                fail(statement)

    def module(self) -> str:
        return "\n".join(
            [
                '"""The declarations of libbochner for ctypes. Generated from the public headers by python/bindings.py."""',
                "",
                "from __future__ import annotations",
                "",
                "import builtins",
                "from ctypes import (",
                "    CFUNCTYPE, POINTER, Array, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int8, c_int32,",
                "    c_int64, c_size_t, c_uint, c_uint8, c_uint32, c_uint64, c_void_p,",
                ")",
                "from typing import TYPE_CHECKING, Any",
                "",
                "if TYPE_CHECKING:",
                "    from ctypes import _Pointer",
                "",
                "class bo_status:",
                '    """The result of a function that can fail: an int, which the library link checks."""',
                "",
                *self.lines,
                "# The result and the arguments of every function. Pointers are addresses.",
                "FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {",
                *self.functions,
                "}",
                "",
            ]
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the ctypes declarations of libbochner.")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--cc", default="cc", help="the C compiler (default: cc)")
    options = parser.parse_args()
    translator = Translator()
    translator.translate(preprocess(options.cc))
    options.output.write_text(translator.module(), encoding="utf-8")


if __name__ == "__main__":
    main()
