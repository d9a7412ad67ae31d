"""Kernel machines: accuracy, weights, missing values and text, streams, files, threads, and the rules of scikit-learn."""

import concurrent.futures
import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from bochner import BochnerError, _tables
from bochner.machines import KernelClassifier, KernelRegressor

from conftest import PROGRAM


def wave(rows: int, columns: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (rows, columns))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] / 2 + 0.1 * rng.standard_normal(rows)


def quick(**settings: object) -> KernelRegressor:
    return KernelRegressor(**{"kernel": "rbf", "features": 256, **settings})


# ---- scikit-learn ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
def test_scikit_learn_accepts_it(kind: type) -> None:
    pytest.importorskip("sklearn.utils.estimator_checks").check_estimator(kind())


def test_searches_and_pipelines() -> None:
    base = pytest.importorskip("sklearn.base")
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y = wave(300)
    search = GridSearchCV(quick(), {"gamma": [1e-4, 0.5]}, cv=3).fit(x, y)
    assert search.best_params_ == {"gamma": 0.5}
    assert cross_val_score(make_pipeline(StandardScaler(), quick()), x, y, cv=3).min() > 0.8
    clone = base.clone(KernelClassifier(class_weight="balanced", features=99))
    assert clone.features == 99 and clone.class_weight == "balanced"


def test_columns_of_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    compose = pytest.importorskip("sklearn.compose")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    x, y = wave(200)
    frame = pandas.DataFrame(x, columns=list("abcd")).assign(word=np.where(y > 0, "up", "down"))
    encoder = compose.ColumnTransformer([("word", OneHotEncoder(), ["word"])], remainder="passthrough")
    assert make_pipeline(encoder, quick()).fit(frame, y).score(frame, y) > 0.9


def test_indices_of_frames() -> None:
    """The index of a frame that became a column is left out, also after a split; a code that repeats is used."""
    pandas = pytest.importorskip("pandas")
    x, y = wave(400, 3)
    for name in ("Unnamed: 0", "index", "level_0", ""):
        for text in (False, True):
            frame = pandas.DataFrame(x, columns=["a", "b", "c"])
            if text:
                frame["town"] = ["Rye", "Hove"] * 200
            plain = frame.iloc[::3]
            frame.insert(0, name, np.arange(400) * 7 % 1009)
            frame = frame.iloc[::3]
            with pytest.warns(UserWarning, match="it numbers the rows"):
                machine = quick().fit(frame, y[::3])
            expected = quick().fit(plain, y[::3]).predict(plain)
            assert (machine.predict(frame) == expected).all()
            again = pickle.loads(pickle.dumps(machine))
            frame[name] += 1000000
            assert (again.predict(frame) == expected).all()
    frame["index"] = np.arange(len(frame)) * 1693  # few of many rows
    with pytest.warns(UserWarning, match="it numbers the rows"):
        quick().fit(frame[["a", "index"]], y[::3])
    for column in (np.arange(len(frame)) % 10, np.append(np.arange(18) * 107, [107] * (len(frame) - 18))):
        frame["index"] = column
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            quick().fit(frame[["a", "index"]], y[::3])


