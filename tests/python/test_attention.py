"""bochner.attention, Attention and State against formulas in NumPy, and how they read their arrays."""

import pickle

import numpy as np
import pytest

import bochner


@pytest.fixture
def qkv(rng):
    """Queries, keys and values: (batch, heads, tokens, columns)."""
    return tuple(rng.standard_normal((3, 2, 4, 60, 16), np.float32) / 2)


def softmax_attention(q, k, v, causal):
    weights = np.exp(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]))
    if causal:
        weights *= np.tri(q.shape[-2], k.shape[-2])
    return weights @ v / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("causal", [False, True])
def test_softmax_is_the_formula(qkv, causal):
    expected = softmax_attention(*(array.astype(np.float64) for array in qkv), causal)
    np.testing.assert_allclose(bochner.attention(*qkv, causal=causal), expected, rtol=1e-4, atol=1e-5)


def test_linear_attention_is_its_formula(qkv):
    def phi(x):
        return np.where(x > 0, x + 1, np.exp(x))

    q, k, v = (array.astype(np.float64) for array in qkv)
    weights = (phi(q) @ np.swapaxes(phi(k), -1, -2)) * np.tri(q.shape[-2])
    expected = weights @ v / weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(bochner.attention(*qkv, kind="linear", causal=True), expected, rtol=1e-4, atol=1e-5)


def test_dimensions_and_grouped_queries(qkv):
    q, k, v = qkv
    whole = bochner.attention(q, k, v, causal=True)
    np.testing.assert_array_equal(bochner.attention(q[0], k[0], v[0], causal=True), whole[0])
    np.testing.assert_allclose(bochner.attention(q[0, 1], k[0, 1], v[0, 1], causal=True), whole[0, 1], rtol=1e-5, atol=1e-6)
    shared = bochner.attention(q, k[:, :2], v[:, :2], causal=True)
    repeated = bochner.attention(q, k[:, [0, 0, 1, 1]], v[:, [0, 0, 1, 1]], causal=True)
    np.testing.assert_allclose(shared, repeated, rtol=1e-5, atol=1e-6)
    assert bochner.attention(q[:, :, :7], k, v[..., :5]).shape == (2, 4, 7, 5)  # cross attention, other columns


@pytest.mark.parametrize("kind", bochner.attention_kinds())
def test_every_kind_runs_and_decodes(qkv, kind):
    q, k, v = (array[0] for array in qkv)
    layer = bochner.Attention(kind, heads=4, dim=16, causal=True, capacity=64 if kind in ("softmax", "power") else None)
    parameters, at = {}, {}
    if kind in ("rfa-gate", "gated-delta", "gated-ridge"):
        parameters["log_gate"] = np.full((4, 60), -0.1, np.float32)
    if kind == "gla":
        parameters["log_gate"] = np.full((4, 60, 16), -0.1, np.float32)
    if kind in ("favor++", "favor#"):
        with pytest.raises(bochner.BochnerError, match="calibrat"):
            layer(q, k, v)
        assert layer.calibrate(q, k)["rows"] > 0
    whole = layer(q, k, v, **parameters)
    assert whole.shape == q.shape and np.isfinite(whole).all()
    state = bochner.State(layer)
    cut = {name: value[:, :59] for name, value in parameters.items()}
    at = {name: value[:, 59] for name, value in parameters.items()}
    first = state.extend(q[:, :59], k[:, :59], v[:, :59], **cut)
    last = state.step(q[:, 59], k[:, 59], v[:, 59], **at)
    both = np.concatenate([first, last[:, None]], 1)
    np.testing.assert_allclose(both, whole, rtol=2e-3, atol=2e-4)
    assert state.tokens == 60


def test_the_number_of_threads_does_not_change_a_bit(qkv):
    try:
        results = []
        for threads in (1, 2, 5):
            bochner.set_threads(threads)
            assert bochner.get_threads() == threads
            results.append(bochner.attention(*qkv, kind="favor", causal=True))
    finally:
        bochner.set_threads(0)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


# ---- arrays ----------------------------------------------------------------------------------------------------------


