"""Chat templates compared with apply_chat_template of transformers, or with jinja2 in the same environment.

Published templates (tests/data/chat) render many conversations, and random templates of the supported grammar render
random variables. Every text must be equal, and what one side refuses the other must refuse too; a construct outside of the
subset may be refused by Bochner alone.

  BOCHNER=build/bochner BOCHNER_SOURCE=. python3 tests/peers/test_chat_templates.py [--templates N] [--seed N]
  … --folder DIR        also compare all *.jinja of a folder, and say which are not supported
  … --write FILE        write the cases of the published templates for tests/text/test_chat.c
"""
import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BOCHNER = os.environ.get("BOCHNER", "build/bochner")
SOURCE = os.environ.get("BOCHNER_SOURCE", ".")
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


# ---- the oracle ------------------------------------------------------------------------------------------------------


def same_environment():
    """The environment of transformers, for when it is not installed."""

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

        def _body(self, caller):
            return caller()

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: __import__("datetime").datetime.now().strftime(form)
    return environment


def make_tokenizer():
    """A tokenizer of transformers with the special tokens; None if the package is not installed."""
    try:
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast
    except ImportError:
        return None
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), **TOKENS)


TOKENIZER = make_tokenizer()
ENVIRONMENT = same_environment()


def oracle(template, variables):
    """(text, None), or (None, the error)."""
    try:
        if TOKENIZER is not None and isinstance(variables.get("messages"), list) and variables["messages"]:
            more = {k: v for k, v in variables.items() if k not in ("messages", "add_generation_prompt", "tools")}
            text = TOKENIZER.apply_chat_template(
                variables["messages"],
                chat_template=template,
                tokenize=False,
                add_generation_prompt=variables.get("add_generation_prompt", True),
                tools=variables.get("tools"),
                **more,
            )
        else:
            every = {"add_generation_prompt": True, "tools": None, "documents": None, **TOKENS, **variables}
            text = ENVIRONMENT.from_string(template).render(**every)
        text.encode("utf-8")
        return text, None
    except Exception as error:  # any error of Python is a refusal
        return None, f"{type(error).__name__}: {error}"


def bochner(folder, template, cases):
    """The results of all cases: {"text"} or {"error"}."""
    path = os.path.join(folder, "t.jinja")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(template)
    lines = "\n".join(json.dumps(case) for case in cases)
    run = subprocess.run(
        [BOCHNER, "chat", folder, "--template", path, "--render", "--json", "--quiet"],
        input=lines.encode(),
        capture_output=True,
        timeout=60,
    )
    if run.returncode not in (0, 1):
        raise SystemExit(f"bochner ended with {run.returncode}: {run.stderr.decode()[-2000:]}\n{template}")
    results = [json.loads(line) for line in run.stdout.decode().splitlines()]
    if not results and run.returncode == 1:
        return [{"error": run.stderr.decode().strip()}] * len(cases)
    if len(results) != len(cases):
        raise SystemExit(f"{len(cases)} cases, {len(results)} results: {run.stderr.decode()[-2000:]}")
    return results


FAILED = []


def compare(name, template, case, result, strict):
    """Strict: a refusal of Bochner alone is a difference too. Returns what happened."""
    text, error = oracle(template, case)
    if "text" in result and text == result["text"]:
        return "equal"
    if "error" in result and text is None:
        return "both refuse"
    if "error" in result and "not supported" in result["error"] and not strict:
        return "not supported"
    FAILED.append((name, template, case, text, error, result))
    return "different"


# ---- published templates ---------------------------------------------------------------------------------------------


