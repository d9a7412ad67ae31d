"""Training and linearization: the same weights as the command, callbacks, interruption, and exclusive access."""

import pickle
import sys
import threading
import time

import numpy as np
import pytest

import bochner
from bochner.model import History, TrainingReport

from test_model import FAMILIES, command, needs_command, run_python, tiny

TEXT = "the cat sat on the mat, and the dog sat on the log. a bird flew over the house and sang to the cat. " * 30
QUICK = {"steps": 12, "batch": 2, "context": 32, "eval_every": 12}  # a report after each step


@pytest.fixture()
def model():
    return tiny(attention="favor", seed=1)


def weights_of(model):
    return {name: values.copy() for name, values in model.weights.items()}


def same(first, second):
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


# ---- training -------------------------------------------------------------------------------------------------------


@needs_command
@pytest.mark.parametrize("warmup", [0, 3])
def test_weights_match_the_command(tmp_path, warmup):
    (tmp_path / "text.txt").write_text(TEXT)
    model = bochner.Model.create(layers=1, width=32, heads=2, context=32, features=8, seed=5)
    history = model.train(tmp_path / "text.txt", steps=20, batch=2, seed=5, learning_rate=0.01, warmup=warmup)
    found = command("train", "--data", tmp_path / "text.txt", "--out", tmp_path / "run", "--layers", 1, "--width", 32,
                    "--heads", 2, "--context", 32, "--features", 8, "--seed", 5, "--steps", 20, "--batch", 2, "--lr", 0.01,
                    "--warmup", warmup, "--json")  # fmt: skip
    other = bochner.Model.load(tmp_path / "run")
    assert same(weights_of(model), weights_of(other))
    assert history.valid_loss == pytest.approx(found["valid_loss"], rel=1e-6)
    model.save(tmp_path / "python")
    run, python = (command("eval", tmp_path / name, "--data", tmp_path / "text.txt", "--json") for name in ("run", "python"))
    assert run["loss"] == python["loss"] == pytest.approx(model.evaluate(tmp_path / "text.txt").loss, rel=1e-7)


def test_learning_and_history(model, tmp_path):
    before = model.evaluate(TEXT).loss
    history = model.train(TEXT, steps=60, batch=4)
    assert isinstance(history, History) and all(isinstance(report, TrainingReport) for report in history.reports)
    assert model.evaluate(TEXT).loss < before - 1
    assert history.step == history.steps == 60 and not history.canceled
    steps, losses = history.curve()
    assert steps[-1] == 60 and losses[-1] < losses[0] and np.isfinite(losses).all()
    assert pickle.loads(pickle.dumps(history)).curve()[1].tolist() == losses.tolist()
    assert history.curve("valid_loss")[0].tolist() == [25, 50, 60]
    assert "valid_loss" in repr(history) and "<table>" in history._repr_html_() and dict(history)["step"] == 60


def test_data(model, tmp_path):
    cut = TEXT[: len(TEXT) // 2]
    (tmp_path / "a.txt").write_text(cut)
    ids = np.frombuffer(cut.encode(), np.uint8)
    results = []
    for data in (cut, cut.encode(), tmp_path / "a.txt", [str(tmp_path / "a.txt")], ids, ids.tolist()):
        one = tiny(attention="favor", seed=1)
        history = one.train(data, **QUICK)
        assert history.valid_loss > 0
        results.append(weights_of(one))
    assert all(same(result, results[0]) for result in results[1:])
    assert np.isnan(model.train(cut, validation=None, **QUICK).valid_loss)
    assert model.train(cut, validation=TEXT, **QUICK).valid_loss > 0
    assert model.train(cut, validation=tmp_path / "a.txt", **QUICK).valid_loss > 0


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adamw", "weight_decay": 0.1, "schedule": "wsd"},
        {"optimizer": "sgd", "momentum": 0.8, "clip": 0.5, "warmup": 0},
        {"stateful": True, "average": 0.9},
        {"checkpointing": True, "activations": "bfloat16", "freeze": "model.embed_tokens"},
        {"redraw_every": 3},
        {"minutes": 0.005, "steps": None, "eval_every": None},
    ],
)
def test_settings(model, settings):
    before = weights_of(model)
    session = model.session()
    session.feed("abc")
    history = model.train(TEXT, **{**QUICK, **settings})
    after = weights_of(model)
    assert history.step > 0 and np.isfinite(history.loss) and not same(before, after)
    if "freeze" in settings:
        assert np.array_equal(before["model.embed_tokens.weight"], after["model.embed_tokens.weight"])
    try:
        session.feed("def")  # of the old weights: works, or is refused
    except bochner.BochnerError:
        session.reset()
        session.feed("def")


