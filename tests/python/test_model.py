"""Models, tokenizers, sessions and generation, compared with transformers' logits and with the command."""

import copy
import gc
import itertools
import json
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import bochner
from bochner._sessions import _TextStream

from conftest import PROGRAM, SOURCE

FAMILIES = SOURCE / "tests" / "data" / "families"
needs_command = pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")


def tiny(**settings):
    return bochner.Model.create(**{"layers": 2, "width": 32, "heads": 2, "context": 64, "features": 16, **settings})


@pytest.fixture(scope="module")
def model():
    return tiny(attention="favor", seed=3)


@pytest.fixture(scope="module")
def directory(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny"
    model.save(path)
    return path


@pytest.fixture(scope="module")
def words():
    """A model with a byte-pair tokenizer, whose end token ends a text."""
    text = "the cat and the dog sat on the mat, größer than 漢字 " * 30
    return tiny(tokenizer=bochner.Tokenizer.train(text, vocab=300), attention="softmax", seed=5)


@pytest.fixture(scope="module")
def framed(words):
    """A model whose tokenizer prepends a special token to a text."""
    contents = json.loads(words.tokenizer.tobytes())
    name, end = "<|endoftext|>", words.tokenizer.end
    token, text = {"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    contents["post_processor"] = {
        "type": "TemplateProcessing", "single": [token, text], "pair": [token, text, text],
        "special_tokens": {name: {"id": name, "ids": [end], "tokens": [name]}},
    }  # fmt: skip
    return tiny(tokenizer=bochner.Tokenizer.frombytes(json.dumps(contents).encode()), seed=6)


def run_command(*arguments, **options):
    """Runs the program. Returns its output."""
    done = subprocess.run([str(PROGRAM), *map(str, arguments)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(*arguments, **options):
    return json.loads(run_command(*arguments, **options))


def run_python(program, timeout=60):
    """Runs a program in another process. Returns its output."""
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(bochner.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=timeout, env=environment
    )
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}"
    return done.stdout


def tensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    types = {"F32": np.float32, "I32": np.int32, "I64": np.int64}
    header = json.loads(data[8 : 8 + size])
    return {
        name: np.frombuffer(data[8 + size :][slice(*entry["data_offsets"])], types[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__"
    }


# ---- models ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.name for path in FAMILIES.iterdir()))
def test_logits_match_transformers(name):
    with bochner.Model.load(FAMILIES / name) as model:
        reference = tensors(FAMILIES / name / "reference.safetensors")
        expected = reference["logits"]
        found = model.logits(reference["input_ids"])[reference["rows"]]
        assert np.abs(found - expected).max() <= 2e-5 * np.abs(expected).max()  # as in tests/model/test_reference.c
        prompt, following = reference["greedy"][:16], reference["greedy"][16:].tolist()
        greedy = model.generate(prompt, max_tokens=len(following), greedy=True, ignore_end=True)
        assert greedy.run().ids == following
        assert greedy.text() == "" and model.tokenizer is None
        again = bochner.Model.create(**model.config)
        assert again.config == model.config and len(again.weights) == len(model.weights)


def test_properties(model):
    assert (model.layers, model.context, model.vocab, model.storage) == (2, 64, 256, "float32")
    assert model.attention == ["favor", "favor"]
    assert model.nbytes >= 4 * model.parameters > 0
    assert model.config.width == 32 and model.config.mlp == "relu2" and model.config["features"] == 16
    assert "favor" in repr(model) and "<table>" in model._repr_html_()
    again = bochner.Model.create(**{name: value for name, value in model.config.items() if name != "vocab"})
    assert np.array_equal(again.logits("abc"), model.logits("abc"))


@pytest.mark.parametrize(
    "settings",
    [
        {"attention": "hybrid", "window": 8},
        {"attention": {"kind": "linear", "kernel": "rbf"}},
        {"mixer": "ssm", "features": None, "state_size": 4},
        {"mlp": "swiglu", "norm": "layer", "positions": "learned", "untied": True, "attention_bias": True},
        {"preset": "tiny", "key_heads": 1, "rope_scaling": {"kind": "linear", "factor": 2.0}},
    ],
)
def test_create_with_settings(settings):
    model = tiny(**settings)
    assert np.isfinite(model.logits("hello")).all()
    for name in ("mixer", "mlp", "norm", "positions", "untied", "attention_bias", "key_heads"):
        if name in settings:
            assert model.config[name] == settings[name]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"widht": 3}, "did you mean 'width'"),
        ({"layers": -1}, "not negative"),
        ({"layers": 2.5}, "layers"),
        ({"attention": "nothing"}, "not known"),
        ({"attention": {"kind": "favor", "feature": 3}}, "did you mean 'features'"),
        ({"preset": "giant"}, "tiny, small, base"),
        ({"mlp": "nothing"}, "mlp"),
        ({"width": 33}, "heads"),
        ({"precision": "float16"}, "precision"),
        ({"tokenizer": "/nonexistent"}, "nonexistent"),
        ({"blocks": []}, "blocks: expected a list"),
        ({"blocks": {"heads": 2}}, "blocks: expected a list"),
        ({"blocks": [3]}, r"blocks\[0\]: expected a mapping"),
        ({"blocks": [{}, {"heds": 2}]}, r"blocks\[1\]: .*did you mean 'heads'"),
        ({"blocks": [{}, {"width": 32}]}, r"blocks\[1\]: unknown setting 'width'"),
        ({"blocks": [{}, {"heads": 3}]}, "block 1: .*heads"),
        ({"blocks": [{"repeat": -1}]}, "repeat"),
        ({"blocks": [{"positions": "learned"}, {}]}, "same positions"),
        ({"repeat": 2}, "unknown setting 'repeat'"),
        ({"block": "parallel"}, "did you mean 'blocks'"),
        ({"encoder": {"heads": 2}}, "encoder requires the task translate"),
        ({"task": "translate", "encoder": [{}]}, "encoder: expected a mapping"),
        ({"replaced": "softmax", "mixer": "ssm"}, "replaces"),
    ],
)
def test_create_refuses(settings, message):
    with pytest.raises((bochner.BochnerError, TypeError), match=message):
        tiny(**settings)


