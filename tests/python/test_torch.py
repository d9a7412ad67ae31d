"""bochner.torch: gradients, modules, autocast. Runs with any PyTorch from 1.13 on."""

import copy
import inspect
import os

# Debian's PyTorch 1.13 stops with an illegal instruction in bfloat16 on some virtual CPUs with AMX.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import numpy as np  # noqa: E402
import pytest  # noqa: E402

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import bochner  # noqa: E402
import bochner.torch as bt  # noqa: E402

from conftest import SOURCE  # noqa: E402

FAMILIES = SOURCE / "tests" / "data" / "families"
functional = torch.nn.functional
KINDS = [kind for kind in bochner.attention_kinds() if kind not in ("favor++", "favor#")]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(1)


def sdpa(q, k, v, causal=False):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(q.shape[-2], k.shape[-2]).triu(1).bool(), float("-inf"))
    return scores.softmax(-1) @ v


def few_features(kind):
    """Settings for a small map, where the kind does not determine its length."""
    return {"features": 8} if kind in ("rfa", "rfa-gate", "favor", "dark", "hybrid") else {}


def inputs_of(kind, dtype, tokens=6, heads=2, dim=4):
    """Queries, keys, values and the inputs per token of a kind, all with gradients."""
    q, k, v = (torch.randn(2, heads, tokens, dim, dtype=dtype) for _ in range(3))
    arrays = {"q": q, "k": k, "v": v}
    if kind in ("rfa-gate", "gated-delta", "gated-ridge"):
        arrays["log_gate"] = -torch.rand(2, heads, tokens, dtype=dtype)
    if kind == "gla":
        arrays["log_gate"] = -torch.rand(2, heads, tokens, dim, dtype=dtype)
    if kind in ("delta", "gated-delta", "ridge", "gated-ridge"):
        arrays["beta"] = torch.rand(2, heads, tokens, dtype=dtype)
    return {name: tensor.requires_grad_() for name, tensor in arrays.items()}


