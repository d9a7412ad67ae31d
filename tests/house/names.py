"""names.py GLOSSARY FILE...: no identifier of a C, C++, CUDA or Python file contains a word of the glossary's table
"Words in identifiers". Words are the parts between underscores; an identifier in the column "allowed" may contain one, and so
may a line with the comment "former name"."""
import re
import sys

SKIPPED = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | (?<![\w'])u?L?"(?:\\.|[^"\\\n])*" | (?<!\w)'(?:\\.|[^'\\\n])+'""", re.S | re.X)
SKIPPED_PYTHON = re.compile(
    r'''[rbfRBF]{0,2}("""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\') | \#[^\n]*
    | [rbfRBF]{0,2}"(?:\\.|[^"\\\n])*" | [rbfRBF]{0,2}'(?:\\.|[^'\\\n])*' ''', re.S | re.X)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def rules(glossary):
    """{word: (what to write, allowed identifiers)} of the rows of the table."""
    with open(glossary, encoding="utf-8") as file:
        section = file.read().split("\n## Words in identifiers\n")[1].split("\n## ")[0]
    table = {}
    for row in re.findall(r"^\|( `.*)\|$", section, re.M):
        words, write, allowed = (cell.strip() for cell in row.split("|"))
        for word in re.findall(r"`(\w+)`", words):
            table[word] = write, [re.compile(name.replace("*", r"\w*"), re.I) for name in re.findall(r"`([\w*]+)`", allowed)]
    assert len(table) > 20, "the table of the glossary was not found"
    return table


def main():
    table, failed = rules(sys.argv[1]), 0
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        skipped = SKIPPED_PYTHON if path.endswith(".py") else SKIPPED
        former = {number for number, line in enumerate(text.split("\n"), 1) if "former name" in line}
        text = skipped.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
        for match in IDENTIFIER.finditer(text):
            for word in match[0].lower().split("_"):
                if word in table and not any(allowed.fullmatch(match[0]) for allowed in table[word][1]):
                    line = text.count("\n", 0, match.start()) + 1
                    if line in former:
                        continue
                    failed += 1
                    if failed <= 40:
                        print(f"{path}:{line}: {match[0]}: in place of \"{word}\" write {table[word][0]}", file=sys.stderr)
    if failed:
        print(f"{failed} identifiers with words that docs/reference/glossary.md replaces", file=sys.stderr)
    sys.exit(failed > 0)


main()
