"""Shared by kernel machines for numbers and for classes: fits, streams, reports, importances and files."""

from __future__ import annotations

import ctypes
from typing import Any, TypeVar

import numpy as np

from . import _bindings as c
from ._arrays import address
from ._estimators import Estimator, as_weights, progress_bar, seed_of, settings_of
from ._library import (
    BochnerError,
    CanceledError,
    Handle,
    InvalidArgumentError,
    alone,
    device_name,
    enum_name,
    lib,
    long_context,
    new_lock,
)
from ._reports import Report
from ._saved import Saved, read_file, read_machine, write_file
from ._settings import fill, flag, read_struct, refuse_zero
from ._tables import (
    Numbers,
    Table,
    Texts,
    index_columns,
    inputs_of,
    labels_of,
    make_schema,
    merge_rows,
    read_schema,
    read_table,
    sparse_rows,
    with_index,
)
from .features import KernelError

Array = np.ndarray[Any, Any]
Self = TypeVar("Self", bound="KernelMachine")

# Parameters of the estimators that configure the feature map.
_FEATURES = (
    "features", "gamma", "function", "draw", "sampling", "alpha", "degree", "depth", "activation", "weight_variance",
    "bias_variance", "candidates", "leverage_lambda",
)  # fmt: skip
_NAMES = {"regularization": "lambda_"}  # parameters whose members have other names
# Members of the report that are values of enumerations.
_NAMED = {
    "task": c.BO_ENUM_TASK, "loss": c.BO_ENUM_LOSS, "solver": c.BO_ENUM_SOLVER, "scaling": c.BO_ENUM_SCALING,
    "kernel": c.BO_ENUM_KERNEL, "function": c.BO_ENUM_FUNCTION, "draw": c.BO_ENUM_DRAW,
    "precision": c.BO_ENUM_GRAM_PRECISION, "activation": c.BO_ENUM_HIDDEN_ACTIVATION, "metric": c.BO_ENUM_METRIC_CHOICE,
    "target_scale": c.BO_ENUM_TARGET_SCALE,
}  # fmt: skip
_IMPORTANCE_ROWS, _IMPORTANCE_WORK = 500, 100_000  # rows, and rows times columns, to permute at most


class FitReport(Report):
    """The settings and the results of a fit: kernel, gamma, regularization, solver, seconds, validation errors, ...

    The members of bo_fit_report in machines.h, with `lambda` as `regularization`. Members that do not apply are
    omitted. `kernel_error` is a :class:`bochner.features.KernelError`, if features estimate the kernel.
    """

    _title = "Fit of a kernel machine"


class Stream:
    """A fit in progress. It is solved when the machine is first used after rows were added."""

    def __init__(self, fitting: Handle | None, machine: Saved | None = None, device: str = "cpu") -> None:
        self._fitting, self._machine, self._device, self._lock = fitting, machine, device, new_lock()

    def add(self, samples: Any, verbose: Any) -> None:
        device = self._device
        with alone(self._lock), progress_bar(verbose) as progress, long_context(progress, device=device) as ctx:
            if self._fitting is None:
                raise BochnerError(
                    "partial_fit: a stream that was copied, loaded or interrupted cannot receive more rows; "
                    "start with a new estimator"
                )
            self._machine = None
            try:
                lib.bo_fitting_add(ctx, self._fitting, ctypes.byref(samples))
            except (KeyboardInterrupt, CanceledError, MemoryError):
                self._fitting = None  # some of the rows may have been added
                raise

    def machine(self) -> Saved:
        """The machine fitted to all rows so far."""
        with alone(self._lock):
            if self._machine is None:
                out = ctypes.c_void_p()
                with long_context(device=self._device) as ctx:
                    lib.bo_fitting_finish(ctx, self._fitting, ctypes.byref(out))
                self._machine = Saved("machine", out.value)
            return self._machine

    def __reduce__(self) -> Any:
        return Stream, (None, self.machine())


def _can_repeat(weights: Array) -> bool:
    """Whether weights can be replaced by repeated rows: integers with a sum that is not too large."""
    return bool((weights == np.floor(weights)).all() and weights.sum() <= 4 * len(weights) + 100_000)


