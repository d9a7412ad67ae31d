"""Mistakes of users: wrong arrays, settings and bytes, and objects that several threads or handlers use at once."""

import ctypes
import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

import bochner
from bochner.features import RandomFeatures, kernel
from bochner.machines import KernelClassifier, KernelRegressor

TEXT = "the cat sat on the mat and the dog sat on the log. " * 20
FITTED = {"kernel": "rbf", "features": 16, "gamma": 0.5, "regularization": 1.0, "precision": "float64"}


@pytest.fixture
def qkv(rng):
    """Queries, keys and values: (batch, heads, tokens, columns)."""
    return tuple(rng.standard_normal((3, 2, 4, 20, 8)).astype(np.float32))


@pytest.fixture
def rows(rng):
    return rng.standard_normal((60, 3))


@pytest.fixture
def model():
    return bochner.Model.create(layers=1, width=32, heads=2, context=32, attention="favor", features=16, seed=1)


def unaligned(array):
    """The same numbers at an odd address."""
    return np.frombuffer(b"\0" + array.tobytes(), array.dtype, offset=1).reshape(array.shape)


def together(*functions, seconds=0.7):
    """Runs functions repeatedly in separate threads. Errors are allowed, crashes are not."""
    end = time.monotonic() + seconds

    def repeat(function):
        while time.monotonic() < end:
            try:
                function()
            except (ValueError, bochner.BochnerError):
                pass

    threads = [threading.Thread(target=repeat, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ---- arrays ----------------------------------------------------------------------------------------------------------


def test_unaligned_arrays(qkv, rows):
    expected = bochner.attention(*qkv, kind="favor")
    np.testing.assert_array_equal(bochner.attention(*map(unaligned, qkv), kind="favor"), expected)
    double = bochner.Attention("favor", heads=4, dim=8, precision="float64")
    wide = [array.astype(float) for array in qkv]
    np.testing.assert_array_equal(double(*map(unaligned, wide)), double(*wide))
    y = rows[:, 0]
    machine = KernelRegressor(**FITTED).fit(rows, y)
    np.testing.assert_array_equal(machine.predict(unaligned(rows)), machine.predict(rows))
    stream = KernelRegressor(**FITTED).partial_fit(unaligned(rows), unaligned(y), sample_weight=unaligned(np.ones(60)))
    np.testing.assert_allclose(stream.predict(rows), machine.predict(rows), rtol=1e-4, atol=1e-5)
    phi = RandomFeatures(features=16).fit(rows)
    narrow = rows.astype(np.float32)
    assert phi.transform(unaligned(narrow)).dtype == np.float32
    np.testing.assert_array_equal(phi.transform(unaligned(narrow)), phi.transform(narrow))


def test_masked_arrays_are_refused(qkv, rows):
    hidden = np.ma.masked_array(rows, rows > 1)
    q = np.ma.masked_array(qkv[0], qkv[0] > 1)
    y = np.ma.masked_array(rows[:, 0], rows[:, 0] > 1)
    for call in (
        lambda: bochner.attention(q, *qkv[1:]),
        lambda: KernelRegressor(**FITTED).fit(hidden, rows[:, 0]),
        lambda: KernelRegressor(**FITTED).fit(rows, y),
        lambda: KernelRegressor(**FITTED).fit(rows, rows[:, 0], sample_weight=np.ma.masked_array(np.ones(60), rows[:, 0] > 1)),
    ):
        with pytest.raises(bochner.InvalidArgumentError, match="masked"):
            call()
    np.testing.assert_array_equal(bochner.attention(np.ma.masked_array(qkv[0]), *qkv[1:]), bochner.attention(*qkv))


def test_no_keys_are_refused(qkv):
    q, k, v = qkv
    with pytest.raises(bochner.InvalidArgumentError, match="key"):
        bochner.attention(q, k[:, :, :0], v[:, :, :0], kind="favor")
    assert bochner.attention(q[:, :, :0], k, v).shape == (2, 4, 0, 8)
    assert bochner.attention(q[:0], k[:0], v[:0]).shape == (0, 4, 20, 8)


def test_shapes_of_gates(qkv):
    q, k, v = qkv
    with pytest.raises(bochner.InvalidArgumentError, match="log_gate"):
        bochner.attention(q, k, v, kind="gla", causal=True, log_gate=np.zeros((2, 4, 20)))
    with pytest.raises(bochner.InvalidArgumentError, match="log_gate"):
        bochner.attention(q, k, v, kind="rfa-gate", causal=True, log_gate=np.zeros((2, 4, 20, 8)))
    with pytest.raises(bochner.InvalidArgumentError, match="beta"):
        bochner.attention(q, k, v, kind="delta", causal=True, beta=np.zeros(20))


@pytest.mark.parametrize("kind", ["rfa-gate", "gated-delta", "gla"])
def test_gates_in_both_orders(rng, kind):
    """Grouped heads: heads first, tokens first, in float64 and token by token."""
    q = rng.standard_normal((2, 4, 12, 8)).astype(np.float32)
    k, v = rng.standard_normal((2, 2, 2, 12, 8)).astype(np.float32)
    gate = -rng.uniform(0, 1, (2, 2, 12, 8) if kind == "gla" else (2, 2, 12)).astype(np.float32)
    settings = {"features": 16} if kind == "rfa-gate" else {}
    expected = bochner.attention(q, k, v, kind=kind, causal=True, log_gate=gate, **settings)

    def tokens_first(array):
        return np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2)

    views = [tokens_first(array) for array in (q, k, v)]
    for gates in (gate, tokens_first(gate)):
        found = bochner.attention(*views, kind=kind, causal=True, log_gate=gates, **settings)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    sizes = {"heads": 4, "key_heads": 2, "dim": 8, "causal": True, **settings}
    double = bochner.Attention(kind, precision="float64", **sizes)(q, k, v, log_gate=gate)
    np.testing.assert_allclose(expected, double, rtol=2e-3, atol=2e-4)
    state = bochner.State(bochner.Attention(kind, **sizes), sequences=2)
    steps = [state.step(q[:, :, t], k[:, :, t], v[:, :, t], log_gate=gate[:, :, t]) for t in range(12)]
    np.testing.assert_allclose(np.stack(steps, 2), expected, rtol=1e-3, atol=1e-4)
    with pytest.raises(bochner.InvalidArgumentError, match="log_gate"):
        state.step(q[:, :, 0], k[:, :, 0], v[:, :, 0], log_gate=gate)


def test_cross_attention_of_grouped_heads_in_every_order(rng):
    q = rng.standard_normal((2, 8, 7, 16)).astype(np.float32)
    k, v = rng.standard_normal((2, 2, 33, 16)).astype(np.float32), rng.standard_normal((2, 2, 33, 5)).astype(np.float32)
    wide_k, wide_v = (np.repeat(array, 4, 1).astype(float) for array in (k, v))
    weights = np.exp(q.astype(float) @ np.swapaxes(wide_k, -1, -2) / 4)
    expected = weights @ wide_v / weights.sum(-1, keepdims=True)
    for chosen in range(8):
        views = [
            np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2) if chosen >> at & 1 else array
            for at, array in enumerate((q, k, v))
        ]
        np.testing.assert_allclose(bochner.attention(*views), expected, rtol=1e-4, atol=1e-5)


