"""Classifiers, models that match texts, and translators: the weights of the command, and what is refused."""

import pickle

import numpy as np
import pytest

import bochner

from test_model import command, needs_command, run_command, tiny
from test_networks import same_weights

WORDS = (("good", "fine", "great"), ("bad", "poor", "awful"))
LABELS = ["pos" if i % 2 == 0 else "neg" for i in range(400)]
TEXTS = [f"the film was {WORDS[i % 2][i // 2 % 3]} and the end {WORDS[i % 2][i // 3 % 3]}" for i in range(400)]
SHAPE = {"layers": 1, "width": 32, "heads": 2, "context": 64, "features": 16}
OPTIONS = [part for name, value in SHAPE.items() for part in (f"--{name}", value)]


@pytest.fixture(scope="module")
def trained():
    """A classifier and its history."""
    model = bochner.Model.create(task="classify", labels=["neg", "pos"], attention="rfa", seed=7, **SHAPE)
    return model, model.fit(TEXTS, LABELS, steps=30, seed=7)


@pytest.fixture(scope="module")
def classifier(trained):
    return trained[0]


@pytest.fixture(scope="module")
def sources():
    rng = np.random.default_rng(1)
    return ["".join(rng.choice(list("abc"), 5)) for _ in range(400)]


@pytest.fixture(scope="module")
def translator(sources):
    model = bochner.Model.create(task="translate", **{**SHAPE, "width": 64, "heads": 4})
    model.fit(sources, [text.upper() for text in sources], steps=150)
    return model


@needs_command
def test_labels_as_with_the_command(tmp_path, trained):
    classifier, history = trained
    (tmp_path / "data.tsv").write_text("".join(f"{label}\t{text}\n" for label, text in zip(LABELS, TEXTS)))
    found = command("train", "--task", "classify", "--data", tmp_path / "data.tsv", "--out", tmp_path / "run",
                    "--attention", "rfa", *OPTIONS, "--steps", 30, "--seed", 7, "--json")  # fmt: skip
    other = bochner.Model(tmp_path / "run")
    assert same_weights(classifier, other) and history.metric == "accuracy"
    assert history.valid_loss == pytest.approx(found["valid_loss"], rel=1e-6)
    assert other.classes.tolist() == ["neg", "pos"] and other.config.labels == ["neg", "pos"]
    classifier.save(tmp_path / "python")
    (tmp_path / "texts.txt").write_text("".join(text + "\n" for text in TEXTS[:20]))
    for name in ("run", "python"):
        run_command("predict", tmp_path / name, tmp_path / "texts.txt", "--proba", "--out", tmp_path / f"{name}.csv")
    lines = (tmp_path / "python.csv").read_text().splitlines()
    assert lines == (tmp_path / "run.csv").read_text().splitlines()
    written = np.array([line.split(",")[-2:] for line in lines[1:]], float)
    np.testing.assert_allclose(written, classifier.predict_proba(TEXTS[:20]), rtol=1e-5)


def test_classify(classifier):
    assert classifier.task == "classify" and classifier.evaluate(TEXTS, LABELS).accuracy == 1
    assert classifier.predict(["the film was awful", "the end was great"]).tolist() == ["neg", "pos"]
    proba = classifier.predict_proba(np.array(TEXTS[:3]))
    assert proba.shape == (3, 2) and classifier.predict([]).shape == (0,)
    assert np.array_equal(pickle.loads(pickle.dumps(classifier)).predict_proba(TEXTS[:3]), proba)
    assert classifier.evaluate(TEXTS, LABELS[::-1]).accuracy < 0.1
    again = bochner.Model.create(**{name: value for name, value in classifier.config.items() if name != "vocab"})
    assert again.config == classifier.config
    long = classifier.predict_proba(["word " * 100])  # cut to the context
    assert np.array_equal(long, classifier.predict_proba([("word " * 100)[:64]]))
    history = again.fit(TEXTS, LABELS, steps=2, validation=(TEXTS[:9], LABELS[:9]))
    assert history.metric == "accuracy" and history.valid_loss > 0
    assert np.isnan(again.fit(TEXTS, LABELS, steps=2, validation=None).valid_loss)


def test_classes_are_numbers():
    model = bochner.Model.create(task="classify", classes=3, **SHAPE)
    assert model.classes.tolist() == [0, 1, 2]
    model.fit(TEXTS, [i % 3 for i in range(400)], steps=2)
    assert model.predict(TEXTS[:5]).dtype.kind == "i"