def conversations():
    """Conversations with odd contents, roles and orders."""
    contents = [
        "Hello",
        "",
        "  spaces around  ",
        "\n\nlines\n\n",
        "naïve 東京 🙂 \u00a0\u3000",
        "<|im_end|>{{ x }}{% if %}",
        "a'b\"c\\d\te",
        "<think>\nso\n</think>\n\nyes",
    ]
    system = {"role": "system", "content": "Be brief."}
    for content in contents:
        yield [{"role": "user", "content": content}]
        yield [system, {"role": "user", "content": content}]
        yield [{"role": "system", "content": content}, {"role": "user", "content": "Hi"}]
        yield [
            {"role": "user", "content": "1"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": content},
        ]
    long = [{"role": ("user", "assistant")[i % 2], "content": f"turn {i}"} for i in range(9)]
    yield long
    yield [system] + long
    yield long[:8]
    for roles in itertools.product(("system", "user", "assistant", "tool"), repeat=2):
        yield [{"role": role, "content": f" {role} "} for role in roles]
    yield [{"role": "Narrator", "content": "x"}, {"role": "user", "content": "y"}]


def published_cases():
    return [
        {"messages": messages, "add_generation_prompt": prompt}
        for messages in conversations()
        for prompt in (False, True)
    ]


def check_published(folder, write):
    base = os.path.join(SOURCE, "tests", "data", "chat")
    names = sorted(name[:-6] for name in os.listdir(base) if name.endswith(".jinja"))
    if len(names) < 9:
        raise SystemExit(f"{base}: expected the published templates, found {names}")
    cases, counts, lines = published_cases(), {}, []
    for name in names:
        with open(os.path.join(base, name + ".jinja"), encoding="utf-8", newline="") as file:
            template = file.read()
        for index, (case, result) in enumerate(zip(cases, bochner(folder, template, cases))):
            outcome = compare(name, template, case, result, strict=True)
            counts[outcome] = counts.get(outcome, 0) + 1
            if write and index % 3 == 0:
                text, _ = oracle(template, case)
                lines.append(json.dumps({"template": name, **case, "text": text}))
    if write:
        with open(write, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    print(f"{len(names)} published templates, {len(cases)} conversations each: {counts}")


# ---- random templates ------------------------------------------------------------------------------------------------


class Grammar:
    """Random templates of the subset."""

    words = ["a", "Ab c", " x ", "", "\\n", "it's", "é東", "-", "1", "12.5", "x,y,,z", "user"]
    names = ["messages", "n", "f", "s", "t", "xs", "d", "flag", "nothing", "missing", "v", "w"]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *choices):
        return self.random.choice(choices)

    def string(self):
        return '"' + self.random.choice(self.words).replace('"', "") + '"'

    def number(self):
        return self.pick("0", "1", "2", "3", "7", "10", "100", "1.5", "0.25", "2.0", "1e3")

    def atom(self, depth):
        return self.pick(
            lambda: self.random.choice(self.names),
            lambda: self.random.choice(self.names),
            self.string,
            self.number,
            lambda: self.pick("true", "false", "none"),
            lambda: "(" + self.expression(depth - 1) + ")",
            lambda: "[" + ", ".join(self.expression(depth - 1) for _ in range(self.random.randrange(3))) + "]",
            lambda: "{" + self.string() + ": " + self.expression(depth - 1) + "}",
            lambda: "(" + self.expression(depth - 1) + ", " + self.expression(depth - 1) + ")",
        )()

    def postfix(self, depth):
        text = self.atom(depth)
        for _ in range(self.random.choice((0, 0, 0, 1, 1, 2))):
            text += self.pick(
                lambda: self.pick(".role", ".content", ".a", ".b"),
                lambda: "[" + self.pick("0", "-1", "1", "'role'", "'a'", "n", "s") + "]",
                lambda: "["
                + self.pick("", "1", "-2")
                + ":"
                + self.pick("", "1", "-1", "5")
                + self.pick("", ":2", ":-1", ":-2", ":")
                + "]",
                lambda: self.method(depth),
            )()
        return text

    def method(self, depth):
        return self.pick(
            lambda: ".strip()",
            lambda: ".strip(" + self.string() + ")",
            lambda: self.pick(".lstrip", ".rstrip") + "(" + self.pick("", "'x'", "'\\n '") + ")",
            lambda: self.pick(".startswith", ".endswith") + "(" + self.string() + ")",
            lambda: ".split(" + self.pick("", "','", "' '", "'x'", "',', 1") + ")",
            lambda: ".rsplit(" + self.pick("','", "',', 1") + ")",
            lambda: ".replace(" + self.string() + ", " + self.string() + ")",
            lambda: self.pick(".upper()", ".lower()", ".title()", ".capitalize()", ".splitlines()"),
            lambda: ".join(xs)",
            lambda: ".find(" + self.string() + ")",
            lambda: ".rfind(" + self.string() + ")",
            lambda: ".count(" + self.string() + ")",
            lambda: self.pick(".removeprefix", ".removesuffix") + "(" + self.string() + ")",
            lambda: self.pick(".items()", ".keys()", ".values()"),
            lambda: ".get(" + self.pick("'a'", "'zz'", "'zz', 3", "n") + ")",
        )()

    def filtered(self, depth):
        text = self.postfix(depth)
        for _ in range(self.random.choice((0, 0, 0, 0, 1, 1, 2))):
            text += " | " + self.pick(
                lambda: self.pick("trim", "length", "upper", "lower", "title", "capitalize", "string", "list"),
                lambda: self.pick("first", "last", "int", "float", "abs", "count", "reverse", "items"),
                lambda: "reverse | list",
                lambda: "join(" + self.pick("", "','", "n", "', ', attribute='a'") + ")",
                lambda: self.pick("default", "d") + "(" + self.pick("", "'dd'", "'dd', true", "boolean=true") + ")",
                lambda: "tojson" + self.pick("", "(indent=2)", "(sort_keys=true)", "(separators=(',', ':'))"),
                lambda: "replace(" + self.string() + ", " + self.string() + ")",
                lambda: "selectattr('role', 'equalto', 'user') | list",
                lambda: self.pick("selectattr('a')", "rejectattr('a')") + " | list",
                lambda: "map(attribute='role') | list",
                lambda: "map('upper') | join('+')",
                lambda: self.pick("select", "reject") + "(" + self.pick("", "'string'", "'odd'") + ") | list",
                lambda: "dictsort",
                lambda: "sort",
                lambda: "sort(reverse=true)",
                lambda: "indent" + self.pick("", "(2)", "(2, true)", "(1, first=true, blank=true)"),
            )()
        if self.random.random() < 0.15:
            text += " is " + self.pick("", "not ") + self.pick(
                "defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "integer",
                "float", "boolean", "true", "false", "odd", "even", "divisibleby 3", "divisibleby(2)", "eq 1",
                "equalto('a')", "in xs", "lt 3", "ge(2)", "ne none", "callable",
            )
        return text

    def expression(self, depth):
        if depth <= 0:
            return self.pick(*self.names[:8], self.string(), self.number())
        return self.pick(
            lambda: self.filtered(depth),
            lambda: self.filtered(depth),
            lambda: self.filtered(depth),
            lambda: self.filtered(depth - 1)
            + self.pick(" + ", " - ", " * ", " / ", " // ", " % ", " ~ ", " ~ ", " ** ")
            + self.filtered(depth - 1),
            lambda: self.filtered(depth - 1)
            + self.pick(" == ", " != ", " < ", " <= ", " > ", " >= ", " in ", " not in ")
            + self.filtered(depth - 1),
            lambda: self.expression(depth - 1) + self.pick(" and ", " or ") + self.expression(depth - 1),
            lambda: "not " + self.filtered(depth - 1),
            lambda: self.pick("-", "+") + self.filtered(depth - 1),
            lambda: self.filtered(depth - 1)
            + " if "
            + self.filtered(depth - 1)
            + self.pick("", " else " + self.filtered(depth - 1)),
        )()

    def tag(self, text):
        return "{%" + self.pick("", "-", "", "+") + " " + text + " " + self.pick("", "-", "", "+") + "%}"

    def data(self):
        return self.pick("", " ", "\n", "\n  ", "x", "  y\n", "\n\n", "{", "%}", "\t", "é ", "{ {", "\r\n", "\u00a0\n ")

    def statement(self, depth):
        return self.pick(
            lambda: "{{" + self.pick(" ", "- ") + self.expression(2) + self.pick(" ", " -") + "}}",
            lambda: "{{" + self.pick(" ", "- ") + self.expression(3) + self.pick(" ", " -") + "}}",
            lambda: self.tag("set " + self.pick("v", "w", "v, w", "ns.a", "ns.b") + " = " + self.expression(2)),
            lambda: self.tag("set v") + self.body(depth - 1) + self.tag("endset"),
            lambda: self.tag("if " + self.expression(2))
            + self.body(depth - 1)
            + self.pick("", self.tag("elif " + self.expression(1)) + self.body(depth - 1))
            + self.pick("", self.tag("else") + self.body(depth - 1))
            + self.tag("endif"),
            lambda: self.loop(depth),
            lambda: self.loop(depth),
            lambda: "{#" + self.pick("", "-", "+") + " c " + self.pick("", "-", "+") + "#}",
            lambda: self.tag("raw").replace("+%}", "%}") + self.data() + "{{ r }}" + self.tag("endraw"),
            lambda: self.tag("macro m(a, b=" + self.number() + ")") + self.body(depth - 1) + "{{ a }}{{ b }}" + self.tag("endmacro"),
            lambda: "{{ m(" + self.pick("", "1", "s, 2", "b=3", "n, b=s") + ") }}",
            lambda: self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration"),
        )()

    def loop(self, depth):
        inner = self.pick(
            "{{ loop.index }}", "{{ loop.first }}{{ loop.last }}", "{{ loop.revindex0 }}/{{ loop.length }}",
            "{{ loop.previtem }}", "{{ loop.nextitem }}", "{{ loop.cycle('o', 'e') }}", "",
            "{% if loop.index == 2 %}" + self.pick("{% break %}", "{% continue %}") + "{% endif %}",
        )
        return (
            self.tag(
                "for "
                + self.pick("v in xs", "v in messages", "v in s", "k, v in d.items()", "v in range(n)", "v in " + self.expression(1))
                + self.pick("", "", " if v", " if " + self.expression(1))
            )
            + inner
            + self.body(depth - 1)
            + self.pick("", "{{ v }}")
            + self.pick("", self.tag("else") + self.data())
            + self.tag("endfor")
        )

    def body(self, depth):
        if depth <= 0:
            return self.data() + self.pick("", "{{ v }}", "{{ " + self.expression(1) + " }}")
        return "".join(self.data() + self.statement(depth) for _ in range(self.random.randrange(3))) + self.data()

    def template(self):
        first = self.pick("", "{% set ns = namespace(a=1, b='x') %}", "{% set v = 3 %}")
        return first + "".join(self.data() + self.statement(2) for _ in range(1 + self.random.randrange(4))) + self.data()


VARIABLES = [
    {"messages": [{"role": "user", "content": " Hi\nyou "}, {"role": "assistant", "content": "é"}], "n": 2, "f": 2.5,
     "s": "ab,Cd  e", "t": "3", "xs": ["b", "A", "c"], "d": {"b": 1, "a": "x"}, "flag": True, "nothing": None},
    {"messages": [{"role": "user", "content": ""}], "n": 0, "f": -0.125, "s": "", "t": "é\n東", "xs": [], "d": {},
     "flag": False, "nothing": None},
    {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}], "n": -3, "f": 1e22,
     "s": " user's \"q\"\t", "t": "x", "xs": [3, 1, 2], "d": {"a": {"b": [1, None, 1.5]}, "role": "r"}, "flag": True,
     "nothing": None},
]


