"""Tests of the Python package, run by pytest. They test the package imported by `import bochner`."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = pathlib.Path(os.environ.get("BOCHNER") or SOURCE / "build" / "bochner")


@pytest.fixture
def source() -> pathlib.Path:
    """The source tree."""
    return SOURCE


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.fixture
def run():
    """Runs Python code in a new process, which must succeed, and returns what it prints."""

    def run_code(code: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True, timeout=240,
            env={**os.environ, **environment},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not done.stderr, done.stderr
        return done.stdout

    return run_code
