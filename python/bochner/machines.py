"""Kernel machines: ridge regression and classification with a kernel, with the interface of scikit-learn.

>>> import numpy as np
>>> from bochner.machines import KernelRegressor
>>> x = np.random.default_rng(0).uniform(-2, 2, (300, 2))
>>> y = np.sin(2 * x[:, 0]) * x[:, 1]
>>> machine = KernelRegressor().fit(x[:200], y[:200])
>>> machine.score(x[200:], y[200:]) > 0.95
True
"""

from __future__ import annotations

import ctypes
from typing import Any, TypeVar

import numpy as np

from . import _bindings as c
from ._arrays import address
from ._estimators import (
    ClassifierMixin,
    Estimator,
    RegressorMixin,
    as_labels,
    as_targets,
    as_weights,
    progress_bar,
    seed_of,
    settings_of,
)
from ._library import BochnerError, Handle, InvalidArgumentError, lib, long_context, new_lock
from ._reports import Report
from ._saved import Saved, read_file, read_machine, write_file
from ._settings import fill, read_struct
from ._tables import Numbers, Table, Texts, make_schema, merge_rows, read_schema, read_table, sparse_rows
from .features import KernelError

__all__ = ["FitReport", "KernelClassifier", "KernelRegressor"]

Array = np.ndarray[Any, Any]
Self = TypeVar("Self", bound="_KernelMachine")

# Parameters of the estimators that are settings of the feature map.
_FEATURES = (
    "features", "gamma", "function", "draw", "sampling", "alpha", "degree", "depth", "activation", "weight_variance",
    "bias_variance", "candidates", "leverage_lambda",
)  # fmt: skip
_NAMES = {"regularization": "lambda_"}  # parameters whose members have other names
# Members of the report that are numbers of names.
_NAMED = {
    "task": "task", "loss": "loss", "solver": "solver", "scaling": "scaling", "kernel": "kernel", "function": "function",
    "draw": "draw", "precision": "gram_precision", "activation": "hidden_activation", "metric": "metric_choice",
    "target_scale": "target_scale",
}  # fmt: skip
_IMPORTANCE_ROWS = 500


class FitReport(Report):
    """The settings and the results of a fit: kernel, gamma, regularization, solver, seconds, validation errors, ...

    Members are those of bo_fit_report in machines.h, with `lambda` as `regularization`. Members that do not apply are left
    out. `kernel_error` is a :class:`bochner.features.KernelError`, if the kernel is estimated by features.
    """

    _title = "Fit of a kernel machine"


class _Stream:
    """A fit in progress. It is solved when the machine is first needed after rows were added."""

    def __init__(self, fitting: Handle | None, machine: Saved | None = None) -> None:
        self._fitting, self._machine, self._lock = fitting, machine, new_lock()

    def add(self, samples: Any, verbose: Any) -> None:
        if self._fitting is None:
            raise BochnerError("partial_fit: a machine that was copied or loaded cannot receive more rows; call fit")
        with self._lock, progress_bar(verbose) as progress, long_context(progress) as taken:
            self._machine = None
            lib.bo_fitting_add(taken, self._fitting, ctypes.byref(samples))

    def machine(self) -> Saved:
        with self._lock:
            if self._machine is None:
                out = ctypes.c_void_p()
                with long_context() as taken:
                    lib.bo_fitting_finish(taken, self._fitting, ctypes.byref(out))
                self._machine = Saved("machine", out.value)
            return self._machine

    def __reduce__(self) -> Any:
        return _Stream, (None, self.machine())