def test_a_state_reads_as_many_keys_as_queries(qkv):
    q, k, v = (array[0] for array in qkv)
    state = bochner.State("favor", heads=4, dim=8, causal=True)
    for keys in (0, 5):
        with pytest.raises(bochner.InvalidArgumentError):
            state.extend(q[:, :1], k[:, :keys], v[:, :keys])
    with pytest.raises(bochner.InvalidArgumentError, match="dimensions"):
        state.step(q[:, 0], 2.0, 3.0)
    assert state.tokens == 0


def test_results_are_never_overwritten(rng):
    """Results reuse the memory of earlier results as soon as nothing refers to it: no view, no buffer, no tensor."""

    def result(seed):
        numbers = np.random.default_rng(seed).standard_normal((3, 8, 512, 32)).astype(np.float32)
        return bochner.attention(*numbers, kind="favor", features=32)

    first = result(0)
    copy = first.copy()
    part, whole, shared, address = first[2:5, ::3], memoryview(first), np.from_dlpack(first), first.ctypes
    del first
    for seed in range(1, 8):
        result(seed)
    np.testing.assert_array_equal(part, copy[2:5, ::3])
    np.testing.assert_array_equal(np.asarray(whole), copy)
    np.testing.assert_array_equal(shared, copy)
    view = np.ctypeslib.as_array(address.data_as(ctypes.POINTER(ctypes.c_float)), copy.shape)
    np.testing.assert_array_equal(view, copy)
    several = [result(0) for _ in range(6)]
    assert len({array.__array_interface__["data"][0] for array in several}) == 6
    assert all(np.array_equal(array, copy) for array in several)