def check_random(folder, count, seed):
    grammar, counts = Grammar(seed), {}
    for index in range(count):
        template = grammar.template()
        for case, result in zip(VARIABLES, bochner(folder, template, VARIABLES)):
            outcome = compare(f"random template {index}", template, case, result, strict=False)
            counts[outcome] = counts.get(outcome, 0) + 1
    print(f"{count} random templates, {len(VARIABLES)} sets of variables each: {counts}")
    if count >= 100 and counts.get("equal", 0) < count * len(VARIABLES) / 4:
        raise SystemExit("too few random templates render at all: the comparison tests nothing")


def check_folder(folder, path):
    cases = published_cases()
    for name in sorted(os.listdir(path)):
        if not name.endswith(".jinja"):
            continue
        with open(os.path.join(path, name), encoding="utf-8", newline="") as file:
            template = file.read()
        counts, reasons = {}, set()
        for case, result in zip(cases, bochner(folder, template, cases)):
            outcome = compare(name, template, case, result, strict=False)
            counts[outcome] = counts.get(outcome, 0) + 1
            if outcome == "not supported":
                reasons.add(result["error"].split("t.jinja: ")[-1])
        print(f"{name}: {counts} {sorted(reasons)[:2] if reasons else ''}")


# ---- constructs outside of the subset --------------------------------------------------------------------------------

