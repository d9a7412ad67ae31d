"""The type hints of the package are complete and right, for mypy (strict) and pyright."""

import importlib.util
import pathlib
import shutil
import subprocess
import sys

import pytest

import bochner

PACKAGE = pathlib.Path(bochner.__file__).parent


# Without PyTorch its modules are unknown types. make test-peers checks them, too.
EXCLUDED = [] if importlib.util.find_spec("torch") else ["torch"]
USER = """
import numpy as np
import bochner

q = np.ones((2, 3))
out: np.ndarray = bochner.attention(q, q, q, kind="favor", features=8)
state: bytes = bochner.State("favor", heads=2, dim=4, causal=True).tobytes()
model: bochner.Model = bochner.Model.describe("net.json", q, q[:, 0])
steps: int = model.fit(q, q[:, 0], epochs=2).step
found: np.ndarray = model.predict(q)
"""


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_checker(checker, source, tmp_path):
    pytest.importorskip(checker, reason=f"{checker} is not installed")
    package = tmp_path / "bochner"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns(*EXCLUDED, "__pycache__", "*.so"))
    assert (package / "py.typed").exists()
    (tmp_path / "user.py").write_text(USER)
    shutil.copy(source / "pyproject.toml", tmp_path)
    options = ["--cache-dir", str(tmp_path / "cache")] if checker == "mypy" else ["--pythonpath", sys.executable]
    command = [sys.executable, "-m", checker, *options, "bochner", "user.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