@pytest.mark.parametrize(
    "data, settings, message",
    [
        (TEXT, {"steps": None}, "steps or minutes"),
        (TEXT, {"minutes": 1.0}, "steps or minutes"),
        (TEXT, {"minutes": float("nan"), "steps": None}, "minutes"),
        (TEXT, {"steps": -1}, "not negative"),
        (TEXT, {"batch": 1.5}, "batch"),
        (TEXT, {"context": 65}, "window|context"),
        (TEXT, {"optimizer": "nothing"}, "optimizer"),
        (TEXT, {"learning_rte": 1}, "did you mean 'learning_rate'"),
        (TEXT, {"validation": 1.5}, "validation"),
        (TEXT, {"validation": float("nan")}, "validation"),
        (TEXT, {"lora": 0}, "rank"),
        (TEXT, {"lora": {"rnk": 2}}, "did you mean 'rank'"),
        (TEXT, {"resume": True}, "directory"),
        ("short", {}, "tokens"),
        ("", {}, "text|tokens"),
        ([300], {}, "256|id"),
        ("missing.txt", {}, "no such file"),
    ],
)
def test_train_refuses(model, data, settings, message):
    before = weights_of(model)
    with pytest.raises((bochner.BochnerError, TypeError), match=message):
        model.train(data, **{**QUICK, **settings})
    assert same(before, weights_of(model))
    model.train(TEXT, **QUICK)  # no lock remains


def test_a_model_without_a_tokenizer_is_refused():
    with pytest.raises(bochner.InvalidArgumentError, match="no tokenizer"):
        bochner.Model.load(FAMILIES / "llama").train(TEXT, **QUICK)


def test_directory_and_resuming(model, tmp_path):
    other = tiny(attention="favor", seed=1)
    model.train(TEXT, directory=tmp_path / "a", **QUICK)
    stopped = other.train(TEXT, directory=tmp_path / "b", callback=lambda report: report.step < 5, **QUICK)
    assert stopped.canceled and stopped.step == 5
    resumed = tiny(attention="favor", seed=1)
    assert not resumed.train(TEXT, directory=tmp_path / "b", resume=True, **QUICK).canceled
    assert same(weights_of(model), weights_of(resumed))
    assert same(weights_of(model), weights_of(bochner.Model.load(tmp_path / "a")))
    with pytest.raises(bochner.InvalidArgumentError):
        model.train(TEXT, directory=tmp_path / "a", **QUICK)  # another run is in this directory


def test_lora(model, tmp_path):
    model.train(TEXT, **QUICK)  # output projections start at zero, through which no gradient flows
    before, session = weights_of(model), model.session()
    history = model.train(TEXT, lora={"rank": 2, "targets": "q_proj,v_proj", "alpha": 8}, optimizer="adamw", **QUICK)
    after = weights_of(model)
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed and all("q_proj" in name or "v_proj" in name for name in changed) and history.step == 12
    for name in changed:
        assert np.linalg.matrix_rank(after[name] - before[name], tol=1e-6) <= 2
    model.train(TEXT, lora=2, directory=tmp_path / "adapters", **QUICK)  # a second time, with checkpoints
    model.train(TEXT, **QUICK)
    assert session.feed("abc").shape == (256,) and len(model.weights) == len(before)
    stopped = weights_of(model)
    assert model.train(TEXT, lora=2, callback=lambda report: False, **QUICK).canceled
    assert not same(stopped, weights_of(model))


# ---- callbacks and interruption -------------------------------------------------------------------------------------


def test_callback(model):
    observed = []

    def callback(report):
        observed.append((report.step, model.generate_text("the", max_tokens=3), model.evaluate(TEXT, tokens=50).loss))
        return report.step < 6

    history = model.train(TEXT, callback=callback, **QUICK)
    assert history.canceled and history.step == 6 == len(history.reports) and [step for step, *_ in observed] == [*range(1, 7)]
    assert observed[-1][2] < observed[0][2]  # the callback sees the weights of each step