@pytest.mark.parametrize("causal", [False, True])
def test_softmax_equals_pytorch(causal):
    inputs = inputs_of("softmax", torch.float32, tokens=50, dim=16)
    out = bt.attention(inputs["q"], inputs["k"], inputs["v"], causal=causal)
    expected = sdpa(inputs["q"], inputs["k"], inputs["v"], causal)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    direction = torch.randn_like(out)
    actual = torch.autograd.grad(out, [inputs[n] for n in "qkv"], direction)
    reference = torch.autograd.grad(expected, [inputs[n] for n in "qkv"], direction)
    for one, other in zip(actual, reference):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_in_float64(kind):
    """gradcheck of every input and every parameter of every kind."""
    module = bt.Attention(kind, heads=2, dim=4, causal=True, seed=1, dtype=torch.float64, **few_features(kind))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.rand_like(parameter)
    inputs = inputs_of(kind, torch.float64)
    names, parameters = list(inputs), dict(module.named_parameters())

    def call(*tensors):
        for name, tensor in zip(parameters, tensors[len(names) :]):
            module._parameters[name] = tensor
        values = dict(zip(names, tensors))
        return module(values["q"], values["k"], values["v"], values.get("log_gate"), values.get("beta"))

    assert torch.autograd.gradcheck(call, (*inputs.values(), *parameters.values()), eps=1e-6, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_float32_agrees_with_float64(kind):
    module = bt.Attention(kind, heads=2, dim=4, causal=True, **few_features(kind))
    inputs = inputs_of(kind, torch.float32)
    double = {name: tensor.detach().double().requires_grad_() for name, tensor in inputs.items()}

    def gradients(values, one):
        out = one(values["q"], values["k"], values["v"], values.get("log_gate"), values.get("beta"))
        return [out, *torch.autograd.grad(out.square().sum(), [*values.values(), *one.parameters()])]

    for low, high in zip(gradients(inputs, module), gradients(double, copy.deepcopy(module).double())):
        torch.testing.assert_close(low.double(), high, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("name", ["RandomFeatureAttention", "FavorAttention", "DarkAttention", "HybridAttention", "DeltaAttention", "RidgeAttention"])
def test_modules_train(name):
    """A step against the gradient reduces the loss, and state_dict restores the module."""
    module = getattr(bt, name)(heads=2, dim=8, causal=True)
    q, k, v, target = torch.randn(4, 2, 2, 20, 8).unbind()
    losses = []
    optimizer = torch.optim.Adam([*module.parameters(), v.requires_grad_()], 0.05)
    for _ in range(10):
        loss = functional.mse_loss(module(q, k, v), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    other = getattr(bt, name)(heads=2, dim=8, causal=True)
    other.load_state_dict(module.state_dict())
    torch.testing.assert_close(other(q, k, v), module(q, k, v))
    assert module.kind in repr(module)


# ---- the API of bochner.Attention --------------------------------------------------------------------------------------


def signature(function):
    """The parameters in their order: names, kinds and defaults, without those that only apply to tensors."""
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, None if p.name == "device" else p.default) for p in found if p.name not in ("self", "dtype")]


def test_signatures_match_the_numpy_api():
    assert signature(bt.attention) == signature(bochner.attention)
    assert signature(bt.Attention) == signature(bochner.Attention)
    assert inspect.signature(bt.Attention).parameters["kind"].default == inspect.signature(bt.attention).parameters["kind"].default == "softmax"
    for function in (bt.attention, bt.Attention):
        settings = inspect.signature(function).parameters["settings"].annotation
        assert settings == inspect.signature(getattr(bochner, function.__name__)).parameters["settings"].annotation
    for name, kind in [("RandomFeature", "rfa"), ("Favor", "favor"), ("Dark", "dark"), ("Hybrid", "hybrid"), ("Delta", "delta"), ("Ridge", "ridge")]:
        module = getattr(bt, f"{name}Attention")
        assert module(heads=2, dim=4, causal=True).kind == kind
        assert set(inspect.signature(module).parameters) == {"self", "kind", "settings"} - {"self"}
    for name in ("forward", "calibrate"):
        assert list(inspect.signature(getattr(bt.Attention, name)).parameters)[1:3] == ["q", "k"]


Q = np.ones((1, 2, 3, 4), np.float32)


@pytest.mark.parametrize(
    ("change", "settings"),
    [
        ({}, {"kind": "nothing"}),
        ({}, {"kind": 3}),
        ({}, {"featurs": 3}),
        ({}, {"featurs": None}),
        ({}, {"heads": 2}),
        ({}, {"kind": "favor", "draw": "nothing"}),
        ({}, {"kind": "favor", "features": -1}),
        ({}, {"kind": "favor", "features": "many"}),
        ({}, {"kind": "softmax", "scale": -1.0}),
        ({}, {"precision": "float8"}),
        ({"k": Q[:, :, :, :3]}, {}),
        ({"k": Q[:, :, :2]}, {}),
        ({"v": Q[:, :1]}, {}),
        ({"k": Q[:, :, :0], "v": Q[:, :, :0]}, {}),
        ({}, {"kind": "gla", "causal": True, "log_gate": Q[..., 0]}),
        ({}, {"kind": "rfa", "sigma": Q}),
        ({}, {"kind": "rfa-gate", "causal": True, "log_gate": Q}),
    ],
)
def test_error_messages_match_the_numpy_api(change, settings):
    inputs = {"q": Q, "k": Q, "v": Q, **change}
    with pytest.raises((TypeError, ValueError)) as actual:
        bochner.attention(**inputs, **settings)
    tensors = {name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value for name, value in {**inputs, **settings}.items()}
    with pytest.raises((TypeError, ValueError)) as reference:
        bt.attention(**tensors)
    assert str(reference.value) == str(actual.value) and reference.type is actual.type


def test_unknown_arguments_of_modules_are_refused():
    for call in (
        lambda **inputs: bt.attention(*torch.ones(3, 1, 2, 3, 4).unbind(), **inputs),
        lambda **inputs: bt.Attention("favor", heads=2, dim=4, **inputs),
        lambda **inputs: bt.FavorAttention(heads=2, dim=4, **inputs),
        lambda **inputs: bt.MultiheadAttention(8, 2, **inputs),
        lambda **inputs: bt.replace_attention(torch.nn.Linear(2, 2), "favor", **inputs),
        lambda **inputs: bt.register_transformers("another", "favor", **inputs),
    ):
        for value in (None, 8):
            with pytest.raises(TypeError, match="unknown setting 'featurs'; did you mean 'features'"):
                call(featurs=value)
    with pytest.raises(bochner.InvalidArgumentError, match="CPU.*'cuda'"):
        bt.attention(*torch.ones(3, 1, 2, 3, 4).unbind(), device="cuda")


def test_precision_of_tensors():
    q, k, v = torch.randn(3, 1, 2, 30, 8).unbind()
    expected = sdpa(q.double(), k.double(), v.double())
    module = bt.Attention(heads=2, dim=8, precision="float64")
    for out in (bt.attention(q, k, v, precision="float64"), module(q, k, v)):
        assert out.dtype == torch.float32
        torch.testing.assert_close(out, expected.float(), rtol=0, atol=1e-7)
    low = bt.attention(q, k, v, precision="bfloat16")
    assert 1e-4 < (low - expected).abs().max() < 0.05


# ---- MultiheadAttention ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kdim", [None, 24])
@pytest.mark.parametrize("bias", [False, True])
def test_multihead_attention_equals_that_of_pytorch(batch_first, kdim, bias):
    reference = torch.nn.MultiheadAttention(32, 4, bias=bias, batch_first=batch_first, kdim=kdim, vdim=kdim)
    actual = bt.MultiheadAttention(32, 4, bias=bias, batch_first=batch_first, kdim=kdim, vdim=kdim, kind="softmax")
    missing = actual.load_state_dict(reference.state_dict())
    assert not missing.missing_keys and not missing.unexpected_keys
    assert list(actual.state_dict()) == list(reference.state_dict())
    q = torch.randn(3, 7, 32)
    x = q if kdim is None else torch.randn(3, 9, kdim)
    if not batch_first:
        q, x = q.transpose(0, 1), x.transpose(0, 1)
    expected, weights = reference(q, x, x)
    out, found = actual(q, x, x, need_weights=True)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found, weights, rtol=1e-4, atol=1e-5)
    assert actual(q, x, x)[1] is None
    _, heads = actual(q, x, x, need_weights=True, average_attn_weights=False)
    assert heads.shape == (3, 4, *found.shape[1:])


