"""Models of the task predict: the weights and predictions of the command, data of every form, and what is refused."""

import json
import pickle
import threading

import numpy as np
import pytest

import bochner

from conftest import SOURCE
from test_model import command, needs_command, run_command, run_python, tiny

NETWORKS = SOURCE / "examples" / "networks"
MLP = {
    "input": {"kind": "array"},
    "layers": [{"type": "linear", "width": 16}, {"type": "gelu"}, {"type": "linear", "width": "classes"}],
    "loss": "cross-entropy",
}
LINEAR = {"input": {"kind": "array"}, "layers": [{"type": "linear", "width": "targets"}], "loss": "mse"}
CNN = {
    "input": {"kind": "image", "height": 8, "width": 6},
    "layers": [
        {"type": "conv", "channels": 4, "kernel": 3}, {"type": "batchnorm"}, {"type": "relu"},
        {"type": "pool", "kind": "mean", "global": True}, {"type": "linear", "width": "classes"},
    ],
    "loss": "cross-entropy",
}  # fmt: skip
GRAPH = json.loads((NETWORKS / "graph.json").read_text())
EDGES = {"undirected": True, "self_loops": True}


def table(rows=200, seed=0):
    """Rows whose class is determined by the signs of the first two columns."""
    x = np.random.default_rng(seed).standard_normal((rows, 4))
    return x, np.where(x[:, 0] * x[:, 1] > 0, "same", "other")


def graph(nodes=120, seed=0):
    """Nodes of three classes with edges within a class, and the parts of the nodes."""
    rng = np.random.default_rng(seed)
    y = np.arange(nodes) % 3
    x = np.eye(3)[y] + rng.standard_normal((nodes, 3))
    edges = np.array([(i, j) for i in range(nodes) for j in rng.integers(0, nodes, 6) if y[i] == y[j] and i != j])
    return x, y, edges, np.where(np.arange(nodes) < 30, "train", np.where(np.arange(nodes) < 60, "valid", "test"))


def same_weights(first, second):
    assert list(first.weights) == list(second.weights)
    return all(np.array_equal(first.weights[name], second.weights[name]) for name in first.weights)


@pytest.fixture(scope="module")
def fitted():
    x, y = table()
    model = bochner.Model.describe(MLP, x, y)
    model.fit(x, y, epochs=3)
    return model


# ---- the same as the command ----------------------------------------------------------------------------------------


def write_csv(path, x, y):
    rows = [",".join([*(repr(float(v)) for v in row), str(label)]) for row, label in zip(x, y)]
    path.write_text("\n".join(["a,b,c,d,kind", *rows]) + "\n")


@needs_command
def test_a_table_as_with_the_command(tmp_path):
    pandas = pytest.importorskip("pandas")
    x, y = table()
    write_csv(tmp_path / "t.csv", x, y)
    (tmp_path / "net.json").write_text(json.dumps(MLP))
    frame = pandas.read_csv(tmp_path / "t.csv")
    inputs, kinds = frame[list("abcd")], frame["kind"]
    model = bochner.Model.describe(tmp_path / "net.json", inputs, kinds, seed=3)
    history = model.fit(inputs, kinds, epochs=3, seed=3)
    found = command("train", "--model", tmp_path / "net.json", "--data", tmp_path / "t.csv", "--out", tmp_path / "run",
                    "--epochs", 3, "--seed", 3, "--json")  # fmt: skip
    other = bochner.Model(tmp_path / "run")
    assert same_weights(model, other) and history.valid_loss == pytest.approx(found["valid_loss"], rel=1e-6)
    assert history.metric == "accuracy" and history.valid_metric == pytest.approx(found["valid_accuracy"])
    for rows in (inputs, inputs[["d", "b", "a", "c"]], x):  # columns have names, or places
        assert np.array_equal(other.predict_proba(rows), model.predict_proba(inputs))
    assert other.classes.tolist() == ["other", "same"] == model.classes.tolist()
    model.save(tmp_path / "python")
    for name in ("run", "python"):
        run_command("predict", tmp_path / name, tmp_path / "t.csv", "--proba", "--out", tmp_path / f"{name}.csv")
    assert (tmp_path / "run.csv").read_text() == (tmp_path / "python.csv").read_text()
    written = pandas.read_csv(tmp_path / "python.csv")
    np.testing.assert_allclose(written[["other", "same"]], model.predict_proba(inputs), rtol=1e-5)
    assert written["prediction"].tolist() == model.predict(inputs).tolist()
    (tmp_path / "labels.csv").write_text("\n".join(["kind", *kinds]) + "\n")
    labels = {"run": [], "python": ["--labels", tmp_path / "labels.csv"]}
    python_result = model.evaluate(inputs, kinds)
    for name, option in labels.items():
        result = command("eval", tmp_path / name, "--data", tmp_path / "t.csv", *option, "--json")
        assert result["loss"] == pytest.approx(python_result.loss, rel=1e-6) and result["accuracy"] == pytest.approx(python_result.accuracy)
    assert other.evaluate(x, y).loss == python_result.loss


