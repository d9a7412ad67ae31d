#!/usr/bin/env python3
"""Prints src/text/unicode_tables.c from the behavior of the package `tokenizers`.

The package uses several versions of Unicode: that of Rust for digits and lower case, older ones for punctuation, marks
and normalization forms, and that of Oniguruma for regular expressions. The tables contain these sets, or their difference
from utf8proc and PCRE2, so that ids are equal for every code point.

    print_unicode_tables.py >src/text/unicode_tables.c && clang-format -i src/text/unicode_tables.c
"""
import ctypes
import ctypes.util

from tokenizers import Regex, normalizers, pre_tokenizers

POINTS = [c for c in range(1, 0x110000) if not 0xD800 <= c <= 0xDFFF]
TEXT = "".join(map(chr, POINTS))
UTF8PROC = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
LIBC = ctypes.CDLL(None)


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(name, points, comment):
    print(f"/* {comment} */")
    spans = ", ".join("{0x%x, 0x%x}" % (a, b) for a, b in ranges(points))
    print(f"static const bo_span {name}[] = {{{spans}}};\n")


def matched(expression):
    words = pre_tokenizers.Split(Regex(expression), "removed", invert=True).pre_tokenize_str(TEXT)
    return {ord(c) for word, _ in words for c in word}


def removed(normalizer):
    return {c for c in POINTS if normalizer.normalize_str("a" + chr(c) + "b") == "ab"}


def utf8proc_form(text, options):
    data, out = text.encode(), ctypes.c_void_p()
    UTF8PROC.utf8proc_map.restype = ctypes.c_ssize_t
    size = UTF8PROC.utf8proc_map(data, ctypes.c_ssize_t(len(data)), ctypes.byref(out), options)
    result = ctypes.string_at(out, size).decode()
    LIBC.free(out)
    return result


def bert(**options):
    settings = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**settings, **options})


def print_classes():
    digits = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str("".join("a" + chr(c) for c in POINTS))
    table("NUMERIC", {ord(w) for w, _ in digits if len(w) == 1 and w != "a"}, "General category N.")
    kept = pre_tokenizers.Punctuation("removed").pre_tokenize_str(TEXT)
    table("PUNCTUATION", set(POINTS) - {ord(c) for w, _ in kept for c in w}, "ASCII punctuation and general category P.")
    table("MARK", removed(normalizers.StripAccents()), "General category M.")
    forms = normalizers.NFD()
    table("NONSPACING", {c for c in removed(bert(strip_accents=True)) if forms.normalize_str(chr(c)) == chr(c)},
          "General category Mn.")
    table("OTHER", removed(bert(clean_text=True)), "Removed by the BertNormalizer: category C and U+FFFD.")


def print_forms():
    """Code points whose normalization forms or combining classes are newer than the package."""
    stable, compose, decompose, compat = 2, 8, 16, 4
    newer = {0x11930, 0x11935, 0x11938}
    for form, options in ((normalizers.NFC(), compose), (normalizers.NFD(), decompose),
                          (normalizers.NFKC(), compose | compat), (normalizers.NFKD(), decompose | compat)):
        newer |= {c for c in POINTS if utf8proc_form(chr(c), stable | options) != form.normalize_str(chr(c))}
    for c in POINTS:
        for text in ("a\u0345" + chr(c), "a" + chr(c) + "\u0334"):
            if utf8proc_form(text, stable | decompose) != normalizers.NFD().normalize_str(text):
                newer.add(c)
    table("INERT", newer, "Normalization forms leave these unchanged; utf8proc would change or reorder them.")


def print_lower():
    lower = normalizers.Lowercase()
    pairs = []
    for c in POINTS:
        expected = lower.normalize_str(chr(c))
        if len(expected) == 1 and expected != chr(UTF8PROC.utf8proc_tolower(c)):
            pairs.append((c, ord(expected)))
    print("/* Lower case that utf8proc does not know. */")
    print("static const bo_case LOWER[] = {%s};\n" % ", ".join("{0x%x, 0x%x}" % p for p in pairs))