def test_strides_are_honored(qkv):
    q, k, v = qkv
    expected = bochner.attention(q, k, v, kind="favor", causal=True)
    tokens_first = [np.ascontiguousarray(array.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3) for array in qkv]
    out = bochner.attention(*tokens_first, kind="favor", causal=True)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)
    assert out.transpose(0, 2, 1, 3).flags.c_contiguous  # the output has the order of the inputs, without a copy
    mixed = bochner.attention(tokens_first[0], k, np.asfortranarray(v), kind="favor", causal=True)
    np.testing.assert_array_equal(mixed, expected)
    wide = np.zeros((2, 4, 120, 48), np.float32)
    wide[:, :, ::2, 16:32] = q
    np.testing.assert_array_equal(bochner.attention(wide[:, :, ::2, 16:32], k, v, kind="favor", causal=True), expected)
    reverse = [array[..., ::-1, :] for array in qkv]
    copied = [np.ascontiguousarray(array) for array in reverse]
    np.testing.assert_array_equal(bochner.attention(*reverse), bochner.attention(*copied))


def test_read_only_inputs_are_not_written(qkv):
    for array in qkv:
        array.flags.writeable = False
    before = [array.copy() for array in qkv]
    out = bochner.attention(*qkv, kind="dark", causal=True)
    assert out.flags.writeable
    for array, old in zip(qkv, before):
        np.testing.assert_array_equal(array, old)


def test_dtypes(qkv):
    exact = bochner.attention(*qkv, kind="favor")
    doubles = bochner.attention(*(array.astype(np.float64) for array in qkv), kind="favor")
    assert exact.dtype == np.float32 and doubles.dtype == np.float64
    np.testing.assert_array_equal(doubles, exact.astype(np.float64))
    assert bochner.attention(*(array.astype(np.float16) for array in qkv)).dtype == np.float32
    np.testing.assert_array_equal(bochner.attention([[1, 2]], [[3, 4]], [[5, 6]]), [[5, 6]])


def test_buffers_and_dlpack(qkv):
    expected = bochner.attention(*(array[0, 0] for array in qkv))
    np.testing.assert_array_equal(bochner.attention(*(memoryview(array[0, 0]) for array in qkv)), expected)

    class Tensor:  # the protocol of array packages, without being an array
        def __init__(self, array):
            self.array, self.used = array, 0

        def __dlpack__(self, **options):
            self.used += 1
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    tensors = [Tensor(array[0, 0]) for array in qkv]
    np.testing.assert_array_equal(bochner.attention(*tensors), expected)
    assert all(tensor.used == 1 for tensor in tensors)
    np.testing.assert_array_equal(np.from_dlpack(bochner.attention(*tensors)), expected)


def test_precision(qkv):
    low = bochner.attention(*qkv, kind="softmax", precision="bfloat16")
    full = bochner.attention(*qkv, kind="softmax")
    assert 0 < np.abs(low - full).max() < 0.02
    double = bochner.attention(*(array.astype(np.float64) for array in qkv), precision="float64")
    expected = softmax_attention(*(array.astype(np.float64) for array in qkv), False)
    np.testing.assert_allclose(double, expected, rtol=1e-12, atol=1e-13)


# ---- objects ---------------------------------------------------------------------------------------------------------


def test_states_are_plain_bytes(qkv):
    q, k, v = qkv
    layer = bochner.Attention("favor", heads=4, dim=16, causal=True, features=32, seed=3)
    state = bochner.State(layer, sequences=2)
    empty = state.nbytes
    state.extend(q, k, v)
    assert state.nbytes == empty == 2 * layer.state_bytes  # it does not grow
    fork, restored, pickled = state.copy(), bochner.State.frombytes(layer, state.tobytes()), pickle.loads(pickle.dumps(state))
    expected = state.step(q[:, :, 0], k[:, :, 0], v[:, :, 0])
    for other in (fork, restored, pickled):
        assert other.tokens == 60  # the step of the original did not change it
        np.testing.assert_array_equal(other.step(q[:, :, 0], k[:, :, 0], v[:, :, 0]), expected)