@pytest.mark.parametrize("causal", [False, True])
def test_padding_is_left_out(causal):
    reference = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    actual = bt.MultiheadAttention(32, 4, batch_first=True, kind="softmax")
    actual.load_state_dict(reference.state_dict())
    x = torch.randn(3, 8, 32)
    padding = torch.zeros(3, 8, dtype=torch.bool)
    padding[0, 5:], padding[1, 2:] = True, True
    mask = torch.ones(8, 8).triu(1).bool() if causal else None
    expected, _ = reference(x, x, x, key_padding_mask=padding, attn_mask=mask)
    out, _ = actual(x, x, x, key_padding_mask=padding, attn_mask=mask)
    torch.testing.assert_close(out[~padding], expected[~padding], rtol=1e-4, atol=1e-5)
    out.sum().backward()
    additive = torch.zeros(3, 8).masked_fill(padding, float("-inf"))
    torch.testing.assert_close(actual(x, x, x, key_padding_mask=additive, attn_mask=mask)[0], out)
    with pytest.raises(ValueError, match="-inf only"):
        actual(x, x, x, key_padding_mask=additive.clamp(min=-1))
    with pytest.raises(ValueError, match="without keys"):
        actual(x, x, x, key_padding_mask=torch.ones(3, 8, dtype=torch.bool))


def test_every_call_decides_whether_it_is_causal():
    x = torch.randn(2, 6, 32)
    for kind in ("softmax", "rfa"):  # rfa has a parameter
        torch.manual_seed(3)
        free = bt.MultiheadAttention(32, 4, batch_first=True, kind=kind, causal=False)
        torch.manual_seed(3)
        causal = bt.MultiheadAttention(32, 4, batch_first=True, kind=kind, causal=True)
        assert list(free.state_dict()) == list(causal.state_dict())
        assert all(parameter.device.type == "cpu" for parameter in free.parameters())
        torch.testing.assert_close(free(x, x, x, is_causal=True)[0], causal(x, x, x)[0])
        assert not torch.allclose(free(x, x, x)[0], causal(x, x, x)[0])