class _KernelMachine(Estimator):
    """What regression and classification share."""

    kernel: str
    random_state: Any
    verbose: Any
    _fitted: Any
    _encoding: Any
    classes_: Array | None = None

    # ---- fit --------------------------------------------------------------------------------------------------------

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, (rows, columns)
            Inputs. NaN is a missing value. Frames of pandas and polars may have columns of text, categories, truth values
            and dates.
        y : array_like
            Numbers, (rows,) or (rows, targets); or classes, (rows,).
        sample_weight : array_like, (rows,), optional
            Weights of rows (default: all 1). A row of weight 2 is the same as two equal rows.

        Returns
        -------
        KernelRegressor or KernelClassifier
            The estimator.
        """
        table = read_table(X, missing=True)
        targets = self._targets(y, table.rows)
        self._check_columns(table.names, table.columns, reset=True)
        weights = as_weights(sample_weight, table.rows)
        x, targets, weights = merge_rows(*self._encode_first(table, targets, weights))
        self._check_classes(targets, weights)
        samples, _keep = self._samples(x, targets, weights)
        desc, _kept = self._desc(targets, weights)
        out = ctypes.c_void_p()
        with progress_bar(self.verbose) as progress, long_context(progress) as taken:
            lib.bo_machine_fit(taken, ctypes.byref(desc), ctypes.byref(samples), ctypes.byref(out))
        self._fitted = Saved("machine", out.value)
        self._sample = x[:_IMPORTANCE_ROWS]
        return self

    def _partial_fit(self: Self, X: Any, y: Any, sample_weight: Any, first: bool) -> Self:
        table = read_table(X, missing=True)
        targets = self._targets(y, table.rows)
        self._check_columns(table.names, table.columns, reset=first)
        weights = as_weights(sample_weight, table.rows)
        if first:
            x, targets, weights = self._encode_first(table, targets, weights)
        else:
            x = self._encode(table)
        narrow = None if weights is None else weights.astype(np.float32)
        samples, _keep = self._samples(x, targets, narrow)
        if first:
            desc, _kept = self._desc(targets, weights)
            out = ctypes.c_void_p()
            with progress_bar(self.verbose) as progress, long_context(progress) as taken:
                lib.bo_fitting_create(taken, ctypes.byref(desc), ctypes.byref(samples), ctypes.byref(out))
            self._fitted = _Stream(Handle(out.value, lib.bo_fitting_destroy))
            self._sample = x[:_IMPORTANCE_ROWS]
        self._fitted.add(samples, self.verbose)
        return self

    def _targets(self, y: Any, rows: int) -> Array:
        raise NotImplementedError

    def _check_classes(self, targets: Array, weights: Array | None) -> None:
        """Refuses targets that cannot be fitted."""

    def _encode_first(self, table: Table, targets: Array, weights: Array | None) -> tuple[Any, Array, Array | None]:
        """The rows of a fit, encoded. Rows of weight 0 are left out before anything is computed from them."""
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            table, targets, weights = table.take(kept), targets[kept], weights[kept]
        if table.rows < 2:
            raise ValueError(f"expected at least 2 rows, found n_samples = {table.rows}")
        if table.is_sparse:
            self._encoding, x = None, table.numbers
        elif table.frame is not None:
            self._encoding, x = Texts.fit(table, targets, self.classes_ is not None)
        else:
            self._encoding = Numbers(table.numbers, weights)
            x = self._encoding.encode(table)
        return x, targets, weights

    def _samples(self, x: Any, targets: Array, weights: Array | None) -> tuple[Any, list[Any]]:
        """The struct of the library for rows to fit, and the arrays that it points to."""
        y = np.ascontiguousarray(targets, np.float64)
        keep: list[Any] = [x, y, weights]
        samples = c.bo_samples(rows=x.shape[0], dim=x.shape[1], targets=y.size // len(y), y=address(y))
        samples.classes = 0 if self.classes_ is None else len(self.classes_)
        if hasattr(x, "tocsr"):
            struct, arrays = sparse_rows(x)
            samples.sparse = ctypes.pointer(struct)
            keep += [struct, arrays]
        else:
            samples.x = address(x)
        if weights is not None:
            samples.weights = address(weights)
        return samples, keep

    def _desc(self, targets: Array, weights: Array | None) -> tuple[Any, list[Any]]:
        """The descriptor of the fit, and the arrays that it points to."""
        settings = settings_of(self, "kernel", "random_state", "verbose", "class_weight", "fit_intercept", *_FEATURES)
        desc = c.bo_machine_desc(seed=seed_of(self.random_state), no_intercept=not self.fit_intercept)  # type: ignore[attr-defined]
        desc.choose_kernel = self.kernel == "auto"
        fill(desc, settings, {name: _NAMES.get(name, name) for name in settings})
        features = {name: getattr(self, name) for name in _FEATURES}
        fill(desc.features, features if self.kernel == "auto" else {"kernel": self.kernel, **features})
        desc.task = c.BO_TASK_REGRESSION if self.classes_ is None else c.BO_TASK_CLASSIFICATION
        return desc, []

    # ---- predict ----------------------------------------------------------------------------------------------------

    def _machine(self) -> Saved:
        self._check_fitted()
        fitted = self._fitted.machine() if isinstance(self._fitted, _Stream) else self._fitted
        assert isinstance(fitted, Saved)
        return fitted

    def _encode(self, table: Table) -> Any:
        """Rows as inputs of the machine: an array of float32 or sparse rows."""
        if table.is_sparse:
            if self._encoding is not None and (isinstance(self._encoding, Texts) or self._encoding.has_missing.any()):
                raise ValueError("X is sparse; expected a frame or an array as at the fit, which had text or missing values")
            return table.numbers
        if self._encoding is not None:
            return self._encoding.encode(table)
        if table.numbers is None or np.isnan(table.numbers.sum()):
            raise ValueError("Input X contains NaN or text; the machine was fitted to sparse rows of numbers")
        return np.ascontiguousarray(table.numbers, np.float32)

    def _predict(self, X: Any, *outputs: Array | None, level: float | None = None) -> None:
        """Computes means, then standard deviations and ends of intervals."""
        x, machine = self._inputs(X), self._machine()
        into = [None if array is None else address(array) for array in outputs]
        function = "bo_machine_predict" if level is None else "bo_machine_predict_interval"
        middle = [] if level is None else [level]
        with long_context() as taken:
            if hasattr(x, "tocsr"):
                rows, _keep = sparse_rows(x)
                getattr(lib, function + "_sparse")(taken, machine, ctypes.byref(rows), *middle, *into)
            else:
                getattr(lib, function)(taken, machine, len(x), address(x), x.shape[1], *middle, *into)

    def _inputs(self, X: Any) -> Any:
        self._check_fitted()
        table = read_table(X, missing=True)
        self._check_columns(table.names, table.columns, reset=False)
        return self._encode(table)

    # ---- facts ------------------------------------------------------------------------------------------------------

    @property
    def report_(self) -> FitReport:
        """The settings and the results of the fit."""
        facts = read_struct(lib.bo_machine_report(self._machine()).contents)
        for member, enum in _NAMED.items():
            facts[member] = getattr(lib, f"bo_{enum}_name")(facts[member]).decode()
        facts["regularization"] = facts.pop("lambda")
        accuracy = facts.pop("accuracy")
        if accuracy.pairs:
            facts["kernel_error"] = KernelError(read_struct(accuracy))
        kept = {name: value for name, value in facts.items() if not (isinstance(value, float) and np.isnan(value))}
        for name in ("target_scale", "noise_std") if self.classes_ is not None else ("classes",):
            kept.pop(name, None)
        if kept["kernel"] not in ("nngp", "ntk"):
            for name in ("depth", "activation", "weight_variance", "bias_variance"):
                kept.pop(name)
        return FitReport(kept)

    @property
    def feature_importances_(self) -> Array:
        """The share of each column in the mean squared gradient of the predictions; the shares add up to 1.

        Gradients are with respect to the scaled inputs, at up to 500 rows of the fit, and summed over the outputs. For a
        linear function of independent columns, the share is the part of the variance that is due to the column. They are
        computed when they are first read.
        """
        machine = self._machine()
        if self._sample is None:
            raise AttributeError("feature_importances_: a machine from a file has no rows; pickle the estimator instead")
        starts = np.arange(self.n_features_in_ + 1) if self._encoding is None else self._encoding.starts
        sample = self._sample
        if hasattr(sample, "tocsr"):
            sample = sample[: max(1, (1 << 22) // sample.shape[1])].toarray()
        used = np.flatnonzero(np.diff(starts))
        groups = np.ascontiguousarray(starts[np.append(used, len(starts) - 1)], np.uint64)
        desc = c.bo_explain_desc(columns=len(used), starts=ctypes.cast(address(groups), ctypes.POINTER(ctypes.c_size_t)))
        slopes = np.zeros(len(used))
        with long_context() as taken:
            lib.bo_explain_gradients(
                taken, machine, ctypes.byref(desc), len(sample), address(sample), sample.shape[1], address(slopes), 0, None, None
            )
        shares = np.zeros(len(starts) - 1)
        shares[used] = slopes**2
        total = shares.sum()
        return shares / total if total > 0 else shares

    def plot_importances(self, ax: Any = None, *, columns: int = 20) -> Any:
        """Plot the largest feature importances as bars. Needs matplotlib.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to plot (default: a new figure).
        columns : int
            Maximum number of columns (default: 20).

        Returns
        -------
        matplotlib.axes.Axes
        """
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise ImportError("plot_importances needs matplotlib: install it with 'pip install matplotlib'") from error
        shares = self.feature_importances_
        names = getattr(self, "feature_names_in_", [f"column {at}" for at in range(len(shares))])
        largest = np.argsort(shares)[-columns:]
        ax = pyplot.subplots()[1] if ax is None else ax
        ax.barh([str(names[at]) for at in largest], shares[largest])
        ax.set_xlabel("share of the mean squared gradient")
        return ax

    # ---- files ------------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the machine to a file, which `bochner predict` reads as well. Parameters of the constructor are not stored.

        Parameters
        ----------
        path : str or path
        """
        machine = self._machine()
        report = lib.bo_machine_report(machine).contents
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        targets = 1 if self.classes_ is not None else report.outputs
        schema = make_schema(self._encoding, report.rows, self.n_features_in_, names, targets, self.classes_)
        write_file(path, machine.tobytes(schema))

    @classmethod
    def load(cls: type[Self], path: Any) -> Self:
        """Read a machine from a file of :meth:`save` or of `bochner fit`.

        Parameters
        ----------
        path : str or path

        Returns
        -------
        KernelRegressor or KernelClassifier
            A fitted estimator, with default parameters.
        """
        machine, schema = read_machine(read_file(path))
        report = lib.bo_machine_report(machine).contents
        self = cls()
        if (report.classes > 0) != isinstance(self, KernelClassifier):
            raise InvalidArgumentError(f"{path} has a machine for {'classes' if report.classes else 'numbers'}, not for {cls.__name__}")
        self._encoding, names, count, labels = (None, None, report.dim, []) if schema is None else read_schema(schema)
        if report.classes:
            self.classes_ = _labels(labels) if labels else np.arange(report.classes)
        else:
            self._one_target = report.outputs == 1  # type: ignore[attr-defined]
        self._check_columns(names, count, reset=True)
        self._fitted, self._sample = machine, None
        return self

    # ---- scikit-learn -----------------------------------------------------------------------------------------------

    def _more_tags(self) -> dict[str, Any]:
        return {"allow_nan": True, "X_types": ["2darray", "sparse"]}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def _labels(words: list[str]) -> Array:
    """Classes from their text in a file: integers, numbers or strings."""
    for kind in (np.int64, np.float64):
        try:
            return np.array(words).astype(kind)
        except ValueError:
            pass
    return np.array(words)