def test_indices_of_other_rows(tmp_path: Path) -> None:
    """Rows to predict may have the index or not, under any name of an index, and may be sparse; fits warn where they are called."""
    pandas = pytest.importorskip("pandas")
    sparse = pytest.importorskip("scipy.sparse")
    x, y = wave(400, 3)
    x += 1e8  # the columns have origins
    for text in (False, True):
        plain = pandas.DataFrame(x, columns=["a", "b", "c"])
        if text:
            plain["town"] = ["Rye", "Hove"] * 200
        for dtype in ("int64", "Int64", "object"):
            frame = plain.copy()
            frame.insert(1, "index", pandas.Series(np.arange(400), dtype=dtype))
            for fit in (quick().partial_fit, quick().fit):
                with pytest.warns(UserWarning, match="'index' is left out") as caught:
                    machine = fit(frame, y)
                assert [warning.filename for warning in caught] == [__file__]
            machine.save(tmp_path / "machine")
            for again in (machine, KernelRegressor.load(tmp_path / "machine")):
                assert (again.predict(plain) == again.predict(frame)).all()
                assert (again.predict(plain) == again.predict(frame.rename(columns={"index": "Unnamed: 0"}))).all()
                with pytest.raises(ValueError, match="unseen at fit time:\n- d\n"):
                    again.predict(frame.assign(d=1))
                with pytest.raises(ValueError, match="now missing:\n- c\n"):
                    again.predict(plain.drop(columns="c"))
                if not text and dtype == "int64":
                    rows = sparse.csr_matrix(frame.to_numpy(np.float64))
                    with pytest.warns(UserWarning, match="does not have valid feature names"):
                        assert (again.predict(rows) == again.predict(plain)).all()


def test_files_with_an_index(tmp_path: Path) -> None:
    """The program reads the index that to_csv writes as a column without a name, read_csv as Unnamed: 0."""
    pandas = pytest.importorskip("pandas")
    if not PROGRAM.exists():
        pytest.skip("the program is not built")
    x, y = wave(60, 3)
    for town in ([], ["town"]):
        frame = pandas.DataFrame(x, columns=["a", "b", "c"])
        for name in town:
            frame[name] = ["Rye", "Hove"] * 30
        frame.assign(y=y).to_csv(tmp_path / "table.csv")
        arguments = ["fit", "table.csv", "--features", "64", "--out", "model", "--quiet"]
        subprocess.run([PROGRAM, *arguments], cwd=tmp_path, check=True)
        machine = KernelRegressor.load(tmp_path / "model")
        read = pandas.read_csv(tmp_path / "table.csv").drop(columns="y")
        assert read.columns[0] == "Unnamed: 0"
        assert (machine.predict(read) == machine.predict(frame)).all()


def test_frames_that_are_refused() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = wave(50, 3)
    with pytest.raises(ValueError, match="2 columns named 'a'"):
        quick().fit(pandas.DataFrame(x, columns=["a", "b", "a"]), y)
    frame = pandas.DataFrame({"a": x[:, 0], "b": [[1, 2]] * 50})
    with pytest.raises(TypeError, match="column 'b', row 0: .* list"):
        quick().fit(frame, y)
    frame["b"] = ["text"] * 49 + [frozenset([1])]
    with pytest.raises(TypeError, match="column 'b', row 49: .* frozenset"):
        quick().fit(frame, y)
    titles = ["Infinity", "nan", "Null", "inf", "Up"] * 10
    machine = quick().fit(pandas.DataFrame({"a": x[:, 0], "title": titles}), y)
    assert len(machine.predict(pandas.DataFrame({"a": x[:, 0], "title": titles}))) == 50


@pytest.mark.parametrize("texts", [["Infinity", "nan", "null", "1e5"], ["1", "2", "3", "-inf"], ["01", "02", "10"]])
def test_categories_of_texts_of_numbers(texts: list[str]) -> None:
    pandas = pytest.importorskip("pandas")
    codes = np.random.default_rng(5).integers(0, len(texts), 120)
    levels = np.array([1.0, 9.0, 2.0, 7.0])[codes]
    column = pandas.Categorical([texts[code] for code in codes], categories=texts)
    frame = pandas.DataFrame({"a": np.random.default_rng(6).normal(size=120), "title": column})
    machine = quick().fit(frame, levels)
    assert abs(machine.predict(frame) - levels).max() < 1
    assert (pickle.loads(pickle.dumps(machine)).predict(frame) == machine.predict(frame)).all()


