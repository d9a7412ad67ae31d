"""Random features: kernels, draws and samplings, dtypes, sparse rows, pickling, and the rules of scikit-learn."""

import copy
import pickle

import numpy as np
import pytest

from bochner import features
from bochner.features import RandomFeatures, kernel, kernel_error

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 6))


def test_lists_have_every_name() -> None:
    assert len(features.kernels()) == 18 and "custom" not in features.kernels()
    assert {"sincos", "positive", "landmarks", "network"} <= set(features.functions())
    assert features.draws() == ["iid", "orthogonal", "hadamard", "simplex", "sobol", "moment"]
    assert features.samplings() == ["drawn", "optimal", "leverage"]


@pytest.mark.parametrize("name", features.kernels())
def test_every_kernel_is_approximated(name: str) -> None:
    phi = RandomFeatures(name, features=None if name in EXACT else 4096, gamma=0.05).fit(X)
    z = phi.transform(X)
    exact = kernel(X, X, kernel=name, gamma=0.05)
    # 5 standard deviations of an average over 4096 features, relative to the largest value; float32 for exact maps
    tolerance = 1e-5 if name in EXACT else 5 / np.sqrt(4096)
    assert np.abs(z @ z.T - exact).max() <= tolerance * np.abs(exact).max() * (4 if name in ("ntk", "softmax") else 1)


EXACT = ("polynomial", "taylor", "elu", "linear", "cosh", "hedgehog", "rectifier")


def test_kernel_of_formula() -> None:
    distance = ((X[:, None] - X[None]) ** 2).sum(-1)
    np.testing.assert_allclose(kernel(X, gamma=0.3), np.exp(-0.3 * distance), atol=1e-6)
    scales = np.array([1, 2, 3, 4, 5, 6.0])
    np.testing.assert_allclose(kernel(X, length_scales=scales), kernel(X / scales), atol=1e-6)
    np.testing.assert_allclose(
        kernel(X[:5], X, kernel="rational-quadratic", alpha=2, gamma=1), (1 + distance[:5] / 2) ** -2.0, atol=1e-6
    )


@pytest.mark.parametrize("draw", features.draws())
def test_draws(draw: str) -> None:
    report = kernel_error(RandomFeatures(features=256, draw=draw, gamma=0.1), X)
    assert 0 < report.error_rms < 2 * report.predicted_rms


def test_landmarks_reproduce_their_rows() -> None:
    z = RandomFeatures(features=60, function="landmarks", gamma=0.2).fit_transform(X)
    np.testing.assert_allclose(z @ z.T, kernel(X, gamma=0.2), atol=1e-4)


@pytest.mark.parametrize(("sampling", "name"), [("optimal", "softmax"), ("leverage", "rbf")])
def test_sampling_uses_the_rows(sampling: str, name: str) -> None:
    one, other = (RandomFeatures(name, features=64, sampling=sampling, gamma=0.2).fit(x) for x in (X, 2 * X[:, ::-1]))
    assert not np.array_equal(one.transform(X), other.transform(X))


def test_prediction_of_the_error() -> None:
    report = kernel_error(RandomFeatures(features=512, draw="iid", gamma=0.1), X, pairs=2000, random_state=3)
    assert 0.5 < report.ratio < 2 and report.pairs == 2000
    assert "error_rms" in repr(report) and "<table>" in report._repr_html_()
    assert report.error_rms > kernel_error(RandomFeatures(features=8192, draw="iid", gamma=0.1), X).error_rms


def test_dtypes_and_strides() -> None:
    phi = RandomFeatures(features=64).fit(X)
    double, single = phi.transform(X), phi.transform(X.astype(np.float32))
    assert (
        double.dtype == np.float64
        and single.dtype == np.float32
        and phi.transform([[1, 2, 3, 4, 5, 6]]).dtype == np.float64
    )
    np.testing.assert_array_equal(double, single)
    wide = np.zeros((120, 9), np.float32)
    wide[::2, 2:8] = X
    for view in (wide[::2, 2:8], np.asfortranarray(X.astype(np.float32)), X[::-1][::-1], wide[::2, 2:8][::-1][::-1]):
        np.testing.assert_array_equal(phi.transform(view), single)


def test_sparse_rows() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    dense = X * (RNG.random(X.shape) < 0.3)
    phi = RandomFeatures(features=64, gamma=0.3).fit(sparse.csc_matrix(dense))
    np.testing.assert_allclose(phi.transform(sparse.csr_matrix(dense)), phi.transform(dense), atol=1e-6)
    assert phi.transform(sparse.csr_matrix(dense.astype(np.float32))).dtype == np.float32
    twice = sparse.csr_matrix((np.array([1.0, 5.0, 2.0]), np.array([4, 1, 4]), np.array([0, 3])), shape=(1, 6))
    np.testing.assert_allclose(phi.transform(twice), phi.transform([[0, 5, 0, 0, 3, 0]]), atol=1e-6)
    assert twice.nnz == 3  # the caller's matrix is unchanged
    scale = [RandomFeatures(gamma="scale").fit(x).gamma_ for x in (dense, sparse.csr_matrix(dense))]
    np.testing.assert_allclose(scale, 1 / (6 * dense.var()), rtol=1e-6)