# ---- blocks ---------------------------------------------------------------------------------------------------------

STACKS = {
    "local": [{"repeat": 5, "attention": "softmax", "window": 8, "rope_base": 100.0}, {"attention": "softmax", "rope_base": 1e6}],
    "hybrid": [{"repeat": 3, "attention": "gated-delta"}, {"attention": "softmax", "positions": "none"}],
    "mixers": [{"mixer": "ssm", "state_size": 4}, {"attention": {"kind": "linear", "kernel": "rbf"}, "mlp": "swiglu"}, {"mixer": "rnn"}],
    "one": [{"repeat": 2, "attention": "hybrid", "window": 4, "gate": "decay", "mlp": "random-features"}],
    "shapes": [{"heads": 4, "key_heads": 2, "hidden": 24, "residual": "parallel"}, {"norm": "layer", "query_norm": False,
               "rope_scaling": {"kind": "linear", "factor": 2.0}, "attention": "softmax", "scale": 0.3}],
}  # fmt: skip


@pytest.mark.parametrize("name", STACKS)
def test_blocks(name, tmp_path):
    """Every layer has the settings of its block, and files and settings contain them."""
    settings = STACKS[name]
    model = tiny(layers=7, blocks=settings, seed=3)
    found = model.config.blocks
    assert len(found) == len(settings)
    for block, required in zip(found, settings):
        assert {name: block[name] for name in required} == (required if len(settings) > 1 else {**required, "repeat": 1})
    order = [block for block in settings for _ in range(block.get("repeat", 1))]
    for layer, kind in enumerate(model.attention):
        expected = order[layer % len(order)]
        required = expected.get("mixer") or expected.get("attention", "rfa-gate")
        assert kind == (required if isinstance(required, str) else required["kind"])
    logits = model.logits("to be or not to be")
    model.save(tmp_path / "model")
    copies = [bochner.Model.load(tmp_path / "model"), bochner.Model.frombytes(model.tobytes()),
              bochner.Model.create(**{name: value for name, value in model.config.items() if name != "vocab"})]  # fmt: skip
    for other in copies:
        assert np.array_equal(other.logits("to be or not to be"), logits)
        assert other.config == model.config
    session = model.session()
    session.feed("to be or ")
    np.testing.assert_allclose(session.feed("not to be"), logits[-1], atol=1e-4)
    assert model.train("to be or not to be " * 40, steps=2, batch=2).step == 2