def test_without_scikit_learn() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(["sklearn", "sklearn.base", "pandas", "scipy", "tqdm", "tqdm.auto", "matplotlib"]))
import pickle, numpy as np
from bochner.machines import KernelClassifier, KernelRegressor
from bochner.features import RandomFeatures
x = np.random.default_rng(0).uniform(-2, 2, (200, 2)); y = np.sin(x[:, 0])
machine = pickle.loads(pickle.dumps(KernelRegressor(verbose=True).set_params(features=256, kernel="rbf").fit(x, y)))
assert machine.score(x, y) > 0.95, machine.score(x, y)
assert repr(machine) == "KernelRegressor(features=256, kernel='rbf', verbose=True)", repr(machine)
assert KernelClassifier("rbf").fit(x, y > 0).score(x, y > 0) > 0.9
assert RandomFeatures(features=8).fit_transform(x).shape == (200, 8)
try: machine.set_params(feature=3)
except TypeError as error: assert "features" in str(error)
else: raise SystemExit("accepted")
try: KernelRegressor().predict(x)
except ValueError as error: assert "not fitted" in str(error)
try: machine.plot_importances()
except ImportError as error: assert "matplotlib" in str(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "%" in done.stderr  # progress as text


# ---- accuracy -------------------------------------------------------------------------------------------------------


def test_regression_on_data() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    x, y = datasets.load_diabetes(return_X_y=True)
    assert KernelRegressor().fit(x[:350], y[:350]).score(x[350:], y[350:]) > 0.45
    x, y = datasets.make_friedman1(400, noise=0.5, random_state=0)
    machine = KernelRegressor().fit(x[:300], y[:300])
    assert machine.score(x[300:], y[300:]) > 0.9
    assert set(np.argsort(machine.feature_importances_)[-4:]) <= {0, 1, 2, 3, 4}  # five of ten columns matter
    assert machine.feature_importances_[:5].sum() > 0.9
    assert machine.report_.function == "sections" and machine.report_.metric != "none"  # chosen with kernel "auto"
    np.testing.assert_allclose(machine.feature_importances_.sum(), 1)
    x = np.random.default_rng(0).uniform(-1, 1, (600, 3))
    importances = quick().fit(x, 2 * x[:, 0] + x[:, 1]).feature_importances_
    np.testing.assert_allclose(importances, [0.8, 0.2, 0], atol=0.05)  # shares of the variance


def test_classification_on_data() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    for load in (datasets.load_iris, datasets.load_wine):
        x, y = load(return_X_y=True)
        train = np.arange(len(y)) % 3 > 0
        machine = KernelClassifier().fit(x[train], y[train])
        assert machine.score(x[~train], y[~train]) > 0.92
        p = machine.predict_proba(x[~train])
        np.testing.assert_allclose(p.sum(axis=1), 1)
        assert -np.log(p[np.arange(len(p)), y[~train]]).mean() < 0.3
        np.testing.assert_allclose(np.exp(machine.decision_function(x)), machine.predict_proba(x))


def test_deviations_and_intervals_cover() -> None:
    x, y = wave(1200)
    machine = quick().fit(x[:600], y[:600])
    mean, std = machine.predict(x[600:], return_std=True)
    np.testing.assert_array_equal(mean, machine.predict(x[600:]))
    assert 0.90 < np.mean(np.abs(y[600:] - mean) < 1.96 * std) < 0.99
    for level in (0.5, 0.9):
        low, high = machine.predict_interval(x[600:], level)
        assert abs(np.mean((low <= y[600:]) & (y[600:] <= high)) - level) < 0.08
    with pytest.raises(ValueError, match="level"):
        machine.predict_interval(x, 1.5)


def test_several_targets() -> None:
    x, y = wave(200)
    both = quick().fit(x, np.stack([y, -2 * y], axis=1))
    mean, std = both.predict(x, return_std=True)
    assert mean.shape == std.shape == (200, 2)
    np.testing.assert_allclose(mean[:, 1], -2 * mean[:, 0], rtol=1e-4, atol=1e-4)


def test_settings_reach_the_library() -> None:
    x, y = wave(150)
    report = (
        quick(gamma=0.3, regularization=0.5, scaling="none", solver="dual", draw="iid", random_state=7)
        .fit(x, y)
        .report_
    )
    assert (report.gamma, report.regularization) == (0.3, 0.5)
    assert (report.kernel, report.solver, report.scaling, report.draw, report.features) == (
        "rbf",
        "dual",
        "none",
        "iid",
        256,
    )
    assert (
        "regularization" in repr(report) and "<table>" in report._repr_html_() and "validation_accuracy" not in report
    )
    assert quick(kernel="ntk", depth=2, activation="erf").fit(x, y).report_["activation"] == "erf"
    assert KernelClassifier("rbf", features=64, loss="logistic").fit(x, y > 0).report_.loss == "logistic"
    for settings in (
        {"kernel": "rfb"},
        {"solver": "newton"},
        {"metric": "l2"},
        {"features": -1},
        {"regularization": -1},
        {"memory": 10},
    ):
        with pytest.raises((ValueError, MemoryError)):
            KernelRegressor(**settings).fit(x, y)


# ---- weights --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
@pytest.mark.parametrize("missing", [False, True])
def test_weights_are_repetition(kind: type, missing: bool) -> None:
    x, y = wave(160)
    if missing:
        x[::6, 1] = np.nan
    y = y if kind is KernelRegressor else np.digitize(y, [-0.5, 0.5])
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 4, len(y))
    order = rng.permutation(weights.sum())
    weighted = kind().fit(x, y, sample_weight=weights)
    repeated = kind().fit(x.repeat(weights, axis=0)[order], y.repeat(weights)[order])
    predict = "predict" if kind is KernelRegressor else "predict_proba"
    np.testing.assert_allclose(getattr(weighted, predict)(x), getattr(repeated, predict)(x), rtol=1e-9)
    plain = kind().fit(x, y)
    assert not np.allclose(getattr(weighted, predict)(x), getattr(plain, predict)(x), rtol=1e-3)