REFUSED = [
    ("{{ messages }}\n{{ 'x' | wordwrap }}", "line 2: the filter 'wordwrap' is not supported"),
    ("\n\n{% include 'x' %}", "line 3: the statement 'include' is not supported"),
    ("{% extends 'x' %}", "line 1: the statement 'extends' is not supported"),
    ("{% if messages is escaped %}{% endif %}", "line 1: the test 'escaped' is not supported"),
    ("a\n{{ messages[0].content.swapcase() }}", "line 2: the method 'swapcase' of a string is not supported"),
    ("{{ 'x'.__class__ }}", "line 1: the method '__class__' of a string without a call is not supported"),
    ("{{ messages.append(1) }}", "line 1: the method 'append' of a list is not supported"),
    ("{{ '%s' % 1 }}", "line 1: the operator '%' on a string is not supported"),
    ("{% for x in messages recursive %}{% endfor %}", "line 1: a recursive loop is not supported"),
    ("{{ cycler(1) }}", "line 1: the name 'cycler' is not supported"),
    ("{{ dict(*messages) }}", "line 1: arguments with * or ** are not supported"),
]


def check_refusals(folder):
    case = {"messages": [{"role": "user", "content": "x"}]}
    for template, words in REFUSED:
        (result,) = bochner(folder, template, [case])
        if words not in result.get("error", ""):
            FAILED.append(("refusal", template, case, None, words, result))
    print(f"{len(REFUSED)} constructs outside of the subset")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--templates", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder")
    parser.add_argument("--write")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
            json.dump({**TOKENS, "eos_token": {"content": TOKENS["eos_token"], "special": True}}, file)
        print("oracle:", "transformers" if TOKENIZER is not None else "jinja2", jinja2.__version__)
        check_published(folder, options.write)
        check_refusals(folder)
        check_random(folder, options.templates, options.seed)
        if options.folder:
            check_folder(folder, options.folder)
    for name, template, case, text, error, result in FAILED[:5]:
        print(f"\n{name}:\n{template}\nvariables {json.dumps(case)}\nexpected {text!r} {error or ''}\nfound    {result}")
    if FAILED:
        print(f"{len(FAILED)} differences")
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