def test_settings_of_all_blocks():
    """Settings outside the list apply to all blocks, unless a block overrides them. None is the default."""
    model = tiny(
        layers=4, attention="softmax", window=8, mlp="swiglu", key_heads=1,
        blocks=[{"mlp": "gelu"}, {"window": None}, {"attention": "rfa", "window": None, "features": 6}, {"key_heads": None}],
    )  # fmt: skip
    blocks = model.config.blocks
    assert [block["mlp"] for block in blocks] == ["gelu", "swiglu", "swiglu", "swiglu"]
    assert [block["window"] for block in blocks] == [8, 0, 0, 8]
    assert [block["attention"] for block in blocks] == ["softmax", "softmax", "rfa", "softmax"]
    assert [block["key_heads"] for block in blocks] == [1, 1, 1, 2] and blocks[2]["features"] == 6
    assert model.config.heads == 2 and "mlp" not in model.config and "window" not in model.config
    assert str(blocks) == "1 x softmax with window 8, 1 x softmax, 1 x rfa, 1 x softmax with window 8"
    mapped = tiny(blocks=[{"attention": {"kind": "favor", "features": 4}}, {"attention": {"kind": "favor"}, "features": 5}])
    assert [block["features"] for block in mapped.config.blocks] == [4, 5]


@pytest.mark.parametrize("extra_blocks", [[], [{"mlp": "gelu"}]])
def test_blocks_with_lists_of_layers(extra_blocks):
    """`layers` of a model is a number, and that of a block is a list of layers."""
    inner = '[{"type": "linear", "width": 8}, {"type": "tanh"}, {"type": "linear", "width": 32}]'
    model = tiny(layers=2, blocks=[{"layers": inner}, *extra_blocks])
    assert model.config.layers == 2 and json.loads(model.config.blocks[0]["layers"])[1]["type"] == "tanh"
    again = bochner.Model.create(**{name: value for name, value in model.config.items() if name != "vocab"})
    assert again.config == model.config and again.weights.keys() == model.weights.keys()


def test_lists_of_layers_replace_a_shared_mlp():
    inner = '[{"type": "linear", "width": 8}, {"type": "tanh"}, {"type": "linear", "width": 32}]'
    model = tiny(mlp="swiglu", blocks=[{"layers": inner}, {}])
    assert [block["mlp"] for block in model.config.blocks] == ["layers", "swiglu"]
    with pytest.raises(bochner.BochnerError):
        tiny(blocks=[{"layers": inner, "mlp": "swiglu"}, {}])


@pytest.mark.parametrize("kind", bochner.attention_kinds())
def test_settings_of_kinds_are_complete(kind):
    model = tiny(attention=kind, features=None, seed=3)
    assert model.config.attention == kind and len(model.config.blocks) == 1
    again = bochner.Model.create(**{name: value for name, value in model.config.items() if name != "vocab"})
    assert again.config == model.config and again.weights.keys() == model.weights.keys()


def test_encoders_have_blocks():
    settings = {"task": "translate", "attention": "rfa-gate", "layers": 3}
    config = tiny(**settings, encoder={"attention": "softmax", "mlp": "gelu"}, encoder_layers=2).config
    assert [block["attention"] for block in config.encoder_blocks] == ["softmax"] and config.attention == "rfa-gate"
    assert config.encoder_blocks[0]["mlp"] == "gelu" and config.mlp == "relu2" and config.cross_attention == "rfa"
    config = tiny(**settings, cross_attention="softmax", encoder={"mlp": "gelu"},
                  encoder_blocks=[{"attention": "favor"}, {"mlp": "relu"}]).config  # fmt: skip
    assert [(block["attention"], block["mlp"]) for block in config.encoder_blocks] == [("favor", "gelu"), ("rfa-gate", "relu")]
    assert config.cross_attention == "softmax"
    assert [block["attention"] for block in tiny(**settings).config.encoder_blocks] == ["rfa-gate"]


def test_load_refuses(tmp_path, directory):
    with pytest.raises(OSError, match="nowhere"):
        bochner.Model.load(tmp_path / "nowhere")
    with pytest.raises(bochner.InvalidArgumentError, match="storage"):
        bochner.Model.load(directory, storage="float99")
    with pytest.raises(bochner.InvalidArgumentError, match="NUL"):
        bochner.Model.load("a\0b")
    with pytest.raises(TypeError):
        bochner.Model.load(3)
    with pytest.raises(bochner.FormatError):
        bochner.Model.frombytes(b"not a model")
    with pytest.raises(TypeError, match="path"):
        bochner.Model()