def test_weights_of_sparse_rows_are_repetition() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    x, y = wave(100)
    rows, weights = sparse.csr_matrix(x * (x > 0)), np.arange(100) % 3
    weighted, repeated = (
        quick().fit(rows, y, weights),
        quick().fit(rows[np.arange(100).repeat(weights)], y.repeat(weights)),
    )
    np.testing.assert_array_equal(weighted.predict(rows), repeated.predict(rows))


@pytest.mark.parametrize("kind", [KernelRegressor, KernelClassifier])
def test_weights_of_frames_with_text_are_repetition(kind: type) -> None:
    pandas = pytest.importorskip("pandas")
    frame, y = houses(pandas, 200)
    y = y if kind is KernelRegressor else np.where(y > np.median(y), "high", "low")
    weights = np.random.default_rng(2).integers(0, 4, len(y))
    chosen = np.arange(len(y)).repeat(weights)
    settings = {"kernel": "rbf", "features": 64, "gamma": 0.05}
    weighted = kind(**settings).fit(frame, y, sample_weight=weights)
    repeated = kind(**settings).fit(frame.iloc[chosen], y[chosen])
    predict = "predict" if kind is KernelRegressor else "predict_proba"
    np.testing.assert_allclose(getattr(weighted, predict)(frame), getattr(repeated, predict)(frame), rtol=1e-9)


def test_class_weights() -> None:
    x, y = wave(300)
    label = np.where(y > 1, "high", "low")
    plain, balanced, chosen = (
        KernelClassifier("rbf", features=64, class_weight=w, gamma=0.01).fit(x, label).predict_proba(x)[:, 0].mean()
        for w in (None, "balanced", {"high": 100.0})
    )
    assert plain < balanced < chosen
    with pytest.raises(ValueError, match="class_weight"):
        KernelClassifier(class_weight={"middle": 1}).fit(x, label)


# ---- rows of other kinds --------------------------------------------------------------------------------------------


