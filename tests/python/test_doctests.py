"""The examples in docstrings run and print the documented output."""

import doctest
import importlib
import pkgutil

import pytest

import bochner

MODULES = ["bochner", *(found.name for found in pkgutil.walk_packages(bochner.__path__, "bochner."))]


@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith(("_bindings", ".libbochner"))])
def test_examples(name, tmp_path, monkeypatch):
    if name.startswith("bochner.torch"):
        pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.chdir(tmp_path)  # examples may write files
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


def test_every_public_name_has_a_docstring():
    for name in bochner.__all__:
        assert getattr(bochner, name).__doc__, name