def test_saving_and_pickling(model, directory, tmp_path):
    logits = model.logits("hello")
    model.save(tmp_path / "one.safetensors")
    copies = [bochner.Model(directory), bochner.Model.load(tmp_path / "one.safetensors"), copy.deepcopy(model),
              pickle.loads(pickle.dumps(model)), bochner.Model.frombytes(bytearray(model.tobytes()))]  # fmt: skip
    for other in copies:
        assert np.array_equal(other.logits("hello"), logits)
        assert other.tokenizer == model.tokenizer


@pytest.mark.parametrize("weights, error", [("bfloat16", 0.03), ("int8", 0.05), ("int4", 0.4)])
def test_storages(model, directory, weights, error):
    small = bochner.Model.load(directory, storage=weights)
    exact = model.logits("hello")
    assert small.storage == weights and small.nbytes < model.nbytes
    assert 0 < np.linalg.norm(small.logits("hello") - exact) < error * np.linalg.norm(exact)
    with pytest.raises(bochner.BochnerError):
        small.train("the cat sat on the mat " * 50, steps=1)


def test_precision(directory, model):
    rough, text = bochner.Model.load(directory, precision="bfloat16"), "hello " * 20  # few rows are multiplied in float32
    exact = model.logits(text)
    assert rough.precision == "bfloat16" == pickle.loads(pickle.dumps(rough)).precision
    assert 0 < np.linalg.norm(rough.logits(text) - exact) < 0.05 * np.linalg.norm(exact)


def test_weights(directory):
    model = bochner.Model.load(directory)
    assert len(model.weights) == len(list(model.weights)) > 5
    assert sum(values.size for values in model.weights.values()) == model.parameters
    before, name = model.logits("hello"), "model.norm.weight"
    values = model.weights[name]
    values *= 0  # a copy
    assert np.array_equal(model.logits("hello"), before)
    model.weights[name] = values
    assert not model.weights[name].any() and not model.logits("hello").any()
    model.weights[name] = np.ones(32)[::-1]  # float64, and not contiguous
    assert np.array_equal(model.logits("hello"), before)
    assert name in model.weights and "nothing" not in model.weights
    with pytest.raises(KeyError, match="nothing"):
        model.weights["nothing"]
    with pytest.raises(bochner.InvalidArgumentError, match="shape"):
        model.weights[name] = np.ones(31)
    with pytest.raises(TypeError):
        model.weights[name] = ["a"] * 32


# ---- tokenizers -----------------------------------------------------------------------------------------------------


def test_tokenizer(tmp_path, words):
    learned = words.tokenizer
    for text in ("the cat", "größer 漢字 🙂", "", "a\0b", b"\xff\x00".decode(errors="surrogateescape")):
        ids = learned.encode(text)
        assert ids.dtype == np.int32 and learned.decode(ids, errors="surrogateescape") == text
        assert b"".join(map(learned.piece, ids.tolist())) == learned.decode_bytes(ids)
    learned.save(tmp_path / "tokenizer.json")
    for other in (bochner.Tokenizer.load(tmp_path / "tokenizer.json"), pickle.loads(pickle.dumps(learned))):
        assert other == learned and hash(other) == hash(learned) and other.vocab == len(learned) == learned.vocab
    end = learned.find("<|endoftext|>")
    assert end == learned.end and learned.is_special(end) and learned.find("no such token") is None
    assert learned.encode("<|endoftext|>").tolist() == [end]
    assert end not in learned.encode("<|endoftext|>", special=False)
    plain = bochner.Tokenizer()
    assert plain.is_bytes and pickle.loads(pickle.dumps(plain)) == plain != learned
    assert plain.piece(0) == b"\0" and plain.piece(256) == plain.piece(-1) == plain.piece(2**40) == b""
    (tmp_path / "text.txt").write_text("low lower lowest " * 50)
    from_file = bochner.Tokenizer.train(str(tmp_path / "text.txt"), 270, special=["<s>", "</s>"])
    assert from_file == bochner.Tokenizer.train([tmp_path / "text.txt"], 270, special=["<s>", "</s>"])
    assert from_file.find("</s>") is not None


def test_tokenizer_refuses(tmp_path):
    with pytest.raises(bochner.InvalidArgumentError):
        bochner.Tokenizer.train("text", 10)
    with pytest.raises(OSError):
        bochner.Tokenizer.train(tmp_path / "missing.txt", 300)
    with pytest.raises(OSError, match="no such file"):
        bochner.Tokenizer.train(str(tmp_path / "missing.txt"), 300)
    with pytest.raises(TypeError):
        bochner.Tokenizer.train(3, 300)
    with pytest.raises(bochner.InvalidArgumentError):
        bochner.Tokenizer().decode([256])
    with pytest.raises(bochner.InvalidArgumentError):
        bochner.Tokenizer().decode([1.5])
    with pytest.raises(UnicodeEncodeError):
        bochner.Tokenizer().encode("\ud800")
    with pytest.raises(bochner.FormatError):
        bochner.Tokenizer.frombytes(b"{")