# Characters of old versions of Unicode, by bytes and general category. A stand-in has the category, and the number of
# bytes, of the character that it replaces while an expression is matched.
STAND_INS = {
    3: dict(Lu=0x1E00, Ll=0x1E01, Lm=0x0E46, Lo=0x16A0, Mn=0x20D0, Mc=0x0903, Nd=0x0966, No=0x2070, P=0x2016, S=0x2300,
            C=0x200B),
    4: dict(Lu=0x10400, Ll=0x10428, Lm=0x16B40, Lo=0x10280, Han=0x20000, Mn=0x1D167, Mc=0x1D165, Nd=0x104A0, No=0x10107,
            P=0x10100, S=0x1D100, C=0xE0001),
}


def print_late(version_14):
    kinds = {}
    for kind in ("C", "S", "P", "No", "Nd", "Mc", "Mn", "Lo", "Lm", "Ll", "Lu"):
        for c in matched(r"[\p{%s}&&[^\p{Cn}]]" % kind):
            kinds[c] = kind
    han = matched(r"\p{Han}")
    late = {}
    for c, kind in kinds.items():
        if version_14.get(c) != kind:
            late[c] = STAND_INS[len(chr(c).encode())]["Han" if c in han and kind == "Lo" else kind]
    late[0x180E] = 0x200B
    print("/* Stand-ins for code points that PCRE2 with Unicode 14 does not know, or whose category has changed. */")
    rows = []
    for c in sorted(late):
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == late[c]:
            rows[-1][1] = c
        else:
            rows.append([c, c, late[c]])
    print("static const bo_stand_in STAND_INS[] = {%s};\n" % ", ".join("{0x%x, 0x%x, 0x%x}" % tuple(r) for r in rows))


def unicode_14():
    import unicodedata
    assert unicodedata.unidata_version == "14.0.0", "run with a Python whose unicodedata is that of Unicode 14"
    out = {}
    for c in POINTS:
        category = unicodedata.category(chr(c))
        if category == "Cn":
            continue
        out[c] = category if category in ("No", "Nd", "Mc", "Mn", "Lo", "Lm", "Ll", "Lu") else category[0]
        if category in ("Lt", "Nl", "Me"):
            out[c] = category
        if category[0] in "Z":
            out[c] = None
    return out


FUNCTIONS = r"""#define COUNT(table) (sizeof(table) / sizeof *(table))

bool bo_char_in(bo_char_set set, uint32_t point)
{
    static const struct {
        const bo_span *spans;
        size_t count;
    } sets[BO_CHARS_COUNT] = {
        [BO_CHARS_NUMERIC] = {NUMERIC, COUNT(NUMERIC)},
        [BO_CHARS_PUNCTUATION] = {PUNCTUATION, COUNT(PUNCTUATION)},
        [BO_CHARS_MARK] = {MARK, COUNT(MARK)},
        [BO_CHARS_NONSPACING] = {NONSPACING, COUNT(NONSPACING)},
        [BO_CHARS_OTHER] = {OTHER, COUNT(OTHER)},
        [BO_CHARS_INERT] = {INERT, COUNT(INERT)},
    };
    size_t low = 0, high = sets[set].count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const bo_span *span = &sets[set].spans[middle];
        if (point < span->first)
            high = middle;
        else if (point > span->last)
            low = middle + 1;
        else
            return true;
    }
    return false;
}

uint32_t bo_char_lower(uint32_t point)
{
    for (size_t i = 0; i < COUNT(LOWER); ++i)
        if (LOWER[i].upper == point) return LOWER[i].lower;
    return 0;
}

uint32_t bo_char_stand_in(uint32_t point)
{
    size_t low = 0, high = COUNT(STAND_INS);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const bo_stand_in *entry = &STAND_INS[middle];
        if (point < entry->first)
            high = middle;
        else if (point > entry->last)
            low = middle + 1;
        else
            return entry->point;
    }
    return 0;
}
"""


def main():
    print("/* Sets of code points and replacements. Printed by tests/peers/print_unicode_tables.py; do not edit. */")
    print('#include "unicode_tables.h"\n')
    print_classes()
    print_forms()
    print_lower()
    print_late(unicode_14())
    print(FUNCTIONS, end="")


main()