@needs_command
def test_images_as_with_the_command(tmp_path, rng):
    x, y = rng.integers(0, 256, (150, 8, 6)).astype(np.uint8), rng.integers(0, 3, 150)
    np.save(tmp_path / "x.npy", x.reshape(150, -1))
    np.save(tmp_path / "y.npy", y)
    (tmp_path / "net.json").write_text(json.dumps(CNN))
    command("train", "--model", tmp_path / "net.json", "--data", tmp_path / "x.npy", "--labels", tmp_path / "y.npy",
            "--out", tmp_path / "run", "--steps", 4, "--batch", 16, "--json")  # fmt: skip
    model = bochner.Model.describe(CNN, x, y)
    model.fit(x, y, steps=4, batch=16)
    other = bochner.Model(tmp_path / "run")
    assert same_weights(model, other)
    proba = model.predict_proba(x)
    for form in (x[..., None], x.reshape(150, 48), x.astype(np.float64), x.tolist()):
        assert np.array_equal(other.predict_proba(form), proba)
    assert other.classes.tolist() == [0, 1, 2] and other.predict(x).dtype.kind == "i"


@needs_command
def test_a_graph_as_with_the_command(tmp_path):
    x, y, edges, parts = graph()
    for name, array in (("x", x), ("y", y), ("edges", edges)):
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "parts.txt").write_text("\n".join(parts) + "\n")
    found = command("train", "--model", NETWORKS / "graph.json", "--data", tmp_path / "x.npy",
                    "--labels", tmp_path / "y.npy", "--graph", tmp_path / "edges.npy", "--undirected", "--self-loops",
                    "--split", tmp_path / "parts.txt",
                    "--out", tmp_path / "run", "--epochs", 30, "--json")  # fmt: skip
    model = bochner.Model.describe(NETWORKS / "graph.json", x, y, edges=edges, split=parts, **EDGES)
    history = model.fit(x, y, edges=edges, split=parts, epochs=30, **EDGES)
    assert history.steps == 30 and history.valid_metric == pytest.approx(found["valid_accuracy"])
    other = bochner.Model(tmp_path / "run")
    assert same_weights(model, other)
    tested = other.evaluate(x, y, edges=edges, split=parts, part="test", **EDGES)
    assert tested.examples == 60 and tested.accuracy > 0.5
    predicted = other.predict(x, edges=edges, **EDGES)
    assert tested.accuracy == pytest.approx(np.mean(predicted[parts == "test"] == y[parts == "test"]))
    assert not np.array_equal(other.predict_proba(x, edges=edges), other.predict_proba(x, edges=edges, **EDGES))


def test_networks_of_earlier_versions():
    files = (SOURCE / "tests" / "frozen").rglob("network.json")
    directories = sorted({path.parent for path in files if (path.parent / "model.safetensors").exists()})
    assert len(directories) > 3
    for directory in directories:
        model = bochner.Model(directory)
        facts = model.summary()
        assert model.task == "predict" and model.config["network"]["layers"] and facts.layers
        if facts.input != "graph":
            assert len(model.predict(np.zeros((3, facts.dim)))) == 3


# ---- data -----------------------------------------------------------------------------------------------------------


