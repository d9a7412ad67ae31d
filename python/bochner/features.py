"""Feature maps of kernels: k(x, y) ≈ φ(x)·φ(y).

>>> import numpy as np
>>> from bochner import features
>>> x = np.random.default_rng(0).standard_normal((200, 5))
>>> phi = features.RandomFeatures("rbf", features=1024, gamma=0.1).fit(x)
>>> z = phi.transform(x)
>>> bool(np.abs(z @ z.T - features.kernel(x, x, gamma=0.1)).max() < 0.2)
True
"""

from __future__ import annotations

import ctypes
from typing import Any, Literal

import numpy as np

from . import _bindings as c
from ._arrays import address, as_array
from ._estimators import Estimator, TransformerMixin, seed_of, settings_of
from ._library import (
    BochnerError,
    Context,
    InvalidArgumentError,
    NumericError,
    context,
    device_name,
    lib,
    long_context,
    whole,
)
from ._reports import Report
from ._saved import Saved
from ._settings import Unpack, checks_names, fill, read_struct, refuse_zero
from ._tables import Table, inputs_of, origins, read_table, shifted, strided
from .typing import Activation, Draw, Function, Kernel, KernelSettings, Sampling

__all__ = ["KernelError", "RandomFeatures", "draws", "functions", "kernel", "kernel_error", "kernels", "samplings"]


def __dir__() -> list[str]:
    return sorted(__all__)


Array = np.ndarray[Any, Any]
_LARGE = 1e10  # numbers that may not have finite features
_LONG_WORK = 1 << 28  # numbers, above which Ctrl-C can stop a call


def _listed(which: int, without: tuple[str, ...] = ()) -> list[str]:
    names: list[str] = []
    while name := lib.bo_enum_name(which, len(names)):
        names.append(name.decode())
    return [name for name in names if name not in without]


def kernels() -> list[str]:
    """Return the names of all kernels.

    >>> from bochner import features
    >>> features.kernels()[:3]
    ['rbf', 'laplacian', 'cauchy']
    """
    return _listed(c.BO_ENUM_KERNEL, ("custom",))


def functions() -> list[str]:
    """Return the names of the feature functions. Each kernel has one or several functions.

    >>> from bochner import features
    >>> features.functions()[:3]
    ['sincos', 'cosbias', 'positive']
    """
    return _listed(c.BO_ENUM_FUNCTION, ("default", "custom", "sections"))


def draws() -> list[str]:
    """Return the names of the draws: how frequencies depend on each other.

    >>> from bochner import features
    >>> features.draws()[:3]
    ['iid', 'orthogonal', 'hadamard']
    """
    return _listed(c.BO_ENUM_DRAW, ("default",))


def samplings() -> list[str]:
    """Return the names of the samplings: whether the data chooses the frequencies.

    >>> from bochner import features
    >>> features.samplings()
    ['drawn', 'optimal', 'leverage']
    """
    return _listed(c.BO_ENUM_SAMPLING)


class KernelError(Report):
    """The error of a feature map, from :func:`kernel_error`.

    `error_rms` is the root mean square of φ(x)·φ(y) - k(x, y) over the pairs, `predicted_rms` the prediction of the
    variance formula for independent draws, `ratio` their quotient, `kernel_rms` the root mean square of the kernel, and
    `features_for_1pct` the number of features at which the predicted error is 1% of it. NaN: unknown.
    """

    _title = "Error of a kernel"