class KernelRegressor(RegressorMixin, _KernelMachine):
    """Kernel ridge regression with automatic choice of kernel, metric and regularization.

    Parameters
    ----------
    kernel : str
        "auto" (default) chooses among rbf, laplacian, matern12 and matern32, with a learned metric, and averages the
        predictions of a few of them for up to a few thousand rows; or a name of :func:`bochner.features.kernels`.
    features : int, optional
        Number of random features (default: the exact kernel where it is affordable and kernel is "auto", otherwise 4096).
    gamma : float, optional
        γ of the kernel; a larger one makes it more local (default: chosen).
    regularization : float, optional
        λ of |β|², without a factor for the number of rows (default: chosen).
    metric : {"auto", "none", "diagonal", "learn"}
        Metric of the distances: learned from gradients or not (default: "auto", which learns it with kernel "auto").
    solver : {"auto", "primal", "dual", "cg", "sgd", "adam"}
        How the system is solved (default: chosen by size).
    scaling : {"auto", "columns", "common", "none", "quantile"}
        Scaling of the inputs (default: "auto", each column to mean 0 and standard deviation 1).
    target_scale : {"auto", "linear", "log"}
        Whether logarithms of positive targets are fitted (default: chosen).
    budget : float, optional
        Seconds that a fit may take, approximately (default: no limit).
    function, draw, sampling, alpha, degree, depth, activation, weight_variance, bias_variance, candidates, leverage_lambda : optional
        The feature map, as in :class:`bochner.features.RandomFeatures`.
    fit_intercept : bool
        Fit an intercept, which is not penalized (default: True).
    noise, dropout : float, optional
        Noise on the features and probability of dropped features, in expectation (default: 0).
    precision : {"auto", "int8", "float32", "float64"}
        Precision of the products in the Gram matrix (default: chosen).
    memory : int, optional
        Bytes that a fit may use (default: three quarters of the memory).
    random_state : int or generator of NumPy, optional
        Seed of all random choices (default: 0, so that fits are repeatable).
    verbose : bool
        Show progress: a bar of tqdm if it is installed, otherwise text (default: False).

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, if X was a frame whose names are all strings.
    feature_importances_ : ndarray
        Share of each column in the mean squared gradient.
    report_ : FitReport
        Settings and results of the fit, such as the chosen kernel and the validation error.

    Notes
    -----
    Inputs are rounded to float32; sums and predictions are float64. NaN in X is a missing value: it is replaced by the mean
    of the column, and a column with missing values at the fit has one more input. Columns of text in a frame are read as
    ``bochner fit`` reads a CSV file; text columns of more than 32 values are encoded by the mean of the target.

    Fits do not depend on the order of the rows, and equal rows are fitted as one row with their weight. Several threads may
    predict with one machine at once. Ctrl-C stops a fit.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.machines import KernelRegressor
    >>> x = np.random.default_rng(0).uniform(-2, 2, (400, 3))
    >>> y = np.sin(2 * x[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(400)
    >>> machine = KernelRegressor(random_state=1).fit(x[:300], y[:300])
    >>> mean, std = machine.predict(x[300:], return_std=True)
    >>> low, high = machine.predict_interval(x[300:], level=0.9)
    >>> bool(0.8 < np.mean((low <= y[300:]) & (y[300:] <= high)))
    True
    >>> int(machine.feature_importances_.argmax())
    0
    """

    _one_target: bool

    def __init__(
        self,
        kernel: str = "auto",
        *,
        features: int | None = None,
        gamma: float | None = None,
        regularization: float | None = None,
        metric: str = "auto",
        solver: str = "auto",
        scaling: str = "auto",
        target_scale: str = "auto",
        budget: float | None = None,
        function: str | None = None,
        draw: str | None = None,
        sampling: str | None = None,
        alpha: float | None = None,
        degree: int | None = None,
        depth: int | None = None,
        activation: str | None = None,
        weight_variance: float | None = None,
        bias_variance: float | None = None,
        candidates: int | None = None,
        leverage_lambda: float | None = None,
        fit_intercept: bool = True,
        noise: float | None = None,
        dropout: float | None = None,
        precision: str = "auto",
        memory: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.gamma = gamma
        self.regularization = regularization
        self.metric = metric
        self.solver = solver
        self.scaling = scaling
        self.target_scale = target_scale
        self.budget = budget
        self.function = function
        self.draw = draw
        self.sampling = sampling
        self.alpha = alpha
        self.degree = degree
        self.depth = depth
        self.activation = activation
        self.weight_variance = weight_variance
        self.bias_variance = bias_variance
        self.candidates = candidates
        self.leverage_lambda = leverage_lambda
        self.fit_intercept = fit_intercept
        self.noise = noise
        self.dropout = dropout
        self.precision = precision
        self.memory = memory
        self.random_state = random_state
        self.verbose = verbose

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRegressor:
        """Add rows to the fit. Memory does not grow with the number of rows.

        The rows of the first call choose kernel, gamma and scaling, so that they should be a fair sample of all; 10000 are
        enough. They are also fitted. A call of :meth:`fit` ends the stream. The system is solved when the machine is next
        used.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.

        Returns
        -------
        KernelRegressor
            The estimator.
        """
        return self._partial_fit(X, y, sample_weight, not isinstance(getattr(self, "_fitted", None), _Stream))

    def _targets(self, y: Any, rows: int) -> Array:
        values = as_targets(type(self).__name__, y, rows)
        self._one_target = values.ndim == 1
        return values

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, (rows, columns)
        return_std : bool
            Also return the predictive standard deviations, including noise (default: False).

        Returns
        -------
        ndarray, (rows,) or (rows, targets)
            The predictions; with `return_std` a tuple of predictions and standard deviations.
        """
        mean, std = self._outputs(X, 2 if return_std else 1)
        return (mean, std) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[Array, Array]:
        """Predict intervals that contain the true value with a given probability.

        They are conformal: errors of left-out rows of the fit are used, without an assumption on their distribution.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, (rows, columns)
        level : float
            The probability, above 0 and below 1 (default: 0.95).

        Returns
        -------
        low, high : ndarray, (rows,) or (rows, targets)
        """
        _, _, low, high = self._outputs(X, 4, level)
        return low, high

    def _outputs(self, X: Any, count: int, level: float | None = None) -> list[Any]:
        outputs = lib.bo_machine_report(self._machine()).contents.outputs
        x = read_table(X, missing=True).rows
        arrays: list[Any] = [np.empty((x, outputs)) for _ in range(count)]
        self._predict(X, *arrays, *([None] if count == 1 else []), level=level)
        arrays = [array[:, 0] if self._one_target else array for array in arrays]
        return arrays if count > 1 else [*arrays, None]

    def _more_tags(self) -> dict[str, Any]:
        return {**super()._more_tags(), "multioutput": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class KernelClassifier(ClassifierMixin, _KernelMachine):
    """Classification with a kernel, with calibrated probabilities and automatic choice of kernel and regularization.

    Parameters
    ----------
    kernel : str
        "auto" (default) chooses among rbf, laplacian, matern12 and matern32, with a learned metric; or a name of
        :func:`bochner.features.kernels`.
    loss : {"auto", "ridge", "logistic"}
        The loss (default: chosen). "ridge" is the squared error of ±1 for each class, with calibrated probabilities.
    class_weight : dict or "balanced", optional
        Weights of classes by label (default: all 1). "balanced" gives all classes the same total weight.
    features, gamma, regularization, metric, solver, scaling, budget, function, draw, sampling, alpha, degree, depth, activation, \
weight_variance, bias_variance, candidates, leverage_lambda, fit_intercept, noise, dropout, precision, memory, random_state, verbose :
        As for :class:`KernelRegressor`.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, if X was a frame whose names are all strings.
    feature_importances_ : ndarray
        Share of each column in the mean squared gradient of the class scores.
    report_ : FitReport
        Settings and results of the fit, such as the chosen kernel and the validation accuracy.

    Notes
    -----
    See :class:`KernelRegressor` on missing values, text columns, weights and threads.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.machines import KernelClassifier
    >>> x = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    >>> y = np.where(np.hypot(*x.T) < 0.7, "inside", "outside")
    >>> machine = KernelClassifier().fit(x[:300], y[:300])
    >>> machine.score(x[300:], y[300:]) > 0.9
    True
    >>> machine.predict_proba([[0, 0]]).shape
    (1, 2)
    """

    def __init__(
        self,
        kernel: str = "auto",
        *,
        features: int | None = None,
        gamma: float | None = None,
        regularization: float | None = None,
        metric: str = "auto",
        loss: str = "auto",
        solver: str = "auto",
        scaling: str = "auto",
        class_weight: Any = None,
        budget: float | None = None,
        function: str | None = None,
        draw: str | None = None,
        sampling: str | None = None,
        alpha: float | None = None,
        degree: int | None = None,
        depth: int | None = None,
        activation: str | None = None,
        weight_variance: float | None = None,
        bias_variance: float | None = None,
        candidates: int | None = None,
        leverage_lambda: float | None = None,
        fit_intercept: bool = True,
        noise: float | None = None,
        dropout: float | None = None,
        precision: str = "auto",
        memory: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.gamma = gamma
        self.regularization = regularization
        self.metric = metric
        self.loss = loss
        self.solver = solver
        self.scaling = scaling
        self.class_weight = class_weight
        self.budget = budget
        self.function = function
        self.draw = draw
        self.sampling = sampling
        self.alpha = alpha
        self.degree = degree
        self.depth = depth
        self.activation = activation
        self.weight_variance = weight_variance
        self.bias_variance = bias_variance
        self.candidates = candidates
        self.leverage_lambda = leverage_lambda
        self.fit_intercept = fit_intercept
        self.noise = noise
        self.dropout = dropout
        self.precision = precision
        self.memory = memory
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelClassifier:
        self._known: Array | None = None
        return super().fit(X, y, sample_weight)

    fit.__doc__ = _KernelMachine.fit.__doc__

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> KernelClassifier:
        """Add rows to the fit. Memory does not grow with the number of rows.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`KernelRegressor.partial_fit`.
        classes : array_like, optional
            All classes that will occur; needed in the first call, unless its rows have all of them.

        Returns
        -------
        KernelClassifier
            The estimator.
        """
        first = not isinstance(getattr(self, "_fitted", None), _Stream)
        if first:
            self._known = None if classes is None else np.unique(np.asarray(classes))
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise ValueError(f"classes is {list(classes)}; expected the classes of the first call: {list(self._labels)}")
        else:
            self._known = self.classes_
        return self._partial_fit(X, y, sample_weight, first)

    @property
    def _labels(self) -> Array:
        self._check_fitted()
        assert self.classes_ is not None
        return self.classes_

    def _targets(self, y: Any, rows: int) -> Array:
        labels = as_labels(type(self).__name__, y, rows)
        known, indices = np.unique(labels, return_inverse=True)
        if self._known is not None:
            unknown = np.setdiff1d(known, self._known)
            if unknown.size:
                raise ValueError(f"y has the class {unknown[0]!r}; expected one of the classes {list(self._known)}")
            indices = np.searchsorted(self._known, known)[indices]
            known = self._known
        self.classes_ = known
        return indices.reshape(-1).astype(np.float64)

    def _check_classes(self, targets: Array, weights: Array | None) -> None:
        if (targets == targets[0]).all():
            raise ValueError(f"expected rows of at least 2 classes, found only the class {self._labels_of(targets)[0]!r}")

    def _labels_of(self, indices: Array) -> Array:
        assert self.classes_ is not None
        return self.classes_[indices.astype(int)]  # type: ignore[no-any-return]

    def _desc(self, targets: Array, weights: Array | None) -> tuple[Any, list[Any]]:
        desc, keep = super()._desc(targets, weights)
        if self.class_weight is None:
            return desc, keep
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            desc.balanced = True
            return desc, keep
        if not isinstance(self.class_weight, dict):
            raise ValueError(f"class_weight is {self.class_weight!r}; expected a dict, 'balanced' or None")
        assert self.classes_ is not None
        unknown = set(self.class_weight) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(f"class_weight: {unknown.pop()!r} is not a class of y; expected some of {self.classes_.tolist()}")
        values = np.array([self.class_weight.get(label, 1.0) for label in self.classes_.tolist()], np.float32)
        desc.class_weights = ctypes.cast(address(values), type(desc.class_weights))
        return desc, [*keep, values]

    def predict(self, X: Any) -> Array:
        """Predict classes.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, (rows, columns)

        Returns
        -------
        ndarray, (rows,)
        """
        return self._labels_of(self._scores(X).argmax(axis=1))

    def predict_proba(self, X: Any) -> Array:
        """Predict calibrated probabilities of the classes.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, (rows, columns)

        Returns
        -------
        ndarray, (rows, classes)
            One column per class, in the order of `classes_`.
        """
        x, machine = self._inputs(X), self._machine()
        out = np.empty((x.shape[0], len(self._labels)))
        with long_context() as taken:
            if hasattr(x, "tocsr"):
                rows, _keep = sparse_rows(x)
                lib.bo_machine_classify_sparse(taken, machine, ctypes.byref(rows), None, address(out))
            else:
                lib.bo_machine_predict_probabilities(taken, machine, len(x), address(x), x.shape[1], address(out))
        return out

    def predict_log_proba(self, X: Any) -> Array:
        """Predict logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))  # type: ignore[no-any-return]

    def decision_function(self, X: Any) -> Array:
        """Compute the scores of the classes.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, (rows, columns)

        Returns
        -------
        ndarray, (rows, classes), or (rows,) for two classes
            The class with the largest score is predicted. For two classes: the score of the second one minus that of the
            first.
        """
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _scores(self, X: Any) -> Array:
        scores = np.empty((read_table(X, missing=True).rows, len(self._labels)))
        self._predict(X, scores, None)
        return scores
