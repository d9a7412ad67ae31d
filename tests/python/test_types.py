"""The type hints of the package are complete and correct, for mypy (strict) and pyright."""

import importlib.util
import pathlib
import re
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

from bochner.typing import AttentionKind, AttentionSettings

kind: AttentionKind = "hybrid"
settings: AttentionSettings = {"features": 8, "window": None}
bochner.Attention(kind, heads=1, dim=3, **settings)(q, q, q, log_gate=None)
bochner.set_precision(bochner.get_precision())
bochner.features.RandomFeatures("matern32", gamma="scale", draw="orthogonal")
bochner.machines.KernelRegressor("auto", solver="dual", metric="learn")
stack = bochner.Model.create("tiny", mlp="swiglu", blocks=[{"repeat": 2, "attention": {"kind": "favor", "features": 8}}, {"window": 4}])
stack.train("text", steps=2, optimizer="adamw", lora={"rank": 2, "init": "zero"}, weight_decay=0.1)
text: str = stack.generate_text("a", max_tokens=3, stop=["."])
bochner.Model("directory", storage="int8").linearize("text", "dark", features=16, merge=True)
"""
# Each line has one mistake.
WRONG = """import bochner, numpy as np
q = np.ones((2, 3))
bochner.attention(q, q, q, kind="favors")
bochner.attention(q, q, q, featurs=3)
bochner.attention(q, q, q, key_heads=1)
bochner.Attention("favor", heads=1, dim=3, draw="ortho")
bochner.Attention("favor", heads=1, dim=3, features="many")
bochner.Attention("favor", heads=1, dim=3)(q, q, q, seed=1)
bochner.State("favor", heads=1, dim=3, sequence=2)
bochner.features.RandomFeatures("gauss")
bochner.features.RandomFeatures(gama=1.0)
bochner.features.kernel(q, kernel="matern", gamma=1.0)
bochner.machines.KernelRegressor(solver="exact")
bochner.machines.KernelClassifier(losss="ridge")
model = bochner.Model.create("tiny")
bochner.Model.create("huge")
bochner.Model.create(attention="favors")
bochner.Model.create(attention={"kind": "favor", "featurs": 8})
bochner.Model.create(mlp="glu")
bochner.Model.create(layer=2)
bochner.Model.create(blocks=[{"width": 3}])
bochner.Model("directory", storage="float16")
model.train("text", optimizer="adam")
model.train("text", lora={"ranks": 2})
model.train("text", weight_decays=0.1)
model.fit(q, q, epoch=2)
model.linearize("text", gate="open")
model.linearize("text", rates=1.0)
model.generate_text("a", temprature=1.0)
model.evaluate(q, part="dev")
bochner.set_precision("half")
"""
CORRECT = (1, 2, 15)  # lines of WRONG


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
    (tmp_path / "user.py").write_text(WRONG)
    done = subprocess.run([*command[:-2], "user.py"], capture_output=True, text=True, timeout=500, cwd=tmp_path)
    found = {int(line) for line in re.findall(r"user\.py:(\d+):.* error", done.stdout)}
    assert found == set(range(1, len(WRONG.splitlines()) + 1)) - set(CORRECT), done.stdout + done.stderr