def houses(pandas: object, rows: int = 400) -> tuple[object, np.ndarray]:
    rng = np.random.default_rng(0)
    street = rng.integers(0, 50, rows)
    frame = pandas.DataFrame(
        {
            "size": rng.uniform(1, 3, rows),
            "town": rng.choice(["Rye", "Hove; West", 'De"al, East'], rows),
            "new": rng.random(rows) < 0.5,
            "rooms": pandas.Categorical(rng.integers(1, 4, rows)),
            "street": np.char.add("street ", street.astype(str)),
            "sold": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 900, rows), "D"),
            "noise": rng.standard_normal(rows),
        }
    )
    y = 2 * frame["size"] + 3 * (frame["town"] == "Rye") + frame["new"] + 2 * rng.standard_normal(50)[street]
    y = np.asarray(y + 2 * (frame["rooms"] == 2) + 0.1 * rng.standard_normal(rows))
    frame.loc[::11, "size"] = np.nan
    frame.loc[::13, "town"] = None
    return frame, y


def test_frames_with_text(tmp_path: object) -> None:
    pandas = pytest.importorskip("pandas")
    frame, y = houses(pandas)
    machine = KernelRegressor().fit(frame[:300], y[:300])
    assert machine.score(frame[300:], y[300:]) > 0.85
    importances = dict(zip(machine.feature_names_in_, machine.feature_importances_))
    assert importances["street"] > 0.2 and importances["noise"] < 0.05
    expected = machine.predict(frame)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(machine)).predict(frame), expected)
    machine.save(tmp_path / "machine")
    np.testing.assert_array_equal(KernelRegressor.load(tmp_path / "machine").predict(frame), expected)
    frame.to_csv(tmp_path / "houses.csv", index=False)
    if PROGRAM.exists():
        done = subprocess.run(
            [PROGRAM, "predict", tmp_path / "machine", tmp_path / "houses.csv"], capture_output=True, text=True
        )
        np.testing.assert_allclose([float(line) for line in done.stdout.split()[1:]], expected, rtol=1e-9)
    numbered = frame[["town"]].assign(position=range(len(frame)))  # looks like row numbers
    assert quick().fit(numbered, np.sqrt(np.arange(len(frame)))).feature_importances_[1] > 0.9
    with pytest.raises(ValueError, match="feature names"):
        machine.predict(frame.drop(columns="town"))
    with pytest.raises(ValueError, match="size"):
        machine.predict(frame.assign(size="large"))


def test_frames_of_polars() -> None:
    polars = pytest.importorskip("polars")
    x, y = wave(200)
    numbers = {name: x[:, at] for at, name in enumerate("abcd")}
    frame = polars.DataFrame({**numbers, "word": np.where(y > 0, "up", "down").tolist()})
    assert quick().fit(frame, y).score(frame, y) > 0.9
    holes = polars.DataFrame({**numbers, "e": [None, 1.0] * 100})
    assert quick().fit(holes, y).score(holes, y) > 0.9


def test_missing_numbers(tmp_path: object) -> None:
    x, y = wave(300)
    x[::3, 3] = np.nan
    x[::9, 0] = np.nan
    y = y + 2 * np.isnan(x[:, 3])
    label = np.where(y > 1, "high", "low")
    machine = quick().fit(x, y)
    assert (
        machine.score(x, y) > 0.9 and machine.feature_importances_.argmax() == 3
    )  # it would be 0 if only means were used
    later = quick().fit(*wave(300))
    holes, filled = wave(300)[0], wave(300)[0]
    holes[:, 2], filled[:, 2] = np.nan, filled[:, 2].mean()
    np.testing.assert_allclose(later.predict(holes), later.predict(filled), rtol=1e-5)
    with pytest.raises(ValueError, match="infinity"):
        machine.predict(np.full((1, 4), np.inf))
    classifier = KernelClassifier("rbf", features=64).fit(x, label)
    classifier.save(tmp_path / "machine")
    loaded = KernelClassifier.load(tmp_path / "machine")
    assert list(loaded.classes_) == ["high", "low"] and loaded.n_features_in_ == 4
    np.testing.assert_array_equal(loaded.predict_proba(x), classifier.predict_proba(x))
    np.save(tmp_path / "x.npy", x)
    if PROGRAM.exists():
        done = subprocess.run(
            [PROGRAM, "predict", tmp_path / "machine", tmp_path / "x.npy"], capture_output=True, text=True
        )
        assert np.mean(np.array(done.stdout.split()[1:]) == classifier.predict(x)) > 0.98, done.stderr
    with pytest.raises(ValueError, match="for classes"):
        KernelRegressor.load(tmp_path / "machine")
    with pytest.raises(AttributeError, match="file"):
        _ = loaded.feature_importances_
    with pytest.raises(OSError):
        KernelRegressor.load(tmp_path / "nothing")