def test_exceptions_of_callbacks(model):
    class OfMine(Exception):
        pass

    def callback(report):
        if report.step == 3:
            raise OfMine("no more")

    with pytest.raises(OfMine, match="no more"):
        model.train(TEXT, callback=callback, **QUICK)
    with pytest.raises(bochner.BochnerError, match="callback cannot change"):
        model.train(TEXT, callback=lambda _: model.train(TEXT, **QUICK), **QUICK)
    with pytest.raises(bochner.BochnerError, match="callback cannot change"):
        model.train(TEXT, callback=lambda _: model.weights.__setitem__("model.norm.weight", np.ones(32)), **QUICK)
    with pytest.raises(SystemExit):
        model.train(TEXT, callback=lambda _: sys.exit(3), **QUICK)
    assert np.isfinite(model.evaluate(TEXT).loss) and model.train(TEXT, **QUICK).step == 12


def test_numeric_failure(model):
    model.weights["model.norm.weight"] = np.full(32, np.nan)
    with pytest.raises(bochner.NumericError, match="model.norm.weight"):
        model.train(TEXT, **QUICK)


def test_ctrl_c_leaves_a_consistent_model():
    output = run_python(
        f"""
        import os, signal, threading, numpy as np, bochner
        model = bochner.Model.create(layers=1, width=32, heads=2, context=64, features=8)
        text = {TEXT!r}
        before = model.evaluate(text).loss
        for lora in (None, 2):
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                model.train(text, steps=10**7, batch=2, lora=lora, eval_every=10**6)
            except KeyboardInterrupt:
                print("stopped", model.evaluate(text).loss < before)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        print(model.train(text, steps=2, batch=2).step)
        """
    )
    assert output == "stopped True\n" * 2 + "2\n"


def test_other_threads_during_training(model):
    started, stop, result = threading.Event(), threading.Event(), []

    def callback(report):
        started.set()
        return not stop.is_set()

    def train():
        result.append(model.train(TEXT, callback=callback, steps=10**7, batch=2, eval_every=10))

    thread = threading.Thread(target=train)
    thread.start()
    assert started.wait(30)
    try:
        use_while_trained(model)
    finally:
        stop.set()
        thread.join(30)
    assert result[0].canceled


def use_while_trained(model):
    for use in (lambda: model.generate("abc"), lambda: model.logits("abc"), lambda: model.evaluate(TEXT), model.tobytes,
                lambda: model.train(TEXT, **QUICK), lambda: model.weights["model.norm.weight"], model.session,
                lambda: model.weights.__setitem__("model.norm.weight", np.ones(32))):  # fmt: skip
        with pytest.raises(bochner.BochnerError, match="being trained by another thread"):
            use()
    assert model.vocab == 256 and "favor" in repr(model)
    model.close()


def test_training_waits_for_generation(model):
    stream, result = model.session().generate("abc", max_tokens=10**7, ignore_end=True), []

    def read():
        try:
            stream.run()
        except bochner.BochnerError as error:
            result.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    start = time.monotonic()
    assert model.train(TEXT, **QUICK).step == 12  # starts between two tokens
    assert time.monotonic() - start < 1
    reader.join()
    assert "being trained" in result[0] and next(stream) is not None  # the generation can continue


# ---- progress and plots ---------------------------------------------------------------------------------------------


def test_progress(model, capsys, monkeypatch):
    model.train(TEXT, progress=False, **QUICK)
    model.train(TEXT, **QUICK)  # not a terminal
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # simulates that it is not installed
    model.train(TEXT, progress=True, **QUICK)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 12 and lines[-1].startswith("step 12 of 12: loss")


def test_progress_bar(model, capsys):
    pytest.importorskip("tqdm")
    model.train(TEXT, progress=True, **QUICK)
    shown = capsys.readouterr().err
    assert "12/12" in shown and "loss" in shown


def test_plot(model):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    axes = model.train(TEXT, **QUICK).plot()
    assert len(axes.lines) == 2 and axes.get_xlabel() == "step"


# ---- linearization --------------------------------------------------------------------------------------------------

LINEARIZE = {"steps": 4, "transfer_steps": 4, "batch": 2}


@pytest.fixture(scope="module")
def teacher():
    model = tiny(attention="softmax", features=None, context=32, seed=2)
    model.train(TEXT, steps=60, batch=4)
    return model