class KernelMachine(Estimator):
    """Shared by regression and classification."""

    kernel: str
    fit_intercept: bool
    device: str
    random_state: Any
    verbose: bool
    _fitted: Any
    _sample: Any
    _encoding: Any
    _classifies = False
    classes_: Array | None = None

    # ---- fit --------------------------------------------------------------------------------------------------------

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, (rows, columns)
            Inputs. NaN is a missing value. pandas and polars DataFrames may have columns of text, categories, booleans
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
        self.__dict__.pop("_fitted", None)  # a failed fit must not leave a machine with other columns
        table = read_table(X, missing=True)
        targets = self._targets(y, table.rows)
        self._check_columns(table.names, table.columns, reset=True)
        weights = as_weights(sample_weight, table.rows)
        x, targets, weights = merge_rows(*self._encode_first(table, targets, weights))
        if x.shape[0] < 2:
            raise ValueError(f"all {table.rows} rows are equal; expected input columns that vary")
        self._check_targets(targets)
        samples, _alive = self._samples(x, targets, weights)
        desc, _desc_alive = self._desc()
        out = ctypes.c_void_p()
        device = device_name(self.device)
        with progress_bar(self.verbose) as progress, long_context(progress, device=device) as ctx:
            lib.bo_machine_fit(ctx, ctypes.byref(desc), ctypes.byref(samples), ctypes.byref(out))
        self._fitted = Saved("machine", out.value)
        self._sample = x[:_IMPORTANCE_ROWS].copy()
        return self

    def _partial_fit(self: Self, X: Any, y: Any, sample_weight: Any, first: bool) -> Self:
        if first:
            self.__dict__.pop("_fitted", None)
        table = read_table(X, missing=True)
        if not first:
            table = self._with_index(table)
        targets = self._targets(y, table.rows)
        self._check_columns(table.names, table.columns, reset=first)
        weights = as_weights(sample_weight, table.rows)
        if first:
            x, targets, weights = self._encode_first(table, targets, weights)
        else:
            x = self._encode(table)
        narrow = None if weights is None else weights.astype(np.float32)
        samples, _alive = self._samples(x, targets, narrow)
        if first:
            desc, _desc_alive = self._desc()
            out, device = ctypes.c_void_p(), device_name(self.device)
            with progress_bar(self.verbose) as progress, long_context(progress, device=device) as ctx:
                lib.bo_fitting_create(ctx, ctypes.byref(desc), ctypes.byref(samples), ctypes.byref(out))
            self._fitted = Stream(Handle(out.value, lib.bo_fitting_destroy), device=device)
            self._sample = x[:_IMPORTANCE_ROWS].copy()
        self._fitted.add(samples, self.verbose)
        return self

    def _targets(self, y: Any, rows: int) -> Array:
        raise NotImplementedError

    def _check_targets(self, targets: Array) -> None:
        """Refuses targets that cannot be fitted."""

    def _encode_first(self, table: Table, targets: Array, weights: Array | None) -> tuple[Any, Array, Array | None]:
        """The rows of a fit, encoded. Rows of weight 0 are removed first."""
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            table, targets, weights = table.take(kept), targets[kept], weights[kept]
        if table.rows < 2:
            raise ValueError(f"expected at least 2 rows, found n_samples = {table.rows}")
        center = getattr(self, "scaling", None) != "none"
        if table.is_sparse:
            encoding = Numbers(table.numbers, weights, center, [])
            self._encoding, x = encoding if np.any(encoding.origin) else None, encoding.encode(table)
        elif table.numbers is None:
            if weights is not None and _can_repeat(weights):  # codes of categories depend on how often rows occur
                chosen = np.arange(table.rows).repeat(weights.astype(np.int64))
                table, targets, weights = table.take(chosen), targets[chosen], None
            self._encoding, x = Texts.fit(table, targets, self.classes_ is not None, center, index_columns(table))
        else:
            self._encoding = Numbers(table.numbers, weights, center, index_columns(table))
            x = self._encoding.encode(table)
        return x, targets, weights

    def _samples(self, x: Any, targets: Array, weights: Array | None) -> tuple[Any, list[Any]]:
        """The library struct of rows to fit, and the arrays that it points to."""
        y = np.require(targets, np.float64, ["C", "A"])
        keep_alive: list[Any] = [x, y, weights]
        samples = c.bo_samples(rows=x.shape[0], dim=x.shape[1], targets=y.size // len(y), y=address(y))
        samples.classes = 0 if self.classes_ is None else len(self.classes_)
        if hasattr(x, "tocsr"):
            struct, arrays = sparse_rows(x)
            samples.sparse = ctypes.pointer(struct)
            keep_alive += [struct, arrays]
        else:
            samples.x = address(x)
        if weights is not None:
            samples.weights = address(weights)
        return samples, keep_alive

    def _desc(self) -> tuple[Any, list[Any]]:
        """The descriptor of the fit, and the arrays that it points to."""
        refuse_zero(self.get_params(deep=False))
        settings = settings_of(self, "kernel", "random_state", "verbose", "device", "class_weight", "fit_intercept", *_FEATURES)
        desc = c.bo_machine_desc(seed=seed_of(self.random_state), no_intercept=not flag("fit_intercept", self.fit_intercept))
        desc.choose_kernel = self.kernel == "auto"
        fill(desc, settings, {name: _NAMES.get(name, name) for name in settings})
        features = {name: getattr(self, name) for name in _FEATURES}
        fill(desc.features, features if self.kernel == "auto" else {"kernel": self.kernel, **features})
        desc.task = c.BO_TASK_REGRESSION if self.classes_ is None else c.BO_TASK_CLASSIFICATION
        return desc, []

    # ---- predict ----------------------------------------------------------------------------------------------------

    def _machine(self) -> Saved:
        self._check_fitted()
        fitted = self._fitted.machine() if isinstance(self._fitted, Stream) else self._fitted
        assert isinstance(fitted, Saved)
        return fitted

    def _encode(self, table: Table) -> Any:
        """Rows as inputs of the machine: an array of float32 or sparse rows."""
        if table.is_sparse:
            if self._encoding is not None and (isinstance(self._encoding, Texts) or self._encoding.has_missing.any()):
                raise ValueError(
                    "X is sparse; expected a frame or an array as at the fit, which had text or missing values"
                )
            return table.numbers if self._encoding is None else self._encoding.encode(table)
        if self._encoding is not None:
            return self._encoding.encode(table)
        if table.numbers is None or np.isnan(table.numbers.sum()):
            raise ValueError("Input X contains NaN or text; the machine was fitted to sparse rows of numbers")
        return np.ascontiguousarray(table.numbers, np.float32)

    def _with_index(self, table: Table) -> Table:
        known = getattr(self, "feature_names_in_", None)
        if self._encoding is None or known is None:
            return table
        return with_index(table, list(known), self._encoding)

    def _inputs(self, X: Any) -> Any:
        self._check_fitted()
        table = self._with_index(read_table(X, missing=True))
        self._check_columns(table.names, table.columns, reset=False)
        return self._encode(table)

    def _predict(self, machine: Saved, x: Any, level: float = 0.0, **arrays: Array) -> None:
        """Fills arrays of bo_prediction, such as mean and std, with the predictions of rows."""
        dim = lib.bo_machine_report(machine).contents.dim
        if x.shape[1] != dim:
            raise BochnerError(
                f"the machine has {dim} inputs, found {x.shape[1]}; it was fitted again in another thread"
            )
        inputs, _alive = inputs_of(x)
        out = c.bo_prediction(level=level, **{name: address(array) for name, array in arrays.items()})
        with long_context(device=device_name(self.device)) as ctx:
            lib.bo_machine_predict(ctx, machine, ctypes.byref(inputs), ctypes.byref(out))

    # ---- facts ------------------------------------------------------------------------------------------------------

    @property
    def report_(self) -> FitReport:
        """The settings and the results of the fit."""
        facts = read_struct(lib.bo_machine_report(self._machine()).contents)
        for member, which in _NAMED.items():
            facts[member] = enum_name(which, facts[member])
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
        """The share of each column in what the predictions depend on; the shares add up to 1.

        The values of a column are permuted among up to 500 rows of the fit. The importance of the column is the mean
        squared change of the predictions, or for classes the mean change of the probabilities (total variation distance).
        For a sum of functions of independent columns it is the part of the variance that is due to the column.
        Importances are computed each time that they are read.
        """
        machine = self._machine()
        if self._sample is None:
            raise AttributeError(
                "feature_importances_: a machine from a file has no rows; pickle the estimator instead"
            )
        starts = np.arange(self.n_features_in_ + 1) if self._encoding is None else self._encoding.starts
        used = np.flatnonzero(np.diff(starts))
        sample = self._sample[: max(50, _IMPORTANCE_WORK // len(used))]
        if hasattr(sample, "tocsr"):
            sample = sample.toarray()
        groups = np.ascontiguousarray(starts[np.append(used, len(starts) - 1)], np.uint64)
        desc = c.bo_explain_desc(columns=len(used), starts=address(groups), repeats=3)
        inputs, _alive = inputs_of(sample)
        errors, found = c.bo_explain_errors(), (c.bo_column_importance * len(used))()
        with long_context(device=device_name(self.device)) as ctx:
            lib.bo_explain_permutations(
                ctx, machine, ctypes.byref(desc), ctypes.byref(inputs), None, None, ctypes.byref(errors), found
            )
        shares = np.zeros(len(starts) - 1)
        shares[used] = [column.increase for column in found]
        if self.classes_ is None:
            shares **= 2
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
        ax.set_xlabel("share of the change of predictions by permutation")
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
        if (report.classes > 0) != self._classifies:
            raise InvalidArgumentError(
                f"{path} has a machine for {'classes' if report.classes else 'numbers'}, not for {cls.__name__}"
            )
        self._encoding, names, count, labels = (None, None, report.dim, []) if schema is None else read_schema(schema)
        if report.classes:
            self.classes_ = labels_of(labels) if labels else np.arange(report.classes)
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
