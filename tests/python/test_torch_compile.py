"""bochner.torch with the newest PyTorch and transformers: torch.compile, operator checks, attention of transformers."""

import copy

import pytest

torch = pytest.importorskip("torch", "2.4", reason="PyTorch 2.4 is not installed")

import bochner.torch as bt  # noqa: E402
from bochner.torch import _ops  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(1)
    torch._dynamo.reset()


def test_operators_are_registered_correctly():
    """Schemas, fake kernels and gradients agree with the results of the operators."""
    key = _ops.key_of_settings({"kind": "dark", "heads": 2, "dim": 4, "causal": True, "features": 8})
    for dtype in (torch.float32, torch.float64):
        q, k, v = torch.randn(3, 1, 2, 6, 4, dtype=dtype).unbind()
        m = torch.eye(4, dtype=dtype).repeat(2, 1, 1)
        tensors = [tensor.clone().requires_grad_() for tensor in (q, k, v)]
        arguments = (*tensors, None, None, m.requires_grad_(), *[None] * 7, None, None, key, False)
        checks = ("test_schema", "test_autograd_registration", "test_faketensor")
        torch.library.opcheck(_ops.forward_tape, arguments, test_utils=checks)
        torch.library.opcheck(_ops.forward, tuple(a.detach() if isinstance(a, torch.Tensor) else a for a in arguments), test_utils=checks)


@pytest.mark.parametrize("kind", ["favor", "rfa-gate", "gla", "hybrid"])
def test_compiled_layer_equals_the_eager_one(kind):
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    layer.self_attn = bt.MultiheadAttention(32, 4, batch_first=True, kind=kind, causal=True)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for tokens in (10, 14):  # another length is another graph
        x = torch.randn(2, tokens, 32)
        gradients = []
        for one in (layer, compiled):
            layer.zero_grad()
            out = one(x)
            out.square().sum().backward()
            gradients.append([out.detach(), *(parameter.grad.clone() for parameter in layer.parameters())])
        for eager, other in zip(*gradients):
            torch.testing.assert_close(eager, other, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        layer.eval()
        torch.testing.assert_close(torch.compile(layer, backend="aot_eager", fullgraph=True)(x), layer(x), rtol=1e-4, atol=1e-5)


def test_graphs_for_any_length():
    """Beyond the lengths that PyTorch compiles separately, one graph serves all."""
    module = bt.FavorAttention(heads=2, dim=8, features=16, causal=True)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    for tokens in range(5, 25):
        q, k, v = (tensor.requires_grad_() for tensor in torch.randn(3, 2, 2, tokens, 8).unbind())
        out = compiled(q, k, v)
        torch.testing.assert_close(out, module(q, k, v))
        compiled_value, reference = (torch.autograd.grad(o.square().sum(), [q, k, v]) for o in (out, module(q, k, v)))
        for one, other in zip(compiled_value, reference):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_inductor():
    module = bt.MultiheadAttention(32, 4, batch_first=True, kind="favor", causal=True)
    x = torch.randn(2, 10, 32)
    torch.testing.assert_close(torch.compile(module)(x, x, x)[0], module(x, x, x)[0], rtol=1e-4, atol=1e-5)


# ---- transformers ----------------------------------------------------------------------------------------------------

transformers = pytest.importorskip("transformers", "4.53", reason="transformers is not installed")


@pytest.fixture
def llama():
    config = transformers.LlamaConfig(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=128, pad_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def test_softmax_in_transformers_equals_sdpa(llama):
    bt.register_transformers("bochner-softmax", "softmax")
    other = copy.deepcopy(llama)
    other.set_attn_implementation("bochner-softmax")
    ids = torch.randint(1, 100, (2, 12))
    with torch.no_grad():
        torch.testing.assert_close(other(ids).logits, llama(ids).logits, rtol=1e-3, atol=1e-4)
        for side in (slice(0, 4), slice(8, 12)):  # padding before or after the text
            mask = torch.ones_like(ids)
            mask[1, side] = 0
            expected, found = llama(ids, attention_mask=mask).logits, other(ids, attention_mask=mask).logits
            torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], rtol=1e-3, atol=1e-4)
        reference = llama.generate(ids, max_new_tokens=8, do_sample=False)
        assert torch.equal(other.generate(ids, max_new_tokens=8, do_sample=False), reference)
        assert torch.equal(other.generate(ids, max_new_tokens=8, do_sample=False, use_cache=False), reference)


def test_linear_attention_in_transformers_trains(llama):
    name = bt.register_transformers("bochner-favor", "favor", features=64)
    llama.set_attn_implementation(name)
    ids = torch.randint(1, 100, (2, 12))
    optimizer = torch.optim.Adam(llama.parameters(), 1e-2)
    losses = []
    for _ in range(5):
        loss = llama.train()(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_encoders_and_refusals():
    bert = transformers.BertModel(transformers.BertConfig(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0,
    )).eval()  # fmt: skip
    ids = torch.randint(1, 100, (2, 12))
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    with torch.no_grad():
        expected = bert(ids, attention_mask=mask).last_hidden_state
        bert.set_attn_implementation(bt.register_transformers("bochner-softmax", "softmax"))
        found = bert(ids, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], rtol=1e-3, atol=1e-4)
    mistral = transformers.MistralForCausalLM(transformers.MistralConfig(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
        sliding_window=4,
    ))  # fmt: skip
    mistral.set_attn_implementation("bochner-softmax")
    with pytest.raises(ValueError, match="not supported"):
        mistral(ids)


def test_caches_and_packed_sequences(llama):
    bt.register_transformers("bochner-softmax", "softmax")
    ids = torch.randint(1, 100, (2, 12))
    with torch.no_grad():
        expected = llama.generate(ids, max_new_tokens=8, do_sample=False)
        llama.set_attn_implementation("bochner-softmax")
        found = llama.generate(ids, max_new_tokens=8, do_sample=False, cache_implementation="static")
        assert torch.equal(found, expected)
        with pytest.raises(ValueError, match="packed"):
            llama(ids, position_ids=torch.tensor([[*range(5), *range(7)]] * 2), use_cache=False)