def test_copies_compute_the_same() -> None:
    phi = RandomFeatures(features=64, random_state=5).fit(X)
    for twin in (pickle.loads(pickle.dumps(phi)), copy.deepcopy(phi)):
        np.testing.assert_array_equal(twin.transform(X), phi.transform(X))
    assert not np.array_equal(RandomFeatures(features=64, random_state=6).fit(X).transform(X), phi.transform(X))


def test_names_and_frames() -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    phi = RandomFeatures(features=8).set_output(transform="pandas").fit(frame)
    out = phi.transform(frame)
    assert list(out.columns) == list(phi.get_feature_names_out()) and list(phi.feature_names_in_) == list("abcdef")
    with pytest.raises(ValueError, match="feature names should match"):
        phi.transform(frame[list("fedcba")])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        phi.transform(X)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        RandomFeatures().fit(X).transform(frame)
    with pytest.raises(ValueError, match="columns of text"):
        RandomFeatures().fit(pandas.DataFrame({"a": ["x", "y"]}))


@pytest.mark.parametrize(
    ("arguments", "x", "error", "message"),
    [
        ({"kernel": "rfb"}, X, ValueError, "rfb"),
        ({"features": 7}, X, ValueError, "7"),
        ({"features": "many"}, X, ValueError, "features"),
        ({"gamma": -1}, X, ValueError, "gamma"),
        ({"gamma": "auto"}, X, ValueError, "gamma"),
        ({"length_scales": [1, 2]}, X, ValueError, "length_scales"),
        ({"function": "positive"}, X, ValueError, "positive"),
        ({"random_state": -1}, X, ValueError, "random_state"),
        ({}, X[0], ValueError, "Reshape"),
        ({}, X[:0], ValueError, "0 sample"),
        ({}, X * 1j, ValueError, "Complex"),
        ({}, np.full((2, 2), np.nan), ValueError, "NaN"),
        ({}, np.full((2, 2), np.inf), ValueError, "infinity"),
        ({}, np.full((2, 2), 1e300), ValueError, "too large"),
        ({}, [["a", "b"]], ValueError, "numbers"),
    ],
)
def test_bad_input(arguments: dict, x: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        RandomFeatures(**arguments).fit(x)


@pytest.mark.parametrize("offset", [1.7e9, -1.7e12])
def test_columns_far_from_0(offset: float) -> None:
    """Differences of float64 rows are those of the rows; without an origin, float32 would round them to multiples of 128."""
    steps = RNG.integers(-200, 200, (60, 3)) / 64.0
    far = steps + [0, offset, 2 * offset]
    exact = kernel(steps, gamma=0.1)
    np.testing.assert_allclose(kernel(far, gamma=0.1), exact, atol=1e-6)
    near, phi = RandomFeatures(features=4096, gamma=0.1).fit(steps), RandomFeatures(features=4096, gamma=0.1).fit(far)
    z = phi.transform(far[:30])
    assert np.abs(z @ z.T - exact[:30, :30]).max() < 5 / np.sqrt(4096)
    assert phi.transform(far).dtype == np.float64
    assert kernel_error(phi, far).error_rms < 2 * kernel_error(near, steps).error_rms
    assert (pickle.loads(pickle.dumps(phi)).transform(far) == phi.transform(far)).all()
    assert phi.set_params(gamma="scale").fit(far).gamma_ == pytest.approx(1 / (3 * far.var()), rel=1e-6)
    sparse = pytest.importorskip("scipy.sparse")
    rows = RandomFeatures(features=4096, gamma=0.1).fit(sparse.csr_matrix(far)).transform(sparse.csr_matrix(far))
    assert np.abs(rows @ rows.T - exact).max() < 5 / np.sqrt(4096)
    products = kernel(far, kernel="linear")  # which depends on the absolute numbers
    np.testing.assert_allclose(products, far @ far.T, rtol=1e-6, atol=1e-6 * np.abs(far @ far.T).max())


def test_refusals_after_the_fit() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        RandomFeatures().transform(X)
    phi = RandomFeatures().fit(X)
    with pytest.raises(ValueError, match="X has 5 features, but RandomFeatures is expecting 6"):
        phi.transform(X[:, :5])
    with pytest.raises(TypeError, match="RandomFeatures"):
        kernel_error(X, X)
    with pytest.raises(TypeError, match="gama"):
        kernel(X, gama=1)
    with pytest.raises(ValueError, match="same columns"):
        kernel(X, X[:, :2])


def test_scikit_learn_accepts_it() -> None:
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    checks.check_estimator(RandomFeatures())
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    y = np.sin(X[:, 0])
    search = GridSearchCV(
        make_pipeline(RandomFeatures(features=128), Ridge()), {"randomfeatures__gamma": [0.01, 0.1, 10]}, cv=3
    )
    assert search.fit(X, y).best_params_["randomfeatures__gamma"] < 10