def test_sparse_rows() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    x, y = wave(300)
    x *= np.random.default_rng(3).random(x.shape) < 0.6
    y = np.sin(2 * x[:, 0]) + x[:, 1]
    machine = KernelRegressor(features=512).fit(sparse.csr_matrix(x), y)
    assert machine.score(sparse.csc_matrix(x), y) > 0.95
    np.testing.assert_allclose(machine.predict(sparse.csr_matrix(x)), machine.predict(x), rtol=1e-4, atol=1e-5)
    low, high = machine.predict_interval(sparse.csr_matrix(x))
    assert (low < high).all() and set(np.argsort(machine.feature_importances_)[-2:]) == {0, 1}
    classifier = KernelClassifier("rbf", features=256).fit(sparse.csr_matrix(x), y > 0)
    assert classifier.score(sparse.csr_matrix(x), y > 0) > 0.9


# ---- streams --------------------------------------------------------------------------------------------------------


def test_partial_fit_is_fit() -> None:
    x, y = wave(2000)
    settings = {"gamma": 0.3, "regularization": 1.0, "solver": "primal", "scaling": "none", "precision": "float64"}
    whole, parts = quick(**settings).fit(x, y), quick(**settings)
    for at in range(0, 2000, 500):
        parts.partial_fit(x[at : at + 500], y[at : at + 500])
        assert parts.report_.rows == at + 500
    np.testing.assert_allclose(parts.predict(x), whole.predict(x), rtol=1e-4, atol=1e-4)
    weighted = quick(**settings).partial_fit(x, y, sample_weight=np.ones(2000))
    np.testing.assert_allclose(weighted.predict(x), whole.predict(x), rtol=1e-4, atol=1e-4)
    twin = pickle.loads(pickle.dumps(parts))
    np.testing.assert_array_equal(twin.predict(x), parts.predict(x))
    with pytest.raises(BochnerError, match="new estimator"):
        twin.partial_fit(x, y)
    with pytest.raises(ValueError, match="expecting 4 features"):
        parts.partial_fit(x[:, :3], y)
    assert parts.fit(x[:100], y[:100]).report_.rows == 100


def test_partial_fit_of_classes() -> None:
    x, y = wave(900)
    label = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    machine = KernelClassifier("rbf", features=256).partial_fit(
        x[:300], label[:300], classes=["low", "middle", "high", "none"]
    )
    machine.partial_fit(x[300:], label[300:])
    assert machine.score(x, label) > 0.8 and list(machine.classes_) == ["high", "low", "middle", "none"]
    assert machine.predict_proba(x)[:, 3].max() < 0.2
    later = KernelClassifier("rbf", features=64).partial_fit(x, np.where(y > 0, "c", "b"), classes=["a", "b", "c"])
    assert set(later.predict(x)) == {"b", "c"} and later.score(x, np.where(y > 0, "c", "b")) > 0.8
    with pytest.raises(ValueError, match="odd"):
        machine.partial_fit(x[:2], ["odd", "low"])
    with pytest.raises(ValueError, match="classes of the first call"):
        machine.partial_fit(x, label, classes=["low", "high"])