def test_masks():
    actual = bt.MultiheadAttention(32, 4, batch_first=True, kind="favor", features=32)
    x = torch.randn(2, 6, 32)
    boolean = torch.ones(6, 6).triu(1).bool()
    additive = torch.zeros(6, 6).masked_fill(boolean, float("-inf"))
    expected = actual(x, x, x, is_causal=True)[0]
    for mask in (boolean, additive, additive.repeat(8, 1, 1)):
        torch.testing.assert_close(actual(x, x, x, attn_mask=mask)[0], expected)
    torch.testing.assert_close(actual(x, x, x, attn_mask=torch.zeros(6, 6))[0], actual(x, x, x)[0])
    assert not torch.allclose(actual(x, x, x)[0], expected)
    changed = x.clone()
    changed[:, 4:] += 1
    assert torch.equal(actual(changed, changed, changed, is_causal=True)[0][:, :4], expected[:, :4])
    for mask in (boolean.T, additive * 0 + 0.5, torch.ones(6, 6).triu(1)):
        with pytest.raises(ValueError, match="causal mask"):
            actual(x, x, x, attn_mask=mask)


@pytest.mark.parametrize("kind", ["favor", "rfa-gate", "gla", "gated-delta", "gated-ridge", "hybrid"])
def test_inside_a_transformer_layer(kind):
    settings = {} if kind in ("favor",) else {"causal": True}
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    layer.self_attn = bt.MultiheadAttention(32, 4, batch_first=True, kind=kind, features=32, **settings)
    x = torch.randn(2, 10, 32)
    trained = layer.train()(x)
    trained.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in layer.parameters())
    with torch.no_grad():  # eval must not take the fast path of PyTorch, which is softmax attention
        torch.testing.assert_close(layer.eval()(x), trained.detach(), rtol=1e-4, atol=1e-5)


