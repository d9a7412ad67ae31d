"""Shared by estimators: the base classes of scikit-learn if it is installed, checks of targets and weights, progress.

scikit-learn is optional. Without it, this module provides parameters, repr() and scores; everything else is the same.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import refuse_masked
from ._library import Progress
from ._settings import refuse_unknown

Array = np.ndarray[Any, Any]


# ---- base classes ---------------------------------------------------------------------------------------------------


class BaseEstimator:
    """The parameters of the constructor as attributes, as scikit-learn has them."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor."""
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **params: Any) -> Any:
        """Change parameters of the constructor, for the next fit."""
        refuse_unknown(type(self).__name__, params, self._get_param_names())
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = {
            name: value for name, value in self.get_params().items() if repr(value) != repr(defaults[name].default)
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


class RegressorMixin:
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R² of the predictions, averaged over the targets."""
        y = np.asarray(y, np.float64).reshape(len(y), -1)
        predicted = np.reshape(self.predict(X), y.shape)  # type: ignore[attr-defined]
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        mean = np.average(y, axis=0, weights=weights)
        return float(np.mean(1 - (weights @ (y - predicted) ** 2) / (weights @ (y - mean) ** 2)))


class ClassifierMixin:
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of the predicted classes."""
        return float(np.average(self.predict(X) == np.asarray(y).ravel(), weights=sample_weight))  # type: ignore[attr-defined]


class TransformerMixin:
    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit to X and return its features."""
        return self.fit(X, y).transform(X)  # type: ignore[attr-defined]


class NotFittedError(ValueError, AttributeError):
    """The estimator has not been fitted."""


class DataConversionWarning(UserWarning):
    """Data was converted in a way that the caller may not expect."""


if not TYPE_CHECKING:
    with contextlib.suppress(ImportError):
        from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
        from sklearn.exceptions import DataConversionWarning, NotFittedError


class Estimator(BaseEstimator):
    """An estimator that stores its fitted part in the attribute `_fitted`."""

    n_features_in_: int

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in vars(self)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise NotFittedError(
                f"This {name} instance is not fitted yet. Call 'fit' with appropriate arguments before using this estimator."
            )

    def _check_columns(self, names: list[str] | None, count: int, reset: bool) -> None:
        """Records the columns at a fit, and compares later rows with them."""
        if reset:
            self.n_features_in_ = count
            self.__dict__.pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = np.array(names, object)
            return
        name, known = type(self).__name__, getattr(self, "feature_names_in_", None)
        if names is not None and known is None:
            warnings.warn(f"X has feature names, but {name} was fitted without feature names", stacklevel=4)
        elif names is None and known is not None:
            warnings.warn(
                f"X does not have valid feature names, but {name} was fitted with feature names", stacklevel=4
            )
        elif names is not None and known is not None and list(known) != names:
            raise ValueError(_difference(list(known), names))
        if count != self.n_features_in_:
            raise ValueError(
                f"X has {count} features, but {name} is expecting {self.n_features_in_} features as input."
            )


def _difference(known: list[str], found: list[str]) -> str:
    """The error message about names of columns, with the text of scikit-learn."""
    message = "The feature names should match those that were passed during fit.\n"
    unseen, absent = sorted(set(found) - set(known)), sorted(set(known) - set(found))
    for title, names in (
        ("Feature names unseen at fit time", unseen),
        ("Feature names seen at fit time, yet now missing", absent),
    ):
        if names:
            message += (
                title + ":\n" + "".join(f"- {name}\n" for name in names[:5]) + ("- ...\n" if len(names) > 5 else "")
            )
    return message if unseen or absent else message + "Feature names must be in the same order as they were in fit.\n"


def settings_of(estimator: Any, *without: str) -> dict[str, Any]:
    """The parameters of the constructor that are settings of the library."""
    return {name: getattr(estimator, name) for name in estimator._get_param_names() if name not in without}


def seed_of(random_state: Any) -> int:
    """The seed of a random_state: an int, a NumPy Generator, or None for 0."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, (int, np.integer)) and 0 <= int(random_state) < 2**64:
        return int(random_state)
    raise ValueError(
        f"random_state is {random_state!r}; expected an integer of at least 0, a NumPy Generator, or None"
    )


# ---- targets and weights --------------------------------------------------------------------------------------------


def check_length(rows: int, values: Array) -> None:
    if len(values) != rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[rows, len(values)]}")