def test_learning(fitted):
    x, y = table(600)
    model = bochner.Model.describe({**MLP, "about": "learns"}, x, y)
    history = model.fit(x, y, epochs=40)
    assert history.step == -(-40 * 540 // 128) and history.unit == "examples"
    other, labels = table(300, seed=1)
    found = model.evaluate(other, labels)
    assert found.accuracy > 0.85 and set(found) == {"loss", "accuracy", "examples", "seconds"}
    assert found.accuracy == pytest.approx(np.mean(model.predict(other) == labels))
    proba = model.predict_proba(other)
    assert proba.shape == (300, 2) and proba.dtype == np.float32
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    "labels, expected",
    [
        (["b", "a", "label"], ["a", "b", "label"]),
        (['q"x', "a, b", "größer"], ["a, b", "größer", 'q"x']),
        ([3, -1, 10], [-1, 3, 10]),
        ([0.0, 2.0, 1.0], [0, 1, 2]),
        ([True, False, True], [0, 1]),
    ],
)
def test_classes(labels, expected, tmp_path):
    x, _ = table(60)
    y = np.array(labels)[np.arange(60) % 3]
    model = bochner.Model.describe(MLP, x, y)
    model.fit(x, y, steps=200, learning_rate=0.02)
    model.save(tmp_path / "model.safetensors")
    for one in (model, bochner.Model(tmp_path / "model.safetensors"), pickle.loads(pickle.dumps(model))):
        assert one.classes.tolist() == expected
        assert set(one.predict(x).tolist()) <= set(expected)
        assert (
            one.evaluate(x, y).accuracy == pytest.approx(np.mean(one.predict(x) == y))
            and one.evaluate(x, y).accuracy > 0.45
        )


def test_frames_with_text(tmp_path):
    pandas = pytest.importorskip("pandas")
    x, y = table()
    frame = pandas.DataFrame(x, columns=list("abcd")).assign(town=np.where(np.arange(200) % 3 == 0, "Rye", "Ely"))
    model = bochner.Model.describe(MLP, frame, y)
    assert model.summary().dim == 6
    model.fit(frame, y, epochs=2)
    changed = frame.assign(town="Rye")[["town", *"dcba"]]
    assert not np.array_equal(model.predict_proba(changed), model.predict_proba(frame))
    with pytest.raises(bochner.FormatError, match="'town'"):
        model.predict(frame[list("abcd")])
    with pytest.raises(bochner.FormatError, match="missing value"):
        model.predict(frame.assign(a=np.nan))
    holes = frame.where(frame != "Ely", None).assign(a=frame.a.where(frame.a < 1))
    filled = bochner.Model.describe(MLP, holes, y, impute="auto")
    assert filled.summary().dim > 6 and len(filled.predict(holes)) == 200
    if needs_command.args[0]:
        return
    model.save(tmp_path / "model")
    frame.to_csv(tmp_path / "x.csv", index=False)
    run_command("predict", tmp_path / "model", tmp_path / "x.csv", "--proba", "--out", tmp_path / "p.csv")
    np.testing.assert_allclose(
        pandas.read_csv(tmp_path / "p.csv")[["other", "same"]], model.predict_proba(frame), rtol=1e-5
    )


def test_numbers_and_ridge():
    x, _ = table()
    y = np.stack([3 * x[:, 0] + 5, x[:, 1] - x[:, 2]], axis=1)
    model = bochner.Model.describe(LINEAR, x, y)
    history = model.fit(x, y, epochs=20, validation=(x[:50], y[:50]))
    found = model.evaluate(x[:50], y[:50])
    assert history.metric == "rmse" and history.valid_metric == pytest.approx(found.rmse) and "accuracy" not in found
    assert found.rmse == pytest.approx(np.sqrt(np.mean((model.predict(x[:50]) - y[:50]) ** 2)), rel=1e-5)
    model.solve(x, y, regularization=1e-3)
    np.testing.assert_allclose(model.predict(x), y, atol=1e-3)
    one = bochner.Model.describe(LINEAR, x, y[:, 0])
    one.solve(x, y[:, 0], regularization=1e-3)
    assert one.predict(x).shape == (200,) and one.classes is None
    np.testing.assert_allclose(one.predict(x), y[:, 0], atol=1e-3)