# ---- robustness -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y", "weights", "error", "message"),
    [
        ([[1, 2], [3, 4]], [1, 2, 3], None, ValueError, "inconsistent"),
        ([[1, 2], [3, 4]], [1, np.nan], None, ValueError, "NaN"),
        ([[1, 2], [3, 4]], ["a", "b"], None, ValueError, "numbers"),
        ([[1, 2], [3, 4]], [1j, 2], None, ValueError, "Complex"),
        ([[1, 2], [3, 4]], None, None, ValueError, "requires y"),
        ([[1, 2], [3, 4]], [1, 2], [1, -1], ValueError, "sample_weight"),
        ([[1, 2], [3, 4]], [1, 2], [[1, 1]], ValueError, "sample_weight"),
        ([[1, 2], [3, 4]], [1, 2], [0, 1], ValueError, "at least 2 rows"),
        ([[1, 2]], [1], None, ValueError, "n_samples = 1"),
        ([[1, 2], [1, 2]], [1, 1], None, ValueError, "rows are equal"),
        ([[1, {}], [3, 4]], [1, 2], None, TypeError, "dict"),
        ([[1, 1e39], [3, 4]], [1, 2], None, ValueError, "too large"),
        ([1, 2], [1, 2], None, ValueError, "Reshape"),
        (np.zeros((0, 3)), [], None, ValueError, "0 sample"),
        (np.zeros((3, 0)), [1, 2, 3], None, ValueError, "0 feature"),
    ],
)
def test_bad_input(x: object, y: object, weights: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        KernelRegressor().fit(x, y, sample_weight=weights)


@pytest.mark.parametrize("kind", ["array", "integers", "frame", "text", "missing", "sparse", "stream", "none"])
def test_large_offsets_lose_nothing(kind: str, tmp_path: object) -> None:
    # steps of 1/1024 are numbers of float64 at all offsets; without scaling the numbers are used unchanged
    rng, path = np.random.default_rng(1), os.path.join(str(tmp_path), "model")
    t, b = np.floor(rng.uniform(0, 40, 900) * 1024) / 1024, rng.integers(0, 2, 900)
    if kind == "integers":
        t = np.floor(t * 1024)
    y, found = np.sin(t / t.max() * 40) + b, []
    for offset in (0, 1e8, 1.7e9, 1.7e12):
        x = np.stack([offset + t, b], axis=1)
        if kind == "integers":
            x = x.astype(np.int64)
        if kind == "missing":
            x[::50, 0] = np.nan
        if kind in ("frame", "text"):
            pandas = pytest.importorskip("pandas")
            x = pandas.DataFrame(x, columns=["t", "b"])
            x = x.assign(b=np.where(b > 0, "on", "off")) if kind == "text" else x
        if kind == "sparse":
            x = pytest.importorskip("scipy.sparse").csr_matrix(x)
        machine = quick(gamma=40, regularization=1e-4, random_state=0, scaling="none" if kind == "none" else "auto")
        if kind == "stream":
            machine.partial_fit(x[:500], y[:500]).partial_fit(x[500:800], y[500:800])
        else:
            machine.fit(x[:800], y[:800])
        found.append(machine.predict(x[800:]))
        machine.save(path)
        loaded = KernelRegressor.load(path)
        loaded.save(path + " again")
        # the machine of a pickle must not subtract the origins a second time
        for same in (loaded, pickle.loads(pickle.dumps(loaded)), KernelRegressor.load(path + " again")):
            np.testing.assert_array_equal(same.predict(x[800:]), found[-1])
    if kind == "none":
        assert np.abs(found[0] - found[2]).max() > 0.1
        return
    for one in found:
        # the order of the rows of a fit depends on their bits
        np.testing.assert_allclose(one, found[0], atol=2e-3)
        assert np.sqrt(np.mean((one - y[800:]) ** 2)) < (0.3 if kind == "missing" else 0.05)


@pytest.mark.parametrize("stand_in", [0, -1, 9999999999])
def test_numbers_for_missing_ones_cost_large_offsets_nothing(stand_in: float) -> None:
    t = np.random.default_rng(1).uniform(0, 100, 600)
    x, y = 1.7e9 + t, np.sin(t / 3)
    x[::50], y[::50] = stand_in, 0
    assert KernelRegressor().fit(x[:450, None], y[:450]).score(x[450:, None], y[450:]) > 0.99


def test_invalid_dates_are_reported() -> None:
    pandas = pytest.importorskip("pandas")
    x, y = wave(300)
    days = pandas.to_datetime("2024-01-01") + pandas.to_timedelta(np.arange(300), unit="D")
    frame = pandas.DataFrame({"day": days.astype(str), "a": x[:, 0]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick().fit(frame, y)
    frame.loc[7, "day"] = "2023-02-29"
    with pytest.warns(UserWarning, match="column 'day': expected a date, found '2023-02-29'; 1 of 300 dates") as caught:
        quick().fit(frame, y)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    "words", [["Infinity", "nan"], ["1e5", "2e5"], ["01", "1"], ["null", "true"], ["1_0", "2"]]
)
def test_classes_in_files_are_text_if_they_were(words: list[str], tmp_path: Path) -> None:
    x, _ = wave(100)
    y = np.array(words)[(x[:, 0] > 0).astype(int)]
    machine = KernelClassifier(features=32, gamma=0.5, regularization=1e-3, random_state=0).fit(x, y)
    machine.save(tmp_path / "model")
    loaded = KernelClassifier.load(tmp_path / "model")
    assert list(loaded.classes_) == sorted(words)
    np.testing.assert_array_equal(loaded.predict(x), machine.predict(x))


@pytest.mark.parametrize("numbers", [[3, 11], [-2, 0], [2.0, 4.0], [2**40, 2**40 + 1]])
def test_classes_in_files_are_numbers_if_they_were(numbers: list[float], tmp_path: Path) -> None:
    x, _ = wave(100)
    y = np.array(numbers)[(x[:, 0] > 0).astype(int)]
    machine = KernelClassifier(features=32, gamma=0.5, regularization=1e-3, random_state=0).fit(x, y)
    machine.save(tmp_path / "model")
    np.testing.assert_array_equal(KernelClassifier.load(tmp_path / "model").predict(x), machine.predict(x))


def test_sparse_rows_stay_sparse() -> None:
    """Columns that are mostly zeros have no origin, whose difference would be stored for every row."""
    sparse = pytest.importorskip("scipy.sparse")
    x = sparse.random(200, 300, density=0.02, random_state=0, format="csr")
    x.data += 2e7
    full = np.random.default_rng(0).uniform(0, 1, (200, 1)) + 1.7e9
    full[7] = 0  # few zeros do not matter
    origin = _tables.origins(sparse.csr_matrix(sparse.hstack([x, full])))
    assert not origin[:-1].any() and 1.7e9 <= origin[-1] <= 1.7e9 + 1


def test_a_failed_fit_leaves_no_machine() -> None:
    x, y = wave(100)
    machine = quick().fit(x, y)
    with pytest.raises(ValueError):
        machine.fit(x[:, :2], np.full(100, np.nan))
    with pytest.raises(ValueError, match="not fitted"):
        machine.predict(x)


def test_threads_share_a_machine() -> None:
    x, y = wave(2000)
    machine = quick().partial_fit(x, y)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: machine.predict(x), range(16)))
    assert all(np.array_equal(one, found[0]) for one in found)
    np.testing.assert_array_equal(copy.deepcopy(machine).predict(x), found[0])


def test_interrupt_stops_a_fit() -> None:
    x, y = wave(3000, 30)
    machine = KernelRegressor()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        machine.fit(x, y)
    timer.join()
    assert not hasattr(machine, "_fitted")


def test_progress_and_plot(capfd: object) -> None:
    x, y = wave(100)
    machine = quick(verbose=True).fit(x, y)
    assert capfd.readouterr().err
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    assert len(machine.plot_importances(columns=2).patches) == 2