def as_targets(owner: str, y: Any, rows: int) -> Array:
    """Numbers to predict: float64, one or several per row."""
    values = np.asarray(_required(owner, y))
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported: y has complex numbers; expected real numbers")
    if values.dtype.kind in "MmV":
        raise ValueError(f"y: expected numbers, found {values.dtype}")
    try:
        values = values.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y: expected numbers, found {values.dtype}: {error}") from error
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] == 0):
        raise ValueError(f"y has shape {values.shape}; expected ({rows},) or ({rows}, targets)")
    check_length(rows, values)
    if not np.isfinite(values).all():
        raise ValueError(
            f"Input y contains {'NaN' if np.isnan(values).any() else 'infinity'}; expected finite numbers."
        )
    return values


def as_labels(owner: str, y: Any, rows: int) -> Array:
    """Classes, one per row."""
    values = np.asarray(_required(owner, y))
    if values.ndim == 2 and values.shape[1] == 1:
        message = (
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,)"
        )
        warnings.warn(message, DataConversionWarning, stacklevel=4)
        values = values.ravel()
    if values.ndim != 1:
        raise ValueError(f"y should be a 1d array, got an array of shape {values.shape} instead.")
    check_length(rows, values)
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise ValueError(f"Input y contains {'NaN' if np.isnan(values).any() else 'infinity'}.")
        if (values != np.floor(values)).any():
            raise ValueError("Unknown label type: continuous. Expected classes, such as integers or strings, in y")
    if values.dtype.kind not in "biufOSU" or any(
        value is None or value != value for value in values if values.dtype.kind == "O"
    ):
        raise ValueError(
            f"Unknown label type: expected integers or strings in y, found {values.dtype} or a missing value"
        )
    return values


def _required(owner: str, y: Any) -> Any:
    if y is None:
        raise ValueError(f"{owner} requires y to be passed, but the target y is None")
    refuse_masked(y, "y")
    return y.toarray() if hasattr(y, "toarray") else y


def as_weights(sample_weight: Any, rows: int) -> Array | None:
    """Weights of rows: float64, or None if all are 1."""
    if sample_weight is None:
        return None
    refuse_masked(sample_weight, "sample_weight")
    weights = np.asarray(sample_weight)
    if weights.dtype.kind in "cMmV":
        raise ValueError(f"sample_weight: expected numbers, found {weights.dtype}")
    if weights.dtype.kind not in "biuf":
        weights = weights.astype(np.float64)
    if weights.ndim == 0:
        weights = np.full(rows, weights)
    if weights.shape != (rows,):
        raise ValueError(f"sample_weight has shape {weights.shape}; expected ({rows},)")
    weights = weights.astype(np.float64, copy=False)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight: expected finite numbers of at least 0")
    if not weights.any():
        raise ValueError("sample_weight: all weights are zero; expected a row of positive weight")
    return weights


# ---- progress -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def progress_bar(verbose: Any) -> Iterator[Progress | None]:
    """A progress callback that shows a bar of tqdm if it is installed, otherwise a line of text; None if not verbose."""
    if not verbose:
        yield None
        return
    bar: Any = None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        tqdm = None
    phase = ""

    def show(what: str, done: float, total: float) -> None:
        nonlocal bar, phase
        if tqdm is not None:
            if bar is None or what != phase:
                if bar is not None:
                    bar.close()
                bar = tqdm(desc=what, bar_format=None if total else "{desc}: {n:.0f} [{elapsed}]")
            bar.total = total or None
            bar.n = done
            bar.refresh()
        elif what != phase or (total and done >= total):
            print(what + (f": {100 * done / total:.0f}%" if total else ""), file=sys.stderr, flush=True)
        phase = what

    try:
        yield show
    finally:
        if bar is not None:
            bar.close()