def test_sparse_rows_with_wrong_indices(rows):
    sparse = pytest.importorskip("scipy.sparse")
    for member, at, value in (("indices", 5, 1000), ("indices", 5, -1), ("indptr", 5, 10**6), ("indptr", 5, -7), ("indptr", -1, 10**7)):
        matrix = sparse.csr_matrix(rows)
        getattr(matrix, member)[at] = value
        matrix.has_sorted_indices = matrix.has_canonical_format = True
        for call in (RandomFeatures(features=8).fit, kernel, lambda x: KernelRegressor(**FITTED).fit(x, rows[:, 0])):
            with pytest.raises(ValueError):
                call(matrix)


def test_numbers_that_are_not_numbers(rows):
    for wrong in (rows[:, 0].astype("M8[s]"), rows[:, 0].astype("m8[s]"), np.zeros(60, [("a", "f4")])):
        with pytest.raises(ValueError):
            KernelRegressor(**FITTED).fit(rows, wrong)
        with pytest.raises(ValueError):
            KernelRegressor(**FITTED).fit(rows, rows[:, 0], sample_weight=wrong)
    with pytest.raises(ValueError, match="sample_weight"):
        KernelRegressor(**FITTED).fit(rows, rows[:, 0], sample_weight=np.ones(60) + 0j)
    with pytest.raises(bochner.NumericError, match="large"):
        RandomFeatures(features=16).fit_transform(rows * 1e38)


def test_machines_are_the_formula_of_ridge_regression(rng, rows):
    """Weights, several targets and streams, with a feature map that is exact."""
    y, weights, new = np.c_[np.sin(rows[:, 0]), rows[:, 1] ** 2], rng.integers(0, 4, 60), rng.standard_normal((20, 3))
    map_ = RandomFeatures("polynomial", degree=2, gamma=0.4).fit(rows)
    z, at = (np.c_[map_.transform(x), np.ones(len(x))] for x in (rows, new))
    penalty = np.diag([0.7] * (z.shape[1] - 1) + [0])
    expected = at @ np.linalg.solve(z.T @ (weights[:, None] * z) + penalty, z.T @ (weights[:, None] * y))
    settings = {"kernel": "polynomial", "degree": 2, "gamma": 0.4, "regularization": 0.7, "scaling": "none", "target_scale": "linear"}
    whole = KernelRegressor(**settings).fit(rows, y, weights)
    np.testing.assert_allclose(whole.predict(new), expected, rtol=1e-4, atol=1e-4)
    stream = KernelRegressor(**settings).partial_fit(rows[:20], y[:20], weights[:20])
    stream.predict(new)
    stream.partial_fit(rows[20:], y[20:], weights[20:])
    np.testing.assert_allclose(stream.predict(new), expected, rtol=1e-4, atol=1e-4)


# ---- settings and texts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{"causal": "no"}, {"features": True}, {"features": 2.0}, {"features": -1}, {"features": 2**64}, {"scale": 0},
     {"gamma": float("nan")}, {"precision": ""}, {"kernel": "rbf\0x"}, {"normalizer": []}, {"seed": None, "kernel": 5}],
)  # fmt: skip
def test_wrong_settings_of_attention(settings):
    with pytest.raises(bochner.InvalidArgumentError):
        bochner.Attention("favor", heads=2, dim=4, **settings)


@pytest.mark.parametrize(
    "settings", [{"gamma": 0}, {"regularization": 0}, {"features": 0}, {"fit_intercept": "no"}, {"degree": -1}, {"memory": True}]
)
def test_wrong_settings_of_machines(rows, settings):
    for machine, y in ((KernelRegressor, rows[:, 0]), (KernelClassifier, rows[:, 0] > 0)):
        with pytest.raises(bochner.InvalidArgumentError):
            machine(**{**FITTED, **settings}).fit(rows, y)


