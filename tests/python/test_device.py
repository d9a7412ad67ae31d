"""Calls on a GPU, or its emulator, compared with calls on the CPU: attention, states, features, kernel machines."""

import os
import pickle
import threading

import numpy as np
import pytest

import bochner
from bochner import _library
from bochner.features import RandomFeatures
from bochner.machines import KernelClassifier, KernelRegressor

if "BOCHNER_CUDA" not in os.environ:
    pytest.skip("BOCHNER_CUDA names neither a plugin for GPUs nor its emulator", allow_module_level=True)

RNG = np.random.default_rng(0)
Q, K, V = RNG.standard_normal((3, 2, 40, 8), np.float32)
X = RNG.uniform(-2, 2, (300, 4))
Y = np.stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 2] * X[:, 0]], 1) + 0.05 * RNG.standard_normal((300, 2))


def contexts(device: str) -> int:
    """Idle contexts on a device: a call leaves at least one."""
    return sum(len(idle) for key, idle in _library._idle.items() if key[-1] == device)


@pytest.mark.parametrize("kind", ["softmax", "favor", "gla"])
def test_attention(kind: str) -> None:
    settings = {} if kind != "gla" else {"log_gate": -np.abs(K)}
    expected = bochner.attention(Q, K, V, kind=kind, causal=True, **settings)
    found = bochner.attention(Q, K, V, kind=kind, causal=True, device="cuda", **settings)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert contexts("cuda") > 0


def test_an_attention_keeps_its_device() -> None:
    layer = bochner.Attention("favor", heads=2, dim=8, causal=True, device="cuda:0")
    assert "device='cuda:0'" in repr(layer)
    again = pickle.loads(pickle.dumps(layer))
    np.testing.assert_array_equal(again(Q, K, V), layer(Q, K, V))
    assert again._device == "cuda:0" and contexts("cuda:0") > 0
    with pytest.raises(bochner.InvalidArgumentError, match="float64' is computed on the CPU"):
        bochner.Attention("favor", heads=2, dim=8, precision="float64", device="cuda")


def test_states() -> None:
    """A state of one device continues on the other."""
    gpu, cpu = (bochner.Attention("favor", heads=2, dim=8, causal=True, device=device) for device in ("cuda", "cpu"))
    expected, state = cpu(Q, K, V), bochner.State(gpu)
    first = state.extend(Q[:, :30], K[:, :30], V[:, :30])
    token = state.step(Q[:, 30], K[:, 30], V[:, 30])
    moved = bochner.State.frombytes(cpu, state.tobytes())
    last = moved.extend(Q[:, 31:], K[:, 31:], V[:, 31:])
    found = np.concatenate([first, token[:, None], last], 1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "softmax", "arccos", "polynomial"])  # the last: no kernels on GPUs
def test_features(kernel: str) -> None:
    phi = RandomFeatures(kernel, features=None if kernel == "polynomial" else 64).fit(X)
    expected = phi.transform(X)
    np.testing.assert_allclose(phi.set_params(device="cuda").transform(X), expected, rtol=1e-4, atol=1e-5)
    again = RandomFeatures(kernel, features=None if kernel == "polynomial" else 64, device="auto").fit_transform(X)
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-5)
    assert contexts("cuda") > 0 and contexts("auto") > 0


def test_a_machine_is_fitted_and_predicts() -> None:
    settings = {"kernel": "rbf", "features": 128, "gamma": 0.5, "regularization": 0.1, "solver": "primal", "precision": "float32"}
    cpu = KernelRegressor(**settings).fit(X, Y)
    gpu = KernelRegressor(**settings, device="cuda").fit(X, Y)
    for one, other in zip(cpu.predict(X, return_std=True), gpu.predict(X, return_std=True)):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-3)
    expected = cpu.predict(X, return_std=True), cpu.predict_interval(X, 0.8)
    cpu.set_params(device="cuda")  # the same machine on the GPU
    for one, other in zip(np.ravel(expected), np.ravel((cpu.predict(X, return_std=True), cpu.predict_interval(X, 0.8)))):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gpu.feature_importances_, cpu.set_params(device="cpu").feature_importances_, atol=1e-3)


def test_defaults_are_fitted() -> None:
    """The choice of kernel, metric and regularization on a GPU is as good."""
    gpu = KernelRegressor(device="cuda", features=128).fit(X[:200], Y[:200])
    assert gpu.report_["solver"] == "primal"
    assert gpu.score(X[200:], Y[200:]) > 0.9
    with pytest.raises(bochner.UnsupportedError, match="solver dual is not supported on the device cuda:0"):
        KernelRegressor(device="cuda", solver="dual").fit(X, Y)


def test_classes_and_streams() -> None:
    labels = np.where(Y[:, 0] > 0, "high", "low")
    settings = {"kernel": "rbf", "features": 64, "gamma": 0.5, "regularization": 0.1, "loss": "ridge", "solver": "primal"}
    cpu, gpu = (KernelClassifier(**settings, device=device).fit(X, labels) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(gpu.predict_proba(X), cpu.predict_proba(X), atol=5e-3)
    assert (gpu.predict(X) == cpu.predict(X)).mean() > 0.99
    settings = {"features": 64, "gamma": 0.5, "regularization": 0.1, "solver": "primal", "precision": "float32"}
    expected, stream = (KernelRegressor("rbf", **settings, device=device) for device in ("cpu", "cuda"))
    for at in range(0, 300, 100):
        for each in (expected, stream):
            each.partial_fit(X[at : at + 100], Y[at : at + 100])
    np.testing.assert_allclose(stream.predict(X), expected.predict(X), rtol=1e-3, atol=1e-3)
    copied = pickle.loads(pickle.dumps(stream))
    np.testing.assert_array_equal(copied.predict(X), stream.predict(X))


def test_threads_share_a_machine() -> None:
    machine = KernelRegressor("rbf", features=64, gamma=0.5, regularization=0.1).fit(X, Y)
    machine.set_params(device="cuda")
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: found.append(machine.predict(X))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