def test_tokenizer_outlives_its_model(directory):
    tokenizer = bochner.Model.load(directory).tokenizer
    gc.collect()
    assert tokenizer.decode(tokenizer.encode("still here")) == "still here"


# ---- reading --------------------------------------------------------------------------------------------------------


def test_logits_and_scores_agree(model, words, framed):
    assert framed.tokenizer.encode("the cat", template=True).tolist() == [
        framed.tokenizer.end, *framed.tokenizer.encode("the cat")
    ]  # fmt: skip
    for one in (model, words, framed):
        text = "the cat and the dog"
        ids = one.tokenizer.encode(text, template=True)
        logits = one.logits(text).astype(float)
        assert logits.shape == (ids.size, one.vocab)
        assert np.array_equal(one.logits(ids), one.logits(ids.tolist()))
        chances = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        expected = chances[np.arange(ids.size - 1), ids[1:]]
        np.testing.assert_allclose(one.score(text), expected, atol=1e-5)
        np.testing.assert_allclose(one.evaluate(ids).loss, -expected.mean(), atol=1e-5)
    assert model.score("a").shape == (0,)


@pytest.mark.parametrize("bad", [[-1], [256], [1.5], [[1, 2]], ["a"], [2**40], 3, None, np.float32([1])])
def test_bad_ids(model, bad):
    with pytest.raises((bochner.InvalidArgumentError, TypeError)):
        model.session().feed(bad)
    if bad is not None:
        with pytest.raises((bochner.InvalidArgumentError, TypeError)):
            model.generate(bad)


def test_only_the_first_text_of_a_session_is_framed(framed):
    session = framed.session()
    session.feed("the cat")
    session.feed(" and the dog")
    tokenizer = framed.tokenizer
    ids = [*tokenizer.encode("the cat", template=True), *tokenizer.encode(" and the dog")]
    assert session.tokens == len(ids)
    np.testing.assert_allclose(session.feed([]), framed.logits(ids)[-1], atol=1e-5)
    assert session.generate(" sat", max_tokens=1).prompt_tokens == len(tokenizer.encode(" sat"))


def test_session(model, tmp_path):
    text = "to be or not to be"
    whole = model.logits(text)
    session = model.session()
    with pytest.raises(bochner.InvalidArgumentError):
        session.feed([])  # there are no logits yet
    assert session.tokens == 0
    np.testing.assert_allclose(session.feed(text[:7]), whole[6], atol=1e-5)
    branch = copy.copy(session)
    session.save(tmp_path / "state")
    saved = session.tobytes()
    assert session.tokens == 7 and abs(session.nbytes - len(saved)) < 8192 and "7 tokens" in repr(session)
    np.testing.assert_allclose(session.logits(text[7:]), whole[7:], atol=1e-5)
    last = session.feed([])
    np.testing.assert_allclose(branch.feed(text[7:]), last, atol=1e-5)
    for other in (model.session(state=saved), model.session(state=tmp_path / "state")):
        np.testing.assert_allclose(other.feed(text[7:]), last, atol=1e-5)
    session.reset()
    np.testing.assert_allclose(session.feed(text), last, atol=1e-5)
    session.load(tmp_path / "state")
    assert session.tokens == 7
    session.close()
    for use in (lambda: session.feed("a"), lambda: session.tokens, lambda: session.save(tmp_path / "x"), session.reset,
                lambda: session.generate(), session.fork, session.tobytes):  # fmt: skip
        with pytest.raises(bochner.InvalidArgumentError, match="closed"):
            use()


