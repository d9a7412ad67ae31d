"""Kernel machines: ridge regression and classification with a kernel, with the scikit-learn API.

>>> import numpy as np
>>> from bochner.machines import KernelRegressor
>>> x = np.random.default_rng(0).uniform(-2, 2, (300, 2))
>>> y = np.sin(2 * x[:, 0]) * x[:, 1]
>>> machine = KernelRegressor().fit(x[:200], y[:200])
>>> machine.score(x[200:], y[200:]) > 0.95
True
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ._arrays import address
from ._estimators import ClassifierMixin, RegressorMixin, as_labels, as_targets
from ._library import InvalidArgumentError, lib
from ._machine_base import FitReport, KernelMachine, Stream
from ._saved import Saved
from ._settings import checks_names
from .typing import (
    Activation, Draw, Function, GramPrecision, Kernel, Loss, Metric, Sampling, Scaling, Solver, TargetScale,
)  # fmt: skip

__all__ = ["FitReport", "KernelClassifier", "KernelRegressor"]


def __dir__() -> list[str]:
    return sorted(__all__)


Array = np.ndarray[Any, Any]


def _outputs(machine: Saved) -> int:
    return int(lib.bo_machine_report(machine).contents.outputs)


class KernelRegressor(RegressorMixin, KernelMachine):
    """Kernel ridge regression with automatic choice of kernel, metric and regularization.

    Parameters
    ----------
    kernel : str
        "auto" (default) chooses among rbf, laplacian, matern12 and matern32, with a learned metric, and averages the
        predictions of a few of them for up to a few thousand rows; or a name of :func:`bochner.features.kernels`.
    features : int, optional
        Number of random features (default: the exact kernel where it is affordable and kernel is "auto", otherwise 4096).
    gamma : float, optional
        γ of the kernel; a larger value is more local (default: chosen).
    regularization : float, optional
        λ of ``λ|β|²``, without a factor for the number of rows (default: chosen).
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
    function, draw, sampling, alpha, degree, depth, activation, ... : optional
        The feature map, as in :class:`bochner.features.RandomFeatures`.
    fit_intercept : bool
        Fit an intercept, which is not penalized (default: True).
    noise, dropout : float, optional
        Noise on the features and probability of dropped features, in expectation (default: 0).
    precision : {"auto", "int8", "float32", "float64"}
        Precision of the products in the Gram matrix (default: chosen).
    memory : int, optional
        Bytes that a fit may use (default: three quarters of the memory).
    random_state : int or NumPy Generator, optional
        Seed of all random choices (default: 0, so that fits are repeatable).
    verbose : bool
        Show progress: a tqdm bar if tqdm is installed, otherwise text (default: False).
    device : str
        Where machines are fitted and predict: "cpu" (default), "cuda" or "cuda:N" for a GPU, or "auto" for a GPU if there is
        one. A GPU fits random features with the solver "primal" and the loss "ridge"; other combinations are refused.
        ``set_params(device=...)`` moves the predictions of a fitted machine. Sparse rows, exact kernels, and maps for which
        GPUs have no kernels predict on the CPU.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of str
        Names of the columns, if X was a frame whose names are all strings.
    feature_importances_ : ndarray
        Share of each column in the mean squared change of the predictions when its values are permuted.
    report_ : FitReport
        Settings and results of the fit, such as the chosen kernel and the validation error.

    Notes
    -----
    Inputs are rounded to float32, after the origin of columns far from 0 is subtracted in float64, so that Unix times
    lose no precision; sums and predictions are float64. NaN in X is a missing value: it is replaced by the mean of the
    column, and a column with missing values at the fit has one more input. Text columns of a DataFrame are read as
    ``bochner fit`` reads a CSV file; text columns of more than 32 values are encoded by the mean of the target.

    Fits do not depend on the order of the rows, and equal rows are fitted as one row with their weight. In DataFrames
    with text, integer weights repeat rows; other weights do not change the means of missing values and the codes of
    categories. Several threads may predict with one machine concurrently. Ctrl-C stops a fit.

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

    @checks_names()
    def __init__(
        self,
        kernel: Literal["auto"] | Kernel = "auto",
        *,
        features: int | None = None,
        gamma: float | None = None,
        regularization: float | None = None,
        metric: Metric = "auto",
        solver: Solver = "auto",
        scaling: Scaling = "auto",
        target_scale: TargetScale = "auto",
        budget: float | None = None,
        function: Function | None = None,
        draw: Draw | None = None,
        sampling: Sampling | None = None,
        alpha: float | None = None,
        degree: int | None = None,
        depth: int | None = None,
        activation: Activation | None = None,
        weight_variance: float | None = None,
        bias_variance: float | None = None,
        candidates: int | None = None,
        leverage_lambda: float | None = None,
        fit_intercept: bool = True,
        noise: float | None = None,
        dropout: float | None = None,
        precision: GramPrecision = "auto",
        memory: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
        device: str = "cpu",
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
        self.device = device

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelRegressor:
        """Add rows to the fit. Memory does not grow with the number of rows.

        The rows of the first call choose kernel, gamma and scaling, so they should be a representative sample; 10000
        are enough. They are also fitted. A call of :meth:`fit` ends the stream. The system is solved when the machine
        is next used.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.

        Returns
        -------
        KernelRegressor
            The estimator.
        """
        return self._partial_fit(X, y, sample_weight, not isinstance(getattr(self, "_fitted", None), Stream))

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
        machine, x = self._machine(), self._inputs(X)
        names = ("mean", "std") if return_std else ("mean",)
        arrays: dict[str, Any] = {name: np.empty((x.shape[0], _outputs(machine))) for name in names}
        self._predict(machine, x, **arrays)
        shaped = tuple(map(self._shaped, arrays.values()))
        return shaped if return_std else shaped[0]

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[Array, Array]:
        """Predict intervals that contain the true value with a given probability.

        They are conformal: they use errors of held-out rows of the fit, without an assumption on their distribution.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, (rows, columns)
        level : float
            The probability, above 0 and below 1 (default: 0.95).

        Returns
        -------
        low, high : ndarray, (rows,) or (rows, targets)
        """
        machine, x = self._machine(), self._inputs(X)
        low, high = (np.empty((x.shape[0], _outputs(machine))) for _ in range(2))
        if level == 0:  # the default of the library
            raise InvalidArgumentError("level: expected a number between 0 and 1, found 0")
        self._predict(machine, x, float(level), low=low, high=high)
        return self._shaped(low), self._shaped(high)

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self._one_target else values

    def _more_tags(self) -> dict[str, Any]:
        return {**super()._more_tags(), "multioutput": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class KernelClassifier(ClassifierMixin, KernelMachine):
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
    features, gamma, regularization, metric, solver, scaling, budget, fit_intercept, random_state, verbose, device, ... : optional
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
        Share of each column in the mean change of the probabilities when its values are permuted.
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

    _classifies = True
    _known: Array | None

    @checks_names()
    def __init__(
        self,
        kernel: Literal["auto"] | Kernel = "auto",
        *,
        features: int | None = None,
        gamma: float | None = None,
        regularization: float | None = None,
        metric: Metric = "auto",
        loss: Loss = "auto",
        solver: Solver = "auto",
        scaling: Scaling = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        budget: float | None = None,
        function: Function | None = None,
        draw: Draw | None = None,
        sampling: Sampling | None = None,
        alpha: float | None = None,
        degree: int | None = None,
        depth: int | None = None,
        activation: Activation | None = None,
        weight_variance: float | None = None,
        bias_variance: float | None = None,
        candidates: int | None = None,
        leverage_lambda: float | None = None,
        fit_intercept: bool = True,
        noise: float | None = None,
        dropout: float | None = None,
        precision: GramPrecision = "auto",
        memory: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
        device: str = "cpu",
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
        self.device = device

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelClassifier:
        self._known = None
        return super().fit(X, y, sample_weight)

    fit.__doc__ = KernelMachine.fit.__doc__

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> KernelClassifier:
        """Add rows to the fit. Memory does not grow with the number of rows.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`KernelRegressor.partial_fit`.
        classes : array_like, optional
            All classes that will occur; required in the first call, unless its rows contain all classes.

        Returns
        -------
        KernelClassifier
            The estimator.
        """
        first = not isinstance(getattr(self, "_fitted", None), Stream)
        if first:
            self._known = None if classes is None else np.unique(np.asarray(classes))
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self._labels):
            raise ValueError(
                f"classes is {list(classes)}; expected the classes of the first call: {list(self._labels)}"
            )
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

    def _check_targets(self, targets: Array) -> None:
        if (targets == targets[0]).all():
            only = self.classes_[int(targets[0])] if self.classes_ is not None else 0
            raise ValueError(f"expected rows of at least 2 classes, found only the class {only!r}")

    def _desc(self) -> tuple[Any, list[Any]]:
        desc, keep_alive = super()._desc()
        if self.class_weight is None:
            return desc, keep_alive
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            desc.balanced = True
            return desc, keep_alive
        if not isinstance(self.class_weight, dict):
            raise ValueError(f"class_weight is {self.class_weight!r}; expected a dict, 'balanced' or None")
        assert self.classes_ is not None
        unknown = set(self.class_weight) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(
                f"class_weight: {unknown.pop()!r} is not a class of y; expected some of {self.classes_.tolist()}"
            )
        values = np.array([self.class_weight.get(label, 1.0) for label in self.classes_.tolist()], np.float32)
        desc.class_weights = address(values)
        return desc, [*keep_alive, values]

    def predict(self, X: Any) -> Array:
        """Predict the most probable classes.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, (rows, columns)

        Returns
        -------
        ndarray, (rows,)
        """
        chosen, labels = self.predict_proba(X).argmax(axis=1), self._labels
        predicted: Array = labels[chosen]
        return predicted

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
        machine, x = self._machine(), self._inputs(X)
        out = np.empty((x.shape[0], lib.bo_machine_report(machine).contents.classes))
        self._predict(machine, x, probabilities=out)
        return out

    def predict_log_proba(self, X: Any) -> Array:
        """Predict logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def decision_function(self, X: Any) -> Array:
        """Compute the scores of the classes: logarithms of the probabilities, or the log-odds of two classes.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, (rows, columns)

        Returns
        -------
        ndarray, (rows, classes), or (rows,) for two classes
            The class with the largest score is predicted; for two classes, the second class if the score is positive.
        """
        scores: Array = np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