def test_sequences_and_autoencoders(rng):
    x = rng.standard_normal((100, 12, 2)).astype(np.float32)
    layers = [{"type": "gru", "width": 4}, {"type": "last"}, {"type": "linear", "width": "targets"}]
    model = bochner.Model.describe(
        {"input": {"kind": "sequence", "length": 12, "channels": 2}, "layers": layers, "loss": "mse"}, x, x[:, -1, 0]
    )
    assert model.predict(x).shape == (100,) and [layer.shape for layer in model.summary().layers] == [
        "12 x 4",
        "4",
        "1",
    ]
    with pytest.raises(bochner.InvalidArgumentError, match="12 x 2"):
        model.predict(x.transpose(0, 2, 1))
    code = json.loads((NETWORKS / "autoencoder.json").read_text())
    flat = x.reshape(100, -1)
    auto = bochner.Model.describe(code, flat)
    before = auto.evaluate(flat).rmse
    auto.fit(flat, epochs=30)
    assert auto.predict(flat).shape == flat.shape and auto.evaluate(flat).rmse < before and auto.summary().reconstructs


def test_without_examples():
    x, _ = table()
    model = bochner.Model.describe({**MLP, "input": {"kind": "array", "width": 4}, "classes": 3}, seed=4)
    assert model.classes.tolist() == [0, 1, 2] and set(model.predict(x)) <= {0, 1, 2}
    y = (x[:, 0] > 0) + 1  # class 0 does not occur
    history = model.fit(x, y, epochs=20)
    assert model.evaluate(x, y).accuracy > 0.8 and history.valid_loss > 0
    for wrong, message in (
        (y + 2, "expected a class below 3"),
        (y - 2, "numbers of its classes"),
        (["a"] * 200, "numbers of its classes"),
    ):
        with pytest.raises(bochner.InvalidArgumentError, match=message):
            model.fit(x, wrong)
    nodes, kinds, edges, parts = graph()
    model = bochner.Model.describe({**GRAPH, "input": {"kind": "graph", "width": 3}, "classes": 3})
    model.fit(nodes, kinds, edges=edges, epochs=2, validation=None)
    assert model.evaluate(nodes, kinds, edges=edges).examples == 120
    with pytest.raises(bochner.InvalidArgumentError, match="split: the model was described without"):
        model.fit(nodes, kinds, edges=edges, split=parts)


def test_text_is_described_in_the_same_language():
    model = bochner.Model.describe(SOURCE / "examples" / "blocks" / "hybrid.json", tokenizer=bochner.Tokenizer())
    assert model.task == "language" and model.attention == ["gated-delta"] * 3 + ["softmax"] + ["gated-delta"] * 3 + [
        "softmax"
    ]
    assert model.logits("abc").shape == (3, 256)
    with pytest.raises(bochner.BochnerError, match="text model"):
        bochner.Model.describe(SOURCE / "examples" / "blocks" / "hybrid.json", np.ones((2, 2)))


# ---- models ---------------------------------------------------------------------------------------------------------


def test_facts(fitted):
    assert fitted.task == "predict" and fitted.layers == 3 and fitted.attention == [] and fitted.tokenizer is None
    facts = fitted.summary()
    assert (facts.input, facts.dim, facts.outputs, facts.classes, facts.loss) == ("array", 4, 2, 2, "cross-entropy")
    assert (
        facts.parameters
        == fitted.parameters
        == 4 * 16 + 16 + 16 * 2 + 2
        == sum(layer.weights for layer in facts.layers)
    )
    assert [(layer.name, layer.type) for layer in facts.layers] == [
        ("linear.1", "linear"),
        ("gelu.2", "gelu"),
        ("linear.3", "linear"),
    ]
    assert "gelu.2" in repr(facts) and "gelu.2" in facts._repr_html_() and "cross-entropy" in repr(fitted)
    assert fitted.config.network == MLP and fitted.config.schema["classes"] == ["other", "same"]
    assert "<table>" in fitted._repr_html_() and "layers" not in repr(tiny().summary())
    x, y = table()
    wide = bochner.Model.describe(json.dumps(MLP), x, y, width_multiplier=2, parametrization="mup")
    assert wide.summary().layers[0].shape == "32" and wide.summary().parametrization == "mup"