def test_states_of_other_models_are_refused(model, words, directory):
    state = model.session().tobytes()
    changed = bochner.Model.load(directory)
    changed.weights["model.norm.weight"] = np.full(32, 2)
    for other in (words, changed, tiny(seed=4, attention="favor")):
        with pytest.raises(bochner.InvalidArgumentError, match="another model|other weights|weights"):
            other.session(state=state)
    with pytest.raises(bochner.FormatError):
        model.session(state=state[: len(state) // 2])
    with pytest.raises(bochner.FormatError):
        model.session(state=b"")


def test_capacity(words):
    assert words.session().remaining == 64
    session = words.session(capacity=4)
    with pytest.raises(bochner.InvalidArgumentError, match="capacity"):
        session.feed([1, 2, 3, 4, 5])
    stream = session.generate([1, 2], max_tokens=9, seed=1, ignore_end=True)
    assert len(stream.run().ids) == 3 and stream.finish_reason == "context"  # the last token is chosen, but not read
    assert len(words.generate([1, 2], max_tokens=90, ignore_end=True).run().ids) == 90  # capacity for prompt and continuation
    with pytest.raises(bochner.InvalidArgumentError):
        words.session(capacity=-1)


def test_evaluate(model, directory, tmp_path):
    text = "the cat sat on the mat. " * 30
    (tmp_path / "text.txt").write_text(text)
    (tmp_path / "lines.jsonl").write_text(json.dumps({"words": text}) + "\n")
    expected = model.evaluate(text)
    assert expected.tokens == len(text) - 1 and expected.perplexity == pytest.approx(np.exp(expected.loss))
    for data in (tmp_path / "text.txt", str(tmp_path / "text.txt"), [tmp_path / "text.txt"], text.encode()):
        assert model.evaluate(data).loss == expected.loss
    assert model.evaluate(tmp_path / "lines.jsonl", field="words").loss == expected.loss
    assert model.evaluate(text, tokens=100).tokens == 100
    if PROGRAM.exists():
        found = command("eval", directory, "--data", tmp_path / "text.txt", "--context", 32, "--json")
        assert found["loss"] == pytest.approx(model.evaluate(text, context=32).loss, rel=1e-7)
    with pytest.raises(OSError, match="no such file"):
        model.evaluate("missing.txt")
    for data in ("", [], tmp_path, 3):
        with pytest.raises((bochner.BochnerError, TypeError)):
            model.evaluate(data)
    with pytest.raises(bochner.InvalidArgumentError):
        model.evaluate(text, context=-3)


# ---- generation -----------------------------------------------------------------------------------------------------

SAMPLING = [
    {"greedy": True},
    {"seed": 7},
    {"seed": 7, "temperature": 0.7, "top_k": 20},
    {"seed": 1, "top_p": 0.9, "repetition_penalty": 1.3},
    {"seed": 2, "min_p": 0.5},
    {"seed": 3, "temperature": 1.5, "ignore_end": True},
]


@needs_command
@pytest.mark.parametrize("options", SAMPLING)
@pytest.mark.parametrize("prompt", ["the cat", ""])
def test_tokens_match_the_command(model, words, framed, tmp_path, options, prompt):
    arguments = []
    for name, value in options.items():
        arguments += [f"--{name.replace('_', '-')}"] + ([] if value is True else [value])
    for one in (model, words, framed):
        one.save(tmp_path / "model")
        found = command("generate", tmp_path / "model", "--prompt", prompt, "--tokens", 40, "--json", *arguments)
        stream = one.generate(prompt, max_tokens=40, **options)
        assert stream.run().ids == found["ids"]
        assert stream.prompt_tokens == found["prompt_tokens"] and stream.finish_reason == found["finish_reason"]
        if "\ufffd" not in found["text"]:
            assert stream.text() == found["text"]


def test_sessions_continue_as_one_call(model):
    whole = model.generate("to be", max_tokens=24, seed=9, repetition_penalty=1.2).run().ids
    session = model.session()
    first = session.generate("to be", max_tokens=10, seed=9, repetition_penalty=1.2).run().ids
    branch = session.fork()
    for one in (session, branch):
        assert first + one.generate(max_tokens=14, seed=9, repetition_penalty=1.2).run().ids == whole
        assert one.tokens == 5 + 24


def test_an_abandoned_generation_leaves_what_was_read(model):
    session = model.session()
    stream = session.generate("to be", max_tokens=50, seed=2)
    pieces = list(itertools.islice(stream, 3))
    assert session.tokens == 5 + len(stream.ids) and stream.finish_reason is None
    assert stream.text().startswith("".join(pieces)) and len(stream.ids) == 50
    assert list(stream) == [] and stream.text() == stream.text()


def test_pieces_are_whole_characters_and_stops_are_cut():
    text = "größer than 漢字"

    def shown(*stops):
        """The text that is shown if its bytes arrive one at a time."""
        stream, pieces = _TextStream(stops), []
        for byte in text.encode():
            piece, stopped = stream.add(bytes([byte]))
            pieces.append(piece)
            if stopped:
                return "".join(pieces)
        return "".join([*pieces, stream.add(b"", last=True)[0]])

    assert shown() == shown("than 字") == shown("字!") == text
    assert (shown("than"), shown("漢"), shown("g"), shown("字", "er t")) == ("größer ", "größer than ", "", "größ")
    stream = _TextStream([])
    assert stream.add(b"a\xe6\xbc") == ("a", False) and stream.add(b"", last=True) == ("\ufffd", False)


def test_stop_words(model):
    options = {"max_tokens": 60, "seed": 11, "temperature": 0.5}
    text = model.generate_text("abc", **options)
    stop = text[20:23]
    stream = model.generate("abc", stop=["\u1234", stop], **options)
    assert stream.text() == text[: text.index(stop)] and stream.finish_reason == "stop"
    assert model.generate_text("abc", stop=stop, **options) == stream.text()


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": float("nan")},
        {"temperature": -1},
        {"temperature": float("inf")},
        {"temperature": "hot"},
        {"top_k": -1},
        {"top_k": 2.5},
        {"top_p": 1.5},
        {"min_p": -0.5},
        {"top_p": float("nan")},
        {"max_tokens": -1},
        {"max_tokens": 1.5},
        {"max_tokens": None},
        {"seed": -1},
        {"seed": 2**64},
        {"stop": [""]},
        {"stop": [3]},
        {"greedy": True, "temperature": 0.5},
        {"repetition_penalty": -1},
    ],
)
def test_generate_refuses(model, options):
    with pytest.raises(bochner.InvalidArgumentError):
        model.generate("abc", **options)