@pytest.mark.parametrize(
    "settings",
    [{"preset": 5}, {"rope_scaling": {"nonsense": 1}}, {"rope_scaling": "x"}, {"mlp_features": {"nonsense": 1}},
     {"mlp_bias": "no"}, {"attention": 5}, {"attention": {"kind": "favor", "nonsense": 1}}, {"kept_layers": 5}, {"dropout": "x"}],
)  # fmt: skip
def test_wrong_settings_of_models(settings):
    with pytest.raises((bochner.InvalidArgumentError, TypeError)):
        bochner.Model.create(layers=1, width=32, heads=2, **settings)


def test_wrong_arguments_of_runs(model):
    for wrong in (
        {"callback": "x"}, {"freeze": 5}, {"lora": {"targets": 5}}, {"lora": "x"}, {"field": 5, "validation": None},
        {"steps": 1.5}, {"resume": "no"}, {"directory": "a\0b"},
    ):  # fmt: skip
        with pytest.raises((bochner.InvalidArgumentError, TypeError)):
            model.train(TEXT, **{"steps": 2, "batch": 1, **wrong})
    for wrong in ({"greedy": "no"}, {"ignore_end": "no"}, {"stop": [5]}, {"seed": -1}, {"max_tokens": 2**62}, {"top_k": True}):
        with pytest.raises(bochner.InvalidArgumentError):
            model.generate("a", **wrong)
    for threads in (True, -1, 1.5, 10**6, None, "2"):
        with pytest.raises(bochner.InvalidArgumentError):
            bochner.set_threads(threads)


def test_tokenizers_read_only_text():
    tokenizer = bochner.Tokenizer.train(TEXT, vocab=270)
    for wrong in (5, [72, 105], None, 1.5):
        with pytest.raises(TypeError):
            tokenizer.encode(wrong)
        with pytest.raises(TypeError):
            bochner.Tokenizer.frombytes(wrong)
        with pytest.raises(TypeError):
            bochner.Model.frombytes(wrong)
    with pytest.raises(bochner.InvalidArgumentError, match="NUL"):
        tokenizer.find("a\0b")
    assert not tokenizer.is_special(2**32)
    assert tokenizer.piece(2**40) == b""
    for wrong in (5, None, {"a": 1}, iter([1]), [1.5], ["a"]):
        with pytest.raises(bochner.InvalidArgumentError):
            tokenizer.decode(wrong)


def test_models_with_nan_weights_generate_nothing(model):
    model.weights["model.norm.weight"] = np.full(32, np.nan)
    with pytest.raises(bochner.NumericError, match="NaN|finite"):
        model.generate_text("ab", max_tokens=3)


def test_a_window_larger_than_the_text_takes_no_time(rng):
    q = rng.standard_normal((2, 16, 8)).astype(np.float32)
    settings = {"heads": 2, "dim": 8, "causal": True, "features": 16, "gate": "decay"}
    gate = np.full((2, 16), -0.1, np.float32)
    few, many = (bochner.Attention("hybrid", window=window, **settings)(q, q, q, log_gate=gate) for window in (64, 2**24))
    np.testing.assert_array_equal(few, many)


# ---- bytes -----------------------------------------------------------------------------------------------------------


def test_every_damaged_byte_of_a_state_is_found(qkv):
    instance = bochner.Attention("favor", heads=4, dim=8, causal=True, features=16)
    state = bochner.State(instance)
    state.extend(*(array[0] for array in qkv))
    data = state.tobytes()
    for at in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[at] ^= 16
        with pytest.raises(bochner.BochnerError):
            bochner.State.frombytes(instance, damaged)
    with pytest.raises(bochner.BochnerError):
        bochner.State.frombytes(instance, data[:-1])
    with pytest.raises(TypeError):
        bochner.State.frombytes("favor", data)