def test_saving(fitted, tmp_path):
    x, _ = table()
    fitted.save(tmp_path / "model")
    fitted.save(tmp_path / "model.safetensors")
    for other in (bochner.Model(tmp_path / "model"), bochner.Model.load(tmp_path / "model.safetensors"),
                  bochner.Model.frombytes(fitted.tobytes()), pickle.loads(pickle.dumps(fitted))):  # fmt: skip
        assert np.array_equal(other.predict_proba(x), fitted.predict_proba(x)) and other.config == fitted.config


def test_runs_resume_and_stop(tmp_path):
    x, y = table()
    whole = bochner.Model.describe(MLP, x, y)
    whole.fit(x, y, steps=12, directory=tmp_path / "whole", eval_every=6)
    part = bochner.Model.describe(MLP, x, y)
    history = part.fit(x, y, steps=12, directory=tmp_path / "part", eval_every=6, callback=lambda report: report.step < 6)
    assert history.canceled and history.step == 6
    again = bochner.Model.describe(MLP, x, y)
    again.fit(x, y, steps=12, directory=tmp_path / "part", eval_every=6, resume=True)
    assert same_weights(again, whole) and same_weights(bochner.Model(tmp_path / "part"), whole)
    reports = []
    part.fit(x, y, steps=4, eval_every=4, callback=lambda report: reports.append(part.predict(x[:2])))
    assert len(reports) >= 4
    with pytest.raises(ZeroDivisionError):
        part.fit(x, y, steps=4, eval_every=4, callback=lambda report: 1 / 0)


def test_threads(fitted):
    x, _ = table()
    expected, found = fitted.predict_proba(x), []
    threads = [threading.Thread(target=lambda: found.append(fitted.predict_proba(x))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and all(np.array_equal(one, expected) for one in found)


def test_closed_and_collected(fitted):
    output = run_python("""
        import numpy as np, bochner
        x = np.ones((3, 2))
        layers = [{"type": "linear", "width": "targets"}]
        for _ in range(20):
            model = bochner.Model.describe({"input": {"kind": "array"}, "layers": layers, "loss": "mse"}, x, x[:, 0])
            model.fit(x, x[:, 0], steps=1, validation=None)
        model.close()
        try:
            model.predict(x)
        except bochner.InvalidArgumentError as error:
            print(error)
    """)
    assert output.strip() == "the model is closed"


# ---- refusals -------------------------------------------------------------------------------------------------------

X, Y = table()
HOLES = np.where(X > 2, np.nan, X)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda m: m.predict(X[:, :3]), bochner.FormatError, "expected 5 columns|expected 4 columns"),
        (lambda m: m.predict(X[0]), ValueError, "Expected 2D"),
        (lambda m: m.predict(X[:0]), ValueError, "0 sample"),
        (lambda m: m.predict(HOLES), bochner.FormatError, "row 19, column 3: .*missing value"),
        (lambda m: m.predict(np.where(X > 2, np.inf, X)), ValueError, "infinity"),
        (lambda m: m.predict([["a", "b", "c", "d"]]), (TypeError, ValueError), "real numbers|text"),
        (lambda m: m.predict(X.reshape(200, 2, 2)), bochner.InvalidArgumentError, "a row of numbers"),
        (lambda m: m.predict(X, edges=[[0, 1]]), bochner.InvalidArgumentError, "edges"),
        (lambda m: m.evaluate(X), bochner.InvalidArgumentError, "needs targets"),
        (lambda m: m.evaluate(X, ["new"] * 200), bochner.FormatError, "class of the training data, found 'new'"),
        (lambda m: m.evaluate(X, Y, part="some"), bochner.InvalidArgumentError, "train, valid, test, all"),
        (lambda m: m.fit(X, Y[:9]), ValueError, "inconsistent numbers"),
        (lambda m: m.fit(X), bochner.InvalidArgumentError, "needs targets"),
        (lambda m: m.fit(X, np.where(X[:, 0] > 2, np.nan, 1.0)), ValueError, "y contains NaN"),
        (lambda m: m.fit(X, Y, epoch=3), TypeError, "unknown setting 'epoch'"),
        (lambda m: m.fit(X, Y, epochs=3, steps=4), bochner.InvalidArgumentError, "one of epochs, steps and minutes"),
        (lambda m: m.fit(X, Y, epochs=0), bochner.InvalidArgumentError, "epochs"),
        (lambda m: m.fit(X, Y, epochs="many"), bochner.InvalidArgumentError, "epochs"),
        (lambda m: m.fit(X, Y, validation=2), bochner.InvalidArgumentError, "fraction"),
        (lambda m: m.fit(X, Y, validation="text"), bochner.InvalidArgumentError, "fraction"),
        (lambda m: m.fit(X, Y, validation=(X,)), bochner.InvalidArgumentError, "tuple"),
        (lambda m: m.fit(X, Y, pack=3), bochner.InvalidArgumentError, "pack"),
        (lambda m: m.fit(X, Y, split=["train"] * 3), ValueError, "inconsistent"),
        (lambda m: m.fit(X, Y, split=["half"] * 200), bochner.InvalidArgumentError, "'half'"),
        (lambda m: m.fit(X, Y, split=["test"] * 200), bochner.BochnerError, "no rows are left for training"),
        (lambda m: m.train("text", steps=1), bochner.UnsupportedError, r"fit\(x, y\)"),
        (lambda m: m.generate("text"), bochner.UnsupportedError, "reads examples"),
        (lambda m: m.logits("text"), bochner.UnsupportedError, "reads examples"),
        (lambda m: m.session(), bochner.UnsupportedError, "reads examples"),
        (lambda m: m.chat([{"role": "user", "content": "a"}]), bochner.UnsupportedError, "reads examples"),
        (lambda m: m.linearize("text", steps=1), bochner.UnsupportedError, "reads examples"),
        (lambda m: m.translate(["text"]), bochner.UnsupportedError, "task translate"),
        (lambda m: tiny().fit(["a"], ["b"]), bochner.UnsupportedError, r"train\(data\)"),
        (lambda m: tiny().predict(X), bochner.UnsupportedError, "task predict, found language"),
        (lambda m: tiny().predict_proba(X), bochner.UnsupportedError, "no classes"),
        (lambda m: tiny().solve(X, Y), bochner.UnsupportedError, "task predict"),
        (lambda m: tiny().evaluate("text", "y"), bochner.InvalidArgumentError, "without targets"),
    ],
)
def test_use_refuses(fitted, call, error, message):
    before = fitted.predict_proba(X)
    with pytest.raises(error, match=message):
        call(fitted)
    assert np.array_equal(fitted.predict_proba(X), before)