def test_odd_prompts(model):
    assert model.generate("abc", max_tokens=0).text() == ""
    first, *copies = (model.generate(prompt, max_tokens=5, seed=1).run().ids for prompt in ("", None, []))
    assert copies == [first, first]
    assert model.generate("abc", temperature=0).run().ids == model.generate("abc", greedy=True).run().ids
    assert model.generate(np.array([1, 2], np.uint8), max_tokens=np.int64(3), seed=np.uint64(2)).run().prompt_tokens == 2
    with pytest.raises(bochner.InvalidArgumentError, match="no tokenizer"):
        bochner.Model.load(FAMILIES / "llama").generate("text")
    with pytest.raises(bochner.InvalidArgumentError, match="no tokenizer"):
        bochner.Model.load(FAMILIES / "llama").generate()


@needs_command
def test_chat(words, tmp_path):
    words.save(tmp_path / "chat")
    template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]"
    (tmp_path / "chat" / "chat_template.jinja").write_text(template)
    model = bochner.Model.load(tmp_path / "chat")
    options = {"max_tokens": 12, "seed": 4, "temperature": 0.8}
    reply = model.chat([{"role": "user", "content": "Hello"}], **options).run()
    done = subprocess.run(
        [PROGRAM, "chat", tmp_path / "chat", "--json", "--tokens", "12", "--seed", "4", "--temperature", "0.8"],
        input="Hello\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert reply.prompt_tokens == found["prompt_tokens"]
    assert len([token for token in reply.ids if token not in (words.tokenizer.end,)]) == found["tokens"]
    if "\ufffd" not in found["content"]:
        assert reply.text() == found["content"]
    same = words.chat([{"role": "user", "content": "Hello"}], template=template, **options)
    assert same.run().ids == reply.ids
    with pytest.raises(OSError):
        words.chat([{"role": "user", "content": "Hello"}])
    with pytest.raises(bochner.BochnerError):
        words.chat([{"role": "user", "content": "Hello"}], template="{{ raise_exception('no') }}")


def test_chat_special_tokens():
    tokenizer = bochner.Tokenizer.train("the cat and the hat " * 50, vocab=280, special=["<user>", "<end>"])
    model = tiny(tokenizer=tokenizer)
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
    messages = [{"role": "user", "content": "a<end>b"}]
    expected = [tokenizer.find("<user>"), *tokenizer.encode("a<end>b", special=False), tokenizer.find("<end>")]
    assert model.chat(messages, template=template, max_tokens=1).run().prompt_tokens == len(expected)
    parsed = model.chat(messages, template=template, max_tokens=1, parse_special=True).run()
    assert parsed.prompt_tokens == len(tokenizer.encode("<user>a<end>b<end>"))


# ---- lifetime, threads and processes --------------------------------------------------------------------------------


def test_use_after_close(directory):
    model = bochner.Model.load(directory)
    session, weights = model.session(), model.weights
    stream = model.generate("abc", max_tokens=10, seed=1)
    next(stream)
    with model:
        pass
    model.close()
    for use in (lambda: model.logits("a"), lambda: model.generate("a"), lambda: model.session(), lambda: model.vocab,
                lambda: model.weights, lambda: model.config, lambda: model.tobytes(), lambda: pickle.dumps(model),
                lambda: model.train("a", steps=1), lambda: model.linearize("a"), lambda: model.evaluate("a"),
                lambda: model.tokenizer, lambda: model.save("x"), lambda: model.chat([])):  # fmt: skip
        with pytest.raises(bochner.InvalidArgumentError, match="closed"):
            use()
    assert repr(model) == "Model(closed)" and model._repr_html_()
    del model
    gc.collect()
    assert session.feed("abc").shape == (256,)  # objects created from the model keep it alive
    assert len(stream.run().ids) == 10 and weights["model.norm.weight"].shape == (32,)


def test_threads_share_a_model(directory):
    model = bochner.Model.load(directory)
    expected = [model.generate("abc", max_tokens=20, seed=seed).run().ids for seed in range(8)]
    found, errors = {}, []

    def work(seed):
        try:
            for _ in range(3):
                found[seed] = model.generate("abc", max_tokens=20, seed=seed).run().ids
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        model.weights["model.norm.weight"] = np.ones(32)  # waits for the readers, and changes nothing
    for thread in threads:
        thread.join()
    assert not errors and [found[seed] for seed in range(8)] == expected


def test_threads_share_a_session_and_a_generation(model):
    session = model.session()
    stream = session.generate("abc", max_tokens=200, ignore_end=True)
    threads = [threading.Thread(target=stream.run) for _ in range(4)]
    threads += [threading.Thread(target=lambda: [session.feed([1]) for _ in range(50)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stream.ids) == 200 and session.tokens == 3 + 200 + 100


def test_close_while_threads_use_it(directory):
    for _ in range(10):
        model = bochner.Model.load(directory)
        errors = []

        def work(model=model, errors=errors):
            try:
                while True:
                    model.logits("abcdefgh" * 20)
            except bochner.InvalidArgumentError as error:
                errors.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        model.logits("abc")
        model.close()
        for thread in threads:
            thread.join()
        assert errors == ["the model is closed"] * 3


@pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""), reason="ASan's allocator stays locked in a fork while another thread allocates"
)
def test_fork(directory):
    output = run_python(
        f"""
        import os, threading, bochner
        model = bochner.Model.load({str(directory)!r})
        expected = model.generate("abc", max_tokens=30, seed=1).run().ids
        session = model.session()
        session.feed("abc")
        stream = session.generate(max_tokens=20000)
        threading.Thread(target=stream.run, daemon=True).start()      # holds locks at the time of the fork
        for _ in range(10):
            child = os.fork()
            if child == 0:
                right = model.generate("abc", max_tokens=30, seed=1).run().ids == expected
                model.train("the cat sat on the mat " * 40, steps=2, batch=2)
                os._exit(0 if right else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print("done")
        """
    )
    assert output == "done\n"


@pytest.mark.parametrize(
    "body",
    [
        "stream = model.generate('abc', max_tokens=1000); next(stream)",
        "keep = model.session(); keep.feed('abc'); keep.cycle = keep",
        "start(lambda: model.generate('abc', max_tokens=10**6).run())",
        "start(lambda: model.train('the cat sat ' * 99, steps=10**6, batch=1, eval_every=10, validation=None))",
    ],
)
def test_interpreter_shutdown(directory, body):
    output = run_python(
        f"""
        import threading, time, bochner
        start = lambda work: threading.Thread(target=work, daemon=True).start()
        model = bochner.Model.load({str(directory)!r})
        {body}
        time.sleep(0.3)
        print("done")
        """
    )
    assert output == "done\n"


def test_ctrl_c_during_generation(directory):
    output = run_python(
        f"""
        import os, signal, threading, bochner
        model = bochner.Model.load({str(directory)!r})
        session = model.session()
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            session.generate("abc", max_tokens=10**8, ignore_end=True).run()
        except KeyboardInterrupt:
            print("stopped", session.tokens > 3, session.feed("abc").shape)
        model.weights["model.norm.weight"] = [1.0] * 32               # no lock is left behind
        """
    )
    assert output == "stopped True (256,)\n"