def test_damaged_bytes(model, rows, rng):
    """Bits that are flipped and bytes that are missing: an error, or the original object."""
    from bochner._saved import read

    session = model.session()
    session.feed("hello")
    tokenizer = bochner.Tokenizer.train(TEXT, vocab=270)
    machine = KernelRegressor(**FITTED).fit(rows, rows[:, 0])
    restored = {
        model.tobytes(): bochner.Model.frombytes,
        session.tobytes(): model.session().restore,
        tokenizer.tobytes(): bochner.Tokenizer.frombytes,
        machine._fitted.tobytes(): lambda data: read("machine", data),
    }
    for data, restore in restored.items():
        for _ in range(150):
            damaged = bytearray(data)
            for at in rng.integers(0, len(data), rng.integers(1, 4)):
                damaged[at] ^= 1 << int(rng.integers(8))
            if rng.random() < 0.2:
                del damaged[int(rng.integers(len(damaged))) :]
            try:
                restore(bytes(damaged))
            except bochner.BochnerError:
                pass


# ---- concurrent use -----------------------------------------------------------------------------------------------


def test_redraw_while_other_threads_compute(qkv):
    q, k, v = (array[0] for array in qkv)
    instance = bochner.Attention("favor++", heads=4, dim=8, causal=True, features=32)
    instance.calibrate(q, k)
    expected = instance(q, k, v)
    draws = iter(range(10**9))
    together(lambda: instance.redraw(next(draws)), lambda: instance.calibrate(q, k), lambda: instance(q, k, v), lambda: instance.measure(q, k, v))
    instance.calibrate(q, k)
    np.testing.assert_array_equal(instance(q, k, v), expected)
    instance.redraw(3)
    assert not np.array_equal(instance(q, k, v), expected)


def test_fit_while_other_threads_predict(rows):
    """A machine that is fitted again to other columns and targets does not write past the results of other threads."""
    y, classes = np.c_[rows, rows], np.arange(60)
    machine, classifier, phi = KernelRegressor(**FITTED).fit(rows, y), KernelClassifier(**FITTED).fit(rows, classes % 2), RandomFeatures(features=16).fit(rows)
    count = iter(range(10**9))

    def fit():
        at = next(count)
        machine.fit(rows[:, : 1 + at % 3], y[:, : 1 + at % 6])
        classifier.fit(rows[:, : 1 + at % 3], classes % (2 + at % 7))
        phi.features = 16 << at % 6
        phi.fit(rows[:, : 1 + at % 3])

    together(fit, *(lambda n=n: use(rows[:, :n]) for n in (1, 2, 3) for use in (machine.predict, classifier.predict_proba, phi.transform)))


def test_an_exception_may_outlive_the_model():
    """Its traceback refers to what train() used."""
    for _ in range(3):
        model = bochner.Model.create(layers=1, width=32, heads=2, context=32, attention="favor", features=16)

        def fail(report):
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as caught:
            model.train(TEXT, steps=4, eval_every=1, callback=fail)
        error = caught.value
        del model
        gc.collect()
        error.loop = error  # a cycle, which is collected in any order
        del caught, error
        gc.collect()


