"""The programs of examples/python run, and print the expected output."""

import os
import subprocess
import sys

import pytest

EXPECTED = {
    "table_regression": ("pandas", "inside the 90% interval"),
    "approximate_attention": ("numpy", "a state after 4,000 tokens"),
    "train_model": ("numpy", "the "),
    "linearize_model": ("numpy", "hybrid   perplexity"),
    "stream_tokens": ("numpy", "the state of"),
    "torch_attention": ("torch", "accuracy 0.9"),
}


def test_every_example_is_listed(source):
    directory = source / "examples" / "python"
    assert {path.stem for path in directory.glob("*.py")} == set(EXPECTED)
    listed = (source / "examples" / "README.md").read_text()
    for path in directory.glob("*.py"):
        assert f"python/{path.name}" in listed
        assert len(path.read_text().splitlines()) <= 60


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name, source, tmp_path):
    package, expected = EXPECTED[name]
    pytest.importorskip(package, reason=f"{package} is not installed")
    path = source / "examples" / "python" / f"{name}.py"
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300, cwd=tmp_path, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout, done.stdout
    if name == "train_model":
        assert (tmp_path / "trained-model" / "model.safetensors").exists()