class RandomFeatures(TransformerMixin, Estimator):
    """Random features of a kernel: a transformer of scikit-learn.

    Parameters
    ----------
    kernel : str
        A name of :func:`kernels` (default: "rbf").
    features : int, optional
        Number of features (default: 512, or the number of features of an exact map).
    gamma : float or "scale", optional
        γ of the kernel; a larger value is more local (default: 1; nngp and ntk: 1 / columns). "scale" is
        1 / (columns · variance of X), as in scikit-learn.
    function : str, optional
        A name of :func:`functions` (default: the first that fits the kernel). "landmarks" is the Nyström method on rows
        of X.
    draw : str, optional
        A name of :func:`draws` (default: "orthogonal", or "iid" where that is not possible).
    sampling : str, optional
        A name of :func:`samplings` (default: "drawn"). "optimal" and "leverage" choose frequencies by the rows of X.
    length_scales : array_like, optional
        One positive number per column, by which it is divided (default: all 1).
    alpha : float, optional
        α of the rational quadratic kernel (default: 1).
    degree : int, optional
        Degree of the polynomial kernel (default: 2).
    depth, activation, weight_variance, bias_variance : optional
        Networks of the kernels nngp and ntk: number of hidden layers (default: 1), "relu" (default) or "erf", σ_w²
        (default: 2) and σ_b² (default: 0).
    pair_norm : float, optional
        Function "oprf": mean of ``|x + y|²`` over pairs (default: that of X).
    candidates : int, optional
        Number of frequencies that sampling chooses from (default: 8 times the number of selected frequencies).
    leverage_lambda : float, optional
        λ of the leverage scores (default: 0.001 · rows).
    random_state : int or NumPy Generator, optional
        Seed of the frequencies (default: 0).
    device : str
        Where features are computed: "cpu" (default), "cuda" or "cuda:N" for a GPU, or "auto" for a GPU if there is one.
        Sparse rows, and maps for which GPUs have no kernels, are computed on the CPU. `fit` draws frequencies on the CPU.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, if X was a frame whose names are all strings.
    gamma_ : float
        γ that is used.
    n_features_out_ : int
        Number of features.

    Notes
    -----
    Features are computed in float32. If the kernel depends on differences of rows only (rbf, laplacian, matern32, …),
    columns far from 0, such as Unix times, lose no precision: `fit` chooses a nearby origin, which is subtracted in
    float64 from X and from all later rows. For other kernels, subtract an origin before the call. The dtype of the
    result is that of X: float32 or float64, and float64 for other dtypes. float32 rows with contiguous columns are read
    without a copy, also slices of wider rows. SciPy sparse matrices are read without conversion; the result is dense.
    The fitted map is pickled in the file format of the library.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.features import RandomFeatures
    >>> x = np.random.default_rng(0).standard_normal((100, 8))
    >>> RandomFeatures("matern32", features=256, gamma="scale").fit_transform(x).shape
    (100, 256)
    >>> RandomFeatures("polynomial", degree=2).fit_transform(x).shape           # exact: all monomials
    (100, 45)
    """

    @checks_names()
    def __init__(
        self,
        kernel: Kernel = "rbf",
        *,
        features: int | None = None,
        gamma: float | Literal["scale"] | None = None,
        function: Function | None = None,
        draw: Draw | None = None,
        sampling: Sampling | None = None,
        length_scales: Any = None,
        alpha: float | None = None,
        degree: int | None = None,
        depth: int | None = None,
        activation: Activation | None = None,
        weight_variance: float | None = None,
        bias_variance: float | None = None,
        pair_norm: float | None = None,
        candidates: int | None = None,
        leverage_lambda: float | None = None,
        random_state: Any = None,
        device: str = "cpu",
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.gamma = gamma
        self.function = function
        self.draw = draw
        self.sampling = sampling
        self.length_scales = length_scales
        self.alpha = alpha
        self.degree = degree
        self.depth = depth
        self.activation = activation
        self.weight_variance = weight_variance
        self.bias_variance = bias_variance
        self.pair_norm = pair_norm
        self.candidates = candidates
        self.leverage_lambda = leverage_lambda
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any = None) -> RandomFeatures:
        """Draw the frequencies. X determines the number of columns; some settings also use its values.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, (rows, columns)
            Numbers, all finite.
        y : ignored

        Returns
        -------
        RandomFeatures
            The estimator.
        """
        table, settings = self._read(X, reset=True), settings_of(self, "device")
        origin = _origin(_describe(settings, table)[0].kernel, table)
        with long_context() as ctx:
            self._fitted = _create(ctx, settings, table, origin)
        self._origin = origin
        info = lib.bo_features_describe(self._fitted).contents
        self.gamma_, self.n_features_out_ = float(info.gamma), int(info.features)
        return self

    def transform(self, X: Any) -> Any:
        """Compute the features of rows.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, (rows, columns)

        Returns
        -------
        ndarray, (rows, features)
            The features, in the dtype of X.
        """
        self._check_fitted()
        fitted, table = self._fitted, self._read(X, reset=False)
        info, (inputs, _alive) = _checked_info(fitted, table), inputs_of(shifted(table.numbers, self._origin))
        z = np.empty((table.rows, info.features), np.float32)
        device = device_name(self.device)
        with long_context(device=device) if z.size > _LONG_WORK else context(device=device) as ctx:
            lib.bo_features_apply(ctx, fitted, ctypes.byref(inputs), address(z), z.shape[1])
        values = table.numbers.data if table.is_sparse else table.numbers
        if values.size and max(values.max(), -values.min()) > _LARGE and not np.isfinite(z).all():
            raise NumericError("the features contain NaN or infinity, because numbers of X are too large; scale its columns")
        dtype = getattr(X, "dtype", None) if table.is_sparse else table.numbers.dtype
        return z if dtype == np.float32 else z.astype(np.float64)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features: randomfeatures0, randomfeatures1, ..."""
        self._check_fitted()
        return np.array([f"randomfeatures{at}" for at in range(self.n_features_out_)], object)

    def _read(self, X: Any, reset: bool) -> Table:
        table = read_table(X, missing=False)
        if table.numbers is None:
            raise ValueError(
                "X: expected numbers, found columns of text; encode them first, for example with OneHotEncoder"
            )
        self._check_columns(table.names, table.columns, reset)
        return table

    def _more_tags(self) -> dict[str, Any]:
        return {"X_types": ["2darray", "sparse"], "preserves_dtype": [np.float64, np.float32]}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _checked_info(fitted: Saved, table: Table) -> Any:
    """The descriptor of a fitted map, which must have the columns of the table."""
    info = lib.bo_features_describe(fitted).contents
    if info.dim != table.columns:
        raise BochnerError(f"the map has {info.dim} columns, found {table.columns}; it was fitted again in another thread")
    return info


def _origin(kernel: int, table: Table) -> Any:
    """The origins of the columns, so that float32 can represent the differences; 0 if the kernel would change."""
    desc = c.bo_features_desc(kernel=kernel)
    shift_invariant = lib.bo_features_has(ctypes.byref(desc), c.BO_FEATURES_TRAIT_SHIFT_INVARIANT)
    return origins(table.numbers) if shift_invariant else 0.0


def _describe(settings: dict[str, Any], table: Table) -> tuple[Any, list[Any]]:
    """The descriptor of a map, and the arrays that it points to."""
    settings = dict(settings)
    refuse_zero(settings)
    desc, keep_alive = c.bo_features_desc(dim=table.columns, seed=seed_of(settings.pop("random_state", None))), []
    scales, gamma = settings.pop("length_scales", None), settings.pop("gamma", None)
    if scales is not None:
        keep_alive.append(np.require(as_array(scales, "length_scales"), np.float32, ["C", "A"]))
        if keep_alive[0].shape != (table.columns,):
            raise InvalidArgumentError(f"length_scales has shape {keep_alive[0].shape}; expected ({table.columns},)")
        desc.length_scales = address(keep_alive[0])
    if gamma == "scale":
        if table.is_sparse:
            mean = table.numbers.mean(dtype=np.float64)
            variance = float(table.numbers.multiply(table.numbers).mean() - mean**2)
        else:
            variance = float(table.numbers.var(dtype=np.float64))
        gamma = 1 / (table.columns * variance) if variance > 0 else 1.0
    elif isinstance(gamma, str):
        raise InvalidArgumentError(f"gamma: {gamma!r} is not known; expected a number or 'scale'")
    fill(desc, {**settings, "gamma": gamma})
    return desc, keep_alive


def _create(ctx: Context, settings: dict[str, Any], table: Table, origin: Any) -> Saved:
    desc, keep_alive = _describe(settings, table)
    if not desc.features and lib.bo_features_has(ctypes.byref(desc), c.BO_FEATURES_TRAIT_LENGTH):
        desc.features = 512
    desc.sparse = table.is_sparse
    if desc.sampling or desc.function in (c.BO_FUNCTION_LANDMARKS, c.BO_FUNCTION_OPRF):
        sample, step = _dense(table, origin)
        keep_alive.append(sample)
        desc.sample, desc.sample_rows, desc.sample_stride = address(sample), len(sample), step
    out = ctypes.c_void_p()
    lib.bo_features_create(ctx, ctypes.byref(desc), ctypes.byref(out))
    return Saved("features", out.value)


def _dense(table: Table, origin: Any) -> tuple[Array, int]:
    """The rows for the library, and the stride between rows."""
    numbers = shifted(table.numbers, origin)
    return strided(numbers.toarray() if table.is_sparse else numbers)


@checks_names(KernelSettings)
def kernel(x: Any, y: Any = None, kernel: Kernel = "rbf", **settings: Unpack[KernelSettings]) -> Array:
    """Compute the exact kernel matrix k(x, y).

    Parameters
    ----------
    x, y : array_like, (rows, columns)
        Numbers, rounded to float32. If the kernel depends on differences of rows only, a nearby origin is subtracted
        from columns far from 0 before. y: default x.
    kernel : str
        A name of :func:`kernels` (default: "rbf").
    **settings
        Parameters of the kernel, as in :class:`RandomFeatures`: gamma, length_scales, alpha, degree, depth, ...;
        :class:`bochner.typing.KernelSettings` lists all.

    Returns
    -------
    ndarray of float64, (rows of x, rows of y)

    Examples
    --------
    >>> from bochner import features
    >>> features.kernel([[0.0], [1.0]], kernel="laplacian", gamma=1).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """
    left = read_table(x, missing=False)
    right = left if y is None else read_table(y, missing=False)
    if left.numbers is None or right.numbers is None or left.columns != right.columns:
        raise ValueError(
            f"kernel: expected numbers with the same columns, found {left.columns} and {right.columns} columns"
        )
    desc, _alive = _describe({"kernel": kernel, **settings}, left)
    origin = _origin(desc.kernel, left)
    (rows_x, step_x), (rows_y, step_y) = (_dense(t, origin) for t in (left, right))
    out = np.empty((left.rows, right.rows))
    with long_context() as ctx:
        lib.bo_kernel_matrix(
            ctx,
            ctypes.byref(desc),
            left.rows,
            address(rows_x),
            step_x,
            right.rows,
            address(rows_y),
            step_y,
            address(out),
            right.rows,
        )
    return out


@checks_names()
def kernel_error(features: RandomFeatures, X: Any, *, pairs: int = 1000, random_state: Any = None) -> KernelError:
    """Measure the error of a feature map on random pairs of rows, and predict it.

    Parameters
    ----------
    features : RandomFeatures
        An estimator; if it is not fitted, it is fitted to X.
    X : array_like, (rows, columns)
    pairs : int
        Number of pairs (default: 1000).
    random_state : int or NumPy Generator, optional
        Seed of the choice of pairs (default: 0).

    Returns
    -------
    KernelError
        A report with `error_rms`, `predicted_rms`, `ratio`, ...

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import features
    >>> x = np.random.default_rng(0).standard_normal((100, 4))
    >>> phi = features.RandomFeatures(features=1024, draw="iid", gamma=0.2)
    >>> report = features.kernel_error(phi, x)
    >>> 0.5 < report.ratio < 2                                                  # measured / predicted
    True
    """
    if not isinstance(features, RandomFeatures):
        raise TypeError(f"kernel_error: expected RandomFeatures, found {type(features).__name__}")
    if whole(pairs, "pairs") < 1:
        raise InvalidArgumentError(f"kernel_error: pairs is {pairs!r}; expected a number of at least 1")
    if not features.__sklearn_is_fitted__():
        features = RandomFeatures(**features.get_params()).fit(X)
    fitted, table = features._fitted, features._read(X, reset=False)
    _checked_info(fitted, table)
    inputs, _alive = inputs_of(shifted(table.numbers, features._origin))
    out = c.bo_features_accuracy()
    with long_context() as ctx:
        lib.bo_features_measure(ctx, fitted, ctypes.byref(inputs), pairs, seed_of(random_state), ctypes.byref(out))
    return KernelError(read_struct(out))