def test_signal_handlers_cannot_wait_for_themselves():
    model = bochner.Model.create(layers=2, width=128, heads=4, context=4096, attention="softmax")
    session, found = model.session(), []

    def handle(number, frame):
        try:
            found.append(repr(session))
        except bochner.BochnerError as error:
            found.append(str(error))

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        session.feed("a" * 3000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert session.tokens == 3000
    assert found


def test_locks_belong_to_one_thread(qkv):
    """Eight threads step one state: no token is lost."""
    q, k, v = (array[0] for array in qkv)
    state = bochner.State("favor", heads=4, dim=8, causal=True)
    threads = [
        threading.Thread(target=lambda: [state.step(q[:, t], k[:, t], v[:, t]) for t in range(20)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state.tokens == 160


def test_large_results_are_copied_whole():
    """ctypes.string_at() would take the size modulo 2^32."""
    from bochner._library import copied_bytes

    size = (1 << 31) + 3
    with open("/proc/meminfo") as file:
        free = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable")) * 1024
    if free < 3 * size or os.environ.get("ASAN_OPTIONS"):
        pytest.skip("not enough memory")
    memory = np.zeros(size, np.uint8)
    memory[-1] = 7
    data = copied_bytes(memory.__array_interface__["data"][0], size)
    assert len(data) == size
    assert data[-1] == 7


# ---- PyTorch ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def torch():
    found = pytest.importorskip("torch")
    import bochner.torch  # noqa: F401

    return found


def test_tensors_of_wrong_shapes_are_refused(torch):
    q, k, v = torch.randn(3, 2, 4, 10, 8).unbind()
    attention, plain = bochner.torch.Attention("favor", heads=4, dim=8, features=16), bochner.torch.attention
    gated = bochner.torch.Attention("rfa-gate", heads=4, dim=8, features=16)
    changed = bochner.torch.RandomFeatureAttention(heads=4, dim=8)
    changed.sigma = torch.nn.Parameter(torch.ones(1, 8))
    one = (q[:1], k[:1], v[:1])
    for call in (
        lambda: attention(q[:, :3], k[:, :3], v[:, :3]),
        lambda: attention(q, k, v[:, :, :5]),
        lambda: attention(q, k[:1], v[:1]),
        lambda: attention(q[0], k[0], v[0]),
        lambda: attention(q, k[:, :, :0], v[:, :, :0]),
        lambda: attention(q, k, v, tokens_first=True),
        lambda: gated(q, k, v, torch.zeros(2, 4, 9)),
        lambda: gated(q, k, v, torch.zeros(2, 10, 4)),
        lambda: changed(q, k, v),
        lambda: attention(*one, lengths=torch.tensor([3, 70])),
        lambda: attention(*one, lengths=torch.tensor([-5, 15])),
        lambda: attention(*one, lengths=torch.tensor([3.0, 7.0])),
        lambda: attention(*one, key_lengths=torch.tensor([10])),
        lambda: attention(q, k, v, lengths=torch.tensor([3, 7])),
        lambda: plain(q, k, v, kind="gla", causal=True, log_gate=torch.zeros(2, 4, 10)),
        lambda: plain(q, k, v, kind="rfa", sigma=torch.zeros(1)),
        lambda: plain(q, k, v, kind="rfa", sigma="x"),
        lambda: plain(q.long(), k.long(), v.long()),
        lambda: plain(q.numpy(), k, v),
        lambda: plain(q, k, v, kind="favor", scale=float("inf")),
    ):
        with pytest.raises(bochner.InvalidArgumentError):
            call()
    np.testing.assert_array_equal(plain(q, k, v, scale=np.float64(0.2)), plain(q, k, v, scale=0.2))
    assert plain(q[:0], k[:0], v[:0], kind="favor").shape == (0, 4, 10, 8)


def test_masks_of_other_sizes_are_refused(torch):
    layer, x = bochner.torch.MultiheadAttention(32, 4, batch_first=True, features=16), torch.randn(2, 10, 32)
    for wrong in (
        {"attn_mask": torch.ones(5, 5).triu(1).bool()},
        {"key_padding_mask": torch.zeros(2, 9).bool()},
        {"key_padding_mask": torch.zeros(3, 10).bool()},
    ):
        with pytest.raises(bochner.InvalidArgumentError, match="shape"):
            layer(x, x, x, **wrong)


def test_language_modules_are_copied(torch, model):
    import copy

    module = bochner.torch.LanguageModel(model)
    ids = torch.tensor([[1, 2, 3]])
    other = copy.deepcopy(module)
    assert torch.equal(other(ids), module(ids))
    with torch.no_grad():
        next(other.parameters()).zero_()
    assert not torch.equal(other(ids), module(ids))
    with pytest.raises(bochner.InvalidArgumentError, match="model"):
        module.attentions[0].redraw(1)


def test_tensors_keep_the_memory_of_results(torch):
    def result(seed):
        numbers = np.random.default_rng(seed).standard_normal((3, 8, 512, 32)).astype(np.float32)
        return bochner.attention(*numbers, kind="favor", features=32)

    first = result(0)
    copy = first.copy()
    tensor, part = torch.from_dlpack(first), torch.from_numpy(first)[2:4]
    del first
    for seed in range(1, 6):
        result(seed)
    np.testing.assert_array_equal(tensor.numpy(), copy)
    np.testing.assert_array_equal(part.numpy(), copy[2:4])