def test_foreign_and_damaged_states_are_refused(qkv):
    layer = bochner.Attention("favor", heads=4, dim=16, causal=True, features=32)
    other = bochner.Attention("favor", heads=4, dim=16, causal=True, features=32, seed=9)
    data = bytearray(bochner.State(layer).tobytes())
    with pytest.raises(bochner.InvalidArgumentError):
        bochner.State.frombytes(other, data)
    with pytest.raises(bochner.InvalidArgumentError, match="bytes"):
        bochner.State.frombytes(layer, data[:-1])
    with pytest.raises(bochner.InvalidArgumentError):
        bochner.State.frombytes(layer, b"")
    data[0] ^= 255
    with pytest.raises(bochner.BochnerError):
        bochner.State.frombytes(layer, data)


def test_attention_survives_pickling(qkv):
    layer = bochner.Attention("favor", heads=4, dim=16, features=32, seed=3)
    layer.redraw(2)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(layer))(*qkv), layer(*qkv))


def test_measured_error_is_the_error(qkv):
    layer = bochner.Attention("favor", heads=4, dim=16, features=64, causal=True)
    q, k, v = qkv
    exact = softmax_attention(*(array.astype(np.float64) for array in qkv), True)
    report = layer.measure(q, k, v, queries=120)
    assert report.against_softmax == pytest.approx(np.linalg.norm(layer(q, k, v) - exact) / np.linalg.norm(exact), rel=1e-3)
    assert "against_softmax" in report._repr_html_() and "against_softmax" in repr(report)


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda q, k, v: (q[..., :8], k, v), ValueError, "k has shape"),
        (lambda q, k, v: (q, k[:, :, :50], v), ValueError, "v has shape"),
        (lambda q, k, v: (q, k[:1], v), ValueError, "k has shape"),
        (lambda q, k, v: (q[0], k, v), ValueError, "dimensions"),
        (lambda q, k, v: (q.ravel(), k.ravel(), v.ravel()), ValueError, "dimensions"),
        (lambda q, k, v: (q.astype(complex), k, v), TypeError, "complex"),
        (lambda q, k, v: (q.astype(object), k, v), TypeError, "object"),
        (lambda q, k, v: ([["a", "b"]], k, v), TypeError, "dtype"),
        (lambda q, k, v: (q * np.nan, k, v), ValueError, "q"),
        (lambda q, k, v: (q, k, v * np.inf), ValueError, "v"),
        (lambda q, k, v: (q[:, :, :0], k[:, :, :0], v[:, :, :0]), None, ""),
        (lambda q, k, v: (None, k, v), TypeError, "q"),
    ],
)
def test_bad_arrays(qkv, change, error, message):
    arrays = change(*qkv)
    if error is None:
        assert bochner.attention(*arrays).size == 0
        return
    with pytest.raises(error, match=message):
        bochner.attention(*arrays)


def test_bad_settings(qkv):
    for settings, message in [
        ({"kind": "nothing"}, "expected one of softmax"),
        ({"kind": "favor", "features": -1}, "."),
        ({"kind": "favor", "featurs": 8}, "did you mean 'features'"),
        ({"kind": "favor", "kernel": "x"}, "kernel"),
        ({"kind": "softmax", "window": "wide"}, "window"),
        ({"kind": "softmax", "precision": "float7"}, "precision"),
        ({"kind": "softmax", "log_gate": np.zeros(3)}, "."),
        ({"kind": "delta", "beta": np.zeros((2, 4, 61))}, "beta has shape"),
        ({"kind": "rfa-gate"}, "gate"),
        ({"kind": "rfa", "sigma": np.ones(3)}, "sigma has shape"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            bochner.attention(*qkv, **settings)
    with pytest.raises(TypeError, match="setting of the attention"):
        bochner.Attention("favor", heads=4, dim=16)(*qkv, seed=1)
    with pytest.raises(ValueError, match="causal=True"):
        bochner.State(bochner.Attention("favor", heads=4, dim=16))
    with pytest.raises(ValueError, match="expected one of default, iid, orthogonal"):
        bochner.Attention("favor", heads=4, dim=16, draw="ortho")
    with pytest.raises(ValueError, match="sequences"):
        bochner.State("favor", heads=4, dim=16, sequences=0)


def test_a_calibrated_attention_is_not_pickled(qkv):
    layer = bochner.Attention("favor++", heads=4, dim=16, features=32)
    layer.calibrate(*qkv[:2])
    with pytest.raises(bochner.BochnerError, match="calibrated"):
        pickle.dumps(layer)
