"""The Python code of README.md and docs/guides/python.md runs. A comment <!-- not run: REASON --> before a block exempts it."""

import re

import pytest


@pytest.mark.parametrize("page", ["README.md", "docs/guides/python.md"])
def test_code_of(page, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (source / page).read_text(encoding="utf-8")
    blocks = re.findall(r"(<!-- not run: [^\n]*-->\n)?```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for exempt, code in blocks:
        compiled = compile(code, page, "exec")
        if not exempt:
            exec(compiled, names)