@pytest.mark.parametrize(
    "description, data, error, message",
    [
        ({**MLP, "layers": [{"type": "lineer"}]}, (X, Y), bochner.FormatError, 'did you mean "linear"'),
        ({**MLP, "input": 3}, (X, Y), bochner.FormatError, "input"),
        (MLP, (), bochner.FormatError, '"width" is missing'),
        (MLP, (X,), bochner.InvalidArgumentError, "needs targets"),
        (MLP, (None, Y), bochner.InvalidArgumentError, "expected x"),
        (MLP, (HOLES, Y), bochner.FormatError, "missing value"),
        (MLP, (X, X[:, 0]), ValueError, "continuous"),
        (LINEAR, (X, Y), ValueError, "expected numbers"),
        (CNN, (X, Y), bochner.BochnerError, "48|4"),
        ({"input": object()}, (), bochner.InvalidArgumentError, "JSON"),
        ("{", (), bochner.FormatError, "malformed"),
        ("nowhere.json", (), OSError, "nowhere.json"),
        (3, (), TypeError, "path"),
    ],
)
def test_describe_refuses(description, data, error, message):
    with pytest.raises(error, match=message):
        bochner.Model.describe(description, *data)


@pytest.mark.parametrize(
    "edges, message",
    [
        (None, "no edges"),
        ([[0, 120]], "edges: row 0, column 1: .*from 0 to 119, found 120"),
        ([[0, 1.5]], "found 1.5"),
        ([[0, 1, 2]], "two columns"),
        ([0, 1], "two columns"),
    ],
)
def test_edges_are_checked(edges, message):
    x, y, good, _ = graph()
    model = bochner.Model.describe(GRAPH, x, y, edges=good)
    with pytest.raises(bochner.BochnerError, match=message):
        model.predict(x, edges=edges)
    with pytest.raises(bochner.InvalidArgumentError, match="neither split nor edges"):
        model.fit(x, y, edges=good, validation=(x, y))