def test_replace_attention_keeps_the_weights():
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True), 2).eval()
    x = torch.randn(2, 10, 32)
    padding = torch.zeros(2, 10, dtype=torch.bool)
    padding[0, 6:] = True
    with torch.no_grad():
        expected, padded = encoder(x), encoder(x, src_key_padding_mask=padding)
        assert bt.replace_attention(encoder, "softmax") == 2
        with pytest.warns(UserWarning, match="dropout of 0.1"):
            bt.replace_attention(torch.nn.TransformerEncoderLayer(32, 4), "favor")
        torch.testing.assert_close(encoder(x), expected, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(encoder(x, src_key_padding_mask=padding)[~padding], padded[~padding], rtol=1e-3, atol=1e-4)
    assert bt.replace_attention(encoder, "favor") == 0


def test_copies_and_redraws():
    module = bt.FavorAttention(heads=2, dim=8, features=16)
    q, k, v = torch.randn(3, 1, 2, 9, 8).unbind()
    first = module(q, k, v)
    torch.testing.assert_close(copy.deepcopy(module)(q, k, v), first)
    module.redraw(1)
    assert not torch.allclose(module(q, k, v), first)
    module.redraw(0)
    torch.testing.assert_close(module(q, k, v), first)
    better = bt.Attention("favor++", heads=2, dim=8, features=16)
    with pytest.raises(bochner.BochnerError, match="calibrat"):
        better(q, k, v)
    better.calibrate(q, k)
    assert better(q, k, v).isfinite().all()
    with pytest.raises(ValueError, match="calibrate it"):
        copy.deepcopy(better)
    module.redraw(5)
    torch.testing.assert_close(copy.deepcopy(module)(q, k, v), module(q, k, v))


# ---- dtypes, devices -------------------------------------------------------------------------------------------------


def test_autocast_and_low_precision():
    module = bt.MultiheadAttention(32, 4, batch_first=True, kind="favor", features=64, causal=True)
    x = torch.randn(2, 40, 32, requires_grad=True)
    full = module(x, x, x)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = module(x, x, x)[0]
        low.float().sum().backward()
    assert low.dtype == torch.bfloat16 and x.grad.dtype == torch.float32
    assert 0 < (low.float() - full).abs().max() < 0.05
    q, k, v = torch.randn(3, 1, 2, 9, 8).bfloat16().unbind()
    assert bt.attention(q, k, v).dtype == torch.bfloat16


def test_strides_and_shapes():
    q, k, v = torch.randn(3, 2, 9, 4, 8).unbind()  # batch, tokens, heads, columns
    views = [tensor.transpose(1, 2) for tensor in (q, k, v)]
    torch.testing.assert_close(bt.attention(*views), sdpa(*views), rtol=1e-4, atol=1e-5)
    grouped = bt.attention(views[0], views[1][:, :2], views[2][:, :2])
    expected = sdpa(views[0], views[1][:, [0, 0, 1, 1]], views[2][:, [0, 0, 1, 1]])
    torch.testing.assert_close(grouped, expected, rtol=1e-4, atol=1e-5)


def test_the_numpy_api_reads_tensors():
    q, k, v = torch.randn(3, 2, 9, 8).unbind()
    np.testing.assert_allclose(bochner.attention(q, k, v), sdpa(q, k, v).numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="q"):
        bochner.attention(q.clone().requires_grad_(), k, v)


def test_bad_input():
    q = torch.randn(1, 2, 3, 4)
    for call, message in [
        (lambda: bt.attention(q[0], q, q), "need 4 dimensions"),
        (lambda: bt.attention(q.numpy(), q, q), "expected tensors"),
        (lambda: bt.attention(q, q[:, :, :2], q), r"v has shape \(1, 2, 3, 4\); expected \(1, 2, 2, 4\)"),
        (lambda: bt.attention(q * float("nan"), q, q), "q"),
        (lambda: bt.MultiheadAttention(30, 4), "multiple"),
        (lambda: bt.MultiheadAttention(32, 4, dropout=0.1), "dropout"),
        (lambda: bt.Attention("nothing", heads=2, dim=4), "kind"),
    ]:
        with pytest.raises((ValueError, RuntimeError), match=message):
            call()


# ---- language models -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_language_model_equals_that_of_the_library(kind, tmp_path):
    model = bochner.Model.create(layers=2, width=32, heads=4, key_heads=2, context=32, attention=kind, seed=3)
    generator = np.random.default_rng(1)
    for name, values in model.weights.items():  # zeros and ones of a new model would hide differences
        model.weights[name] = values + 0.1 * generator.standard_normal(values.shape).astype(np.float32)
    module = bt.LanguageModel(model)
    assert set(module.state_dict()) == set(bt.state_dict(model))
    ids = torch.from_numpy(generator.integers(0, 256, 24))
    torch.testing.assert_close(module(ids[None])[0], torch.from_numpy(model.logits(ids.numpy())), rtol=2e-3, atol=2e-3)
    optimizer = torch.optim.Adam(module.parameters(), 1e-2)
    losses = []
    for _ in range(5):
        loss = functional.cross_entropy(module(ids[None, :-1])[0], ids[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    module.to_model().save(tmp_path / "model")  # the files of the library contain the weights trained by PyTorch
    again = bt.LanguageModel(tmp_path / "model")
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    torch.testing.assert_close(again(ids[None]), module(ids[None]))
    torch.testing.assert_close(copy.deepcopy(module)(ids[None]), module(ids[None]))


@pytest.mark.parametrize("settings", [
    {"mlp": "swiglu", "norm": "layer", "bias": True, "untied": True},
    {"mlp": "gelu", "positions": "learned", "residual": "parallel", "head_bias": True},
    {"mlp": "geglu", "positions": "none", "residual": "shared", "attention_bias": True},
    {"mlp": "gelu-tanh", "residual": "sandwich", "embedding_scale": 2.0, "logit_scale": 0.5, "residual_scale": 0.7},
    {"mlp": "silu", "residual": "after", "rotated": 4},
    {"mlp": "none"},
])  # fmt: skip
def test_language_models_of_other_shapes(settings):
    model = bochner.Model.create(layers=2, width=32, heads=4, context=32, attention="softmax", seed=3, **settings)
    generator = np.random.default_rng(1)
    for name, values in model.weights.items():
        model.weights[name] = values + 0.1 * generator.standard_normal(values.shape).astype(np.float32)
    ids = generator.integers(0, 256, 24)
    expected = torch.from_numpy(model.logits(ids))
    torch.testing.assert_close(bt.LanguageModel(model)(torch.from_numpy(ids)[None])[0], expected, rtol=1e-3, atol=1e-3)


def noisy(model):
    """Changes all weights, because zeros and ones of a new model would hide differences."""
    generator = np.random.default_rng(1)
    for name, values in model.weights.items():
        model.weights[name] = values + 0.1 * generator.standard_normal(values.shape).astype(np.float32)
    return model


STACKS = {
    "windows": [{"repeat": 2, "attention": "softmax", "window": 6, "rope_base": 100.0}, {"attention": "softmax"}],
    "hybrid": [{"repeat": 3, "attention": "gated-delta"}, {"attention": "softmax", "key_heads": 1, "positions": "none"}],
    "heads": [{"attention": "gla", "heads": 2}, {"attention": "favor", "features": 8, "heads": 8, "rotated": 2}],
    "shapes": [
        {"mlp": "swiglu", "residual": "sandwich", "attention": "softmax", "residual_scale": 0.5},
        {"mlp": "gelu", "residual": "after", "hidden": 24, "norm": "layer", "norm_epsilon": 1e-3},
        {"mlp": "none", "attention": "rfa-gate", "output_norm": True},
    ],
}


@pytest.mark.parametrize("name", STACKS)
def test_language_models_of_several_blocks(name, tmp_path):
    """The layers of a stack differ in window, base of RoPE, kind of attention, heads, MLP, residual rule and norm."""
    model = noisy(bochner.Model.create(layers=5, width=32, heads=4, context=32, seed=3, blocks=STACKS[name]))
    module = bt.LanguageModel(model)
    ids = torch.from_numpy(np.random.default_rng(2).integers(0, 256, 24))
    torch.testing.assert_close(module(ids[None])[0], torch.from_numpy(model.logits(ids.numpy())), rtol=2e-3, atol=2e-3)
    functional.cross_entropy(module(ids[None, :-1])[0], ids[1:]).backward()
    assert all(parameter.grad is not None for parameter in module.parameters())
    module.to_model().save(tmp_path / "model")
    again = bt.LanguageModel(tmp_path / "model")
    assert again.config["blocks"] == module.config["blocks"] and again.blocks == module.blocks
    torch.testing.assert_close(again(ids[None]), module(ids[None]))
    torch.testing.assert_close(copy.deepcopy(module)(ids[None]), module(ids[None]))


def test_language_models_that_were_linearized():
    """Layers that keep softmax, with another base of RoPE, next to layers whose attention was replaced."""
    text = "the cat sat on the mat, and the dog sat on the log. " * 20
    blocks = [{"repeat": 2, "window": 8, "rope_base": 100.0}, {}]
    teacher = bochner.Model.create(layers=4, width=32, heads=2, context=32, attention="softmax", blocks=blocks, seed=2)
    for keep, kinds in ((None, ["softmax", "softmax", "favor", "softmax"]), ([3], ["favor", "favor", "favor", "softmax"])):
        student = teacher.linearize(text, "favor", features=8, keep_softmax=keep, steps=1, transfer_steps=1, batch=2)
        assert student.attention == kinds
        ids = np.random.default_rng(2).integers(0, 256, 24)
        expected = torch.from_numpy(noisy(student).logits(ids))
        torch.testing.assert_close(bt.LanguageModel(student)(torch.from_numpy(ids)[None])[0], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["qwen2-window", "qwen3-window", "gemma3-plain"])
def test_pretrained_language_models_with_windows(name):
    model = bochner.Model.load(FAMILIES / name)
    ids = np.arange(30) % model.vocab
    expected = torch.from_numpy(model.logits(ids))
    torch.testing.assert_close(bt.LanguageModel(model)(torch.from_numpy(ids)[None])[0], expected, rtol=1e-3, atol=1e-4)


def test_unsupported_blocks_are_named():
    for settings, message in (({"mixer": "ssm"}, "mixer 'ssm'"), ({"rope_scaling": {"kind": "linear", "factor": 2.0}}, "rope_scaling")):
        model = bochner.Model.create(layers=4, width=32, heads=2, attention="softmax", blocks=[{"repeat": 3}, settings])
        with pytest.raises(bochner.UnsupportedError, match=message):
            bt.LanguageModel(model)


def test_state_dicts_are_checked():
    model = bochner.Model.create(layers=1, width=32, heads=2, context=32)
    weights = bt.state_dict(model)
    with pytest.raises(KeyError, match="no tensor"):
        bt.load_state_dict(model, dict(list(weights.items())[1:]))
    with pytest.raises(KeyError, match="no weight"):
        bt.load_state_dict(model, {**weights, "other": torch.zeros(1)})
    with pytest.raises(ValueError, match="shape"):
        bt.load_state_dict(model, {name: tensor[:1] for name, tensor in weights.items()})
    with pytest.raises(ValueError, match="mixer"):
        bt.LanguageModel(bochner.Model.create(layers=1, width=32, heads=2, mixer="ssm"))