def test_a_callback_stops_with_any_false_value():
    """A comparison of NumPy numbers is not the object False."""
    model = tiny(seed=3)
    assert model.train(TEXT, steps=30, batch=2, callback=lambda report: np.float64(report.step) < 0).canceled
    assert not model.train(TEXT, steps=3, batch=2, callback=lambda report: None).canceled
    assert model.train(TEXT, steps=3, batch=2).learning_rate >= 0


def test_linearize(teacher, tmp_path):
    before, observed = weights_of(teacher), []
    student = teacher.linearize(TEXT, "dark", features=16, directory=tmp_path / "linear", callback=observed.append, **LINEARIZE)
    assert student.attention == ["dark", "dark"] and {report.stage for report in observed} == {"transfer", "finetune"}
    assert same(before, weights_of(teacher))
    report = student.report
    assert report.teacher > 1 and report.student > 1 and 0 < report.agreement <= 1 and "agreement" in repr(report)
    assert len(report.heads) == 4 and report.layer_errors.shape == (2,) and (report.layer_errors > 0).all()
    assert same(weights_of(student), weights_of(bochner.Model.load(tmp_path / "linear")))
    assert student.session().nbytes == student.session(capacity=10**6).nbytes
    assert student.tokenizer == teacher.tokenizer and len(student.generate_text("the", max_tokens=4, seed=1)) == 4


@needs_command
def test_linearization_is_that_of_the_command(teacher, tmp_path):
    teacher.save(tmp_path / "teacher")
    (tmp_path / "text.txt").write_text(TEXT)
    found = command("linearize", tmp_path / "teacher", "--data", tmp_path / "text.txt", "--out", tmp_path / "run",
                    "--steps", 4, "--transfer-steps", 4, "--batch", 2, "--window", 8, "--features", 16, "--merge",
                    "--keep-softmax", "1", "--no-timing", "--json", "--seed", 3)  # fmt: skip
    student = teacher.linearize(tmp_path / "text.txt", window=8, features=16, keep_softmax=[1], seed=3, **LINEARIZE)
    assert student.attention == ["hybrid", "softmax"]
    assert same(weights_of(student), weights_of(bochner.Model.load(tmp_path / "run")))
    report = student.report
    assert report.teacher == pytest.approx(found["teacher"]["perplexity"], rel=1e-6)
    assert report.student == pytest.approx(found["student"]["perplexity"], rel=1e-6)
    assert report.agreement == found["greedy_agreement"] and np.isnan(report.layer_errors[1])


def test_linearize_only_parts(teacher):
    student = teacher.linearize(
        TEXT, "favor", features=8, steps=0, transfer_steps=3, batch=2, validation=None, keep_softmax=[]
    )
    assert {report.stage for report in student.report.reports} <= {"transfer"} and dict(student.report) == {}


def test_linearize_takes_heads_from_the_replaced_layers():
    mixed = tiny(attention="softmax", features=None, context=32, blocks=[{"heads": 2}, {"heads": 4}])
    width = mixed.config.width
    with pytest.raises(bochner.BochnerError, match=f"at most {width // 2}, found"):
        mixed.linearize(TEXT, "hedgehog", features=width // 2 + 2, **LINEARIZE)
    with pytest.raises(bochner.BochnerError, match="width of a head"):
        mixed.linearize(TEXT, "dark", window=8, **LINEARIZE)


def test_linearize_refuses(teacher, model):
    for settings in ({"kind": "nothing"}, {"kind": "softmax"}, {"kind": "hedgehog", "features": 10**6}, {"steps": -1},
                     {"keep_softmax": "0-1"}, {"keep_softmax": [7]}):  # fmt: skip
        with pytest.raises(bochner.BochnerError):
            teacher.linearize(TEXT, **{**LINEARIZE, **settings})
    with pytest.raises(TypeError, match="did you mean 'batch'"):
        teacher.linearize(TEXT, batches=3, **LINEARIZE)
    with pytest.raises(bochner.BochnerError, match="softmax"):
        model.linearize(TEXT, **LINEARIZE)
    with pytest.raises(bochner.CanceledError):
        teacher.linearize(TEXT, features=16, callback=lambda report: False, **LINEARIZE)
    with pytest.raises(ZeroDivisionError):
        teacher.linearize(TEXT, features=16, callback=lambda report: 1 // 0, **LINEARIZE)
    assert teacher.generate_text("the", max_tokens=2) is not None