def test_match():
    model = bochner.Model.create(task="match", classes=2, **SHAPE)
    pairs, labels = list(zip(TEXTS[:-1], TEXTS[1:])), [i % 2 for i in range(399)]
    model.fit(pairs, labels, steps=2)
    predicted = model.predict(pairs)
    assert predicted.shape == (399,) and model.evaluate(pairs, labels).accuracy == pytest.approx(
        np.mean(predicted == labels)
    )
    for wrong in (TEXTS, [("a", "b", "c")], [("a", 3)], "ab"):
        with pytest.raises(bochner.InvalidArgumentError, match="x: expected"):
            model.predict(wrong)


@needs_command
def test_translations_as_with_the_command(tmp_path, translator, sources):
    (tmp_path / "data.tsv").write_text("".join(f"{text}\t{text.upper()}\n" for text in sources))
    command("train", "--task", "translate", "--data", tmp_path / "data.tsv", "--out", tmp_path / "run", "--layers", 1,
            "--width", 64, "--heads", 4, "--context", 64, "--features", 16, "--steps", 150, "--json")  # fmt: skip
    assert same_weights(translator, bochner.Model(tmp_path / "run"))
    translator.save(tmp_path / "python")
    scores = translator.translate(sources[:1], return_scores=True)[1]
    found = command("generate", tmp_path / "python", "--prompt", sources[0], "--json")
    assert found["text"] == translator.translate(sources[:1])[0] and found["score"] == pytest.approx(
        scores[0], rel=1e-5
    )


def test_translate(translator, sources):
    found, scores = translator.translate([*sources[:20], ""], return_scores=True)
    assert len(found) == 21 and scores.shape == (21,) and (scores < 0).all()
    assert np.mean([one == text.upper() for one, text in zip(found, sources)]) > 0.8
    assert translator.translate([]) == [] and translator.classes is None
    best, better = translator.translate(sources[:20], beam=4, penalty=-1.0, return_scores=True)
    assert (better >= scores[:20] - 1e-6).all() and len(best) == 20
    assert len(translator.translate(sources[:1], max_tokens=2)[0]) <= 2
    result = translator.evaluate([f"{a} {b}" for a, b in zip(sources, sources[1:])][:30], ["X Y"] * 30)
    assert result.perplexity > 1 and result.bleu == 0 and result.examples == 30
    assert (
        translator.evaluate(sources[:30], [text.upper() for text in sources[:30]], beam=2, tokenize=False).perplexity
        < 2
    )


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda c, t: c.predict("text"), "expected a list of texts"),
        (lambda c, t: c.predict(["a\tb"]), "index 0 has a tab"),
        (lambda c, t: c.predict(["a", "b\nc"]), "index 1 has a tab, a line break"),
        (lambda c, t: c.predict([3]), "index 0, found 3"),
        (lambda c, t: c.predict([""]), "no text"),
        (lambda c, t: c.predict(TEXTS, edges=[[0, 1]]), "edges"),
        (lambda c, t: c.fit(TEXTS, LABELS[:3], steps=3), "x has 400 texts, and y has 3"),
        (lambda c, t: c.fit(TEXTS, ["new"] * 400, steps=3), 'texts, line 1: unknown class "new"'),
        (lambda c, t: c.fit(TEXTS, LABELS), "steps or minutes"),
        (lambda c, t: c.fit(TEXTS, steps=3), "y: expected labels"),
        (lambda c, t: c.fit(TEXTS, LABELS, epochs=3), "epochs"),
        (lambda c, t: c.fit(TEXTS, LABELS, steps=3, validation=1.5), "fraction"),
        (lambda c, t: c.evaluate(TEXTS), "y: expected labels"),
        (lambda c, t: c.train("text", steps=1), r"fit\(x, y\)"),
        (lambda c, t: c.translate(TEXTS), "task translate, found classify"),
        (lambda c, t: c.generate("text"), "classifies texts"),
        (lambda c, t: t.predict(TEXTS), "use translate"),
        (lambda c, t: t.predict_proba(TEXTS), "no classes"),
        (lambda c, t: t.translate("text"), "expected a list of texts"),
        (lambda c, t: t.translate(["a" * 100]), "at most 64 tokens"),
        (lambda c, t: t.translate(["a"], beam=-1), "beam"),
        (lambda c, t: t.fit(TEXTS, [3] * 400, steps=1), "y: expected a text"),
        (lambda c, t: tiny(task="classify"), "2 to 16384 classes"),
        (lambda c, t: tiny(task="classify", labels="ab"), "labels: expected a list"),
        (lambda c, t: tiny(task="classify", labels=["a", "b"], classes=3), "expected 3 names"),
        (lambda c, t: tiny(task="classify", labels=["a", "a"]), "'a'|\"a\"|twice"),
        (lambda c, t: tiny(labels=["a", "b"]), "task classify"),
    ],
)
def test_refusals(classifier, translator, call, message):
    with pytest.raises(bochner.BochnerError, match=message):
        call(classifier, translator)
