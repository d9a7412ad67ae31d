"""Rows that callers pass in: arrays, sparse matrices and pandas or polars DataFrames, and their encoding as numbers.

The library reads a DataFrame with text, categories, booleans or dates like the same CSV file (bo_column_use in data.h):
categories become one input per value, or target codes if there are more than 32 values; dates become year, day of the
year, weekday and hour. A missing number becomes the mean of its column, and a column with missing values at the fit has
one more input, which is 1 where the value is missing.
"""

from __future__ import annotations

import csv
import ctypes
import io
import json
import math
import re
import sys
import warnings
from collections import Counter
from typing import Any

import numpy as np

from . import _bindings as c
from ._arrays import address, refuse_masked
from ._library import Handle, collected_warnings, context, lib, saved_bytes
from ._saved import Saved, read

Array = np.ndarray[Any, Any]

# ---- reading --------------------------------------------------------------------------------------------------------


class Table:
    """Rows from the caller: `frame` for a DataFrame; `numbers` (an array or sparse rows) if all columns are numeric."""

    __slots__ = ("columns", "frame", "names", "numbers", "rows")

    def __init__(self, numbers: Any, frame: Any, names: list[str] | None, shape: tuple[int, int]) -> None:
        self.numbers, self.frame, self.names = numbers, frame, names
        self.rows, self.columns = shape
        for count, what in zip(shape, ("sample", "feature")):
            if count == 0:
                raise ValueError(f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required.")

    @property
    def is_sparse(self) -> bool:
        return self.numbers is not None and not isinstance(self.numbers, np.ndarray)

    def take(self, chosen: Array) -> Table:
        """Some of the rows."""
        frame = self.frame
        if frame is not None:
            frame = frame.iloc[chosen] if hasattr(frame, "iloc") else frame[chosen]
        return Table(
            None if self.numbers is None else self.numbers[chosen], frame, self.names, (len(chosen), self.columns)
        )

    def select(self, names: list[str]) -> Table:
        """The columns of these names; those that the table does not have are 0."""
        frame, numbers = self.frame, self.numbers
        if hasattr(frame, "iloc"):
            frame = frame.reindex(columns=names, fill_value=0)
        else:
            import polars

            frame = frame.select([polars.col(n) if n in frame.columns else polars.lit(0).alias(n) for n in names])
        if numbers is not None:
            at = {name: i for i, name in enumerate(self.names or [])}
            found = np.array([at.get(name, -1) for name in names])
            numbers = np.zeros((self.rows, len(names)), self.numbers.dtype)
            numbers[:, found >= 0] = self.numbers[:, found[found >= 0]]
        return Table(numbers, frame, names, (self.rows, len(names)))


def read_table(X: Any, *, missing: bool) -> Table:
    """Checks and reads rows. NaN is refused unless `missing`; infinite numbers are always refused."""
    if hasattr(X, "tocsr"):
        numbers = _sparse(X)
        _refuse_infinite(numbers.data, missing=False)
        return Table(numbers, None, None, numbers.shape)
    names = frame = None
    if hasattr(X, "columns") and hasattr(X, "to_numpy"):
        frame, names = X, _names(X)
        _refuse_lists(X)
        if not all(_is_number(dtype) for dtype in X.dtypes):
            return Table(None, X, names, X.shape)
        X = _frame_numbers(X)
    array = _numbers(X)
    if array.ndim != 2:
        raise ValueError(_dimensions(array))
    table = Table(array, frame, names, array.shape)
    if array.dtype.kind == "f":
        _refuse_infinite(array, missing)
    return table


def _numbers(X: Any) -> Array:
    refuse_masked(X, "X")
    array = np.asarray(X)
    if array.dtype.kind == "c" or (array.dtype.kind == "O" and any(isinstance(v, complex) for v in array.flat)):
        raise ValueError("Complex data not supported: expected real numbers")
    if array.dtype.kind in "OSU":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"X: expected numbers, found text (pass a pandas or polars frame to encode it): {error}"
            ) from error
    if array.dtype.kind not in "fiub":
        raise TypeError(f"X has dtype {array.dtype}; expected real numbers, such as float32 or float64")
    if array.dtype not in (np.float32, np.float64):
        return array.astype(np.float64)
    return array if array.flags.aligned else array.copy()


def _dimensions(array: Array) -> str:
    if array.ndim > 2:
        return f"Found array with dim {array.ndim}; expected 2 dimensions: rows and columns."
    return (
        f"Expected 2D array, got {'scalar' if array.ndim == 0 else '1D'} array instead.\nReshape your data either using "
        "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it contains a single sample."
    )


def _refuse_infinite(array: Array, missing: bool) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()) and array.dtype == np.float32:
            return
        highest, lowest = (
            (np.fmax.reduce(array, axis=None), np.fmin.reduce(array, axis=None)) if array.size else (0.0, 0.0)
        )
    if highest > np.finfo(np.float32).max or lowest < np.finfo(np.float32).min:
        raise ValueError("Input X contains infinity or a value too large for dtype('float32').")
    if not missing and np.isnan(array).any():
        raise ValueError(
            "Input X contains NaN.\nReplace missing values first, for example with sklearn.impute.SimpleImputer."
        )


def _sparse(X: Any) -> Any:
    """Compressed sparse rows of float32 or float64, with ascending columns and no number twice."""
    if hasattr(X, "check_format"):  # with indices out of range, SciPy would read and write arbitrary memory
        X.check_format(full_check=True)
    rows = X.tocsr()
    if rows.dtype.kind not in "fiub":
        raise ValueError(f"Complex data not supported: X has dtype {rows.dtype}; expected real numbers")
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    if rows.dtype != np.float32:
        rows = rows.astype(np.float64)
    rows.eliminate_zeros()
    return rows


def sparse_rows(rows: Any) -> tuple[Any, list[Array]]:
    """The library struct for compressed sparse rows, and the arrays that it points to."""
    keep = [
        np.require(array, kind, ["C", "A"])
        for array, kind in ((rows.indptr, np.uint64), (rows.indices, np.uint32), (rows.data, np.float32))
    ]
    start, column, value = map(address, keep)
    return c.bo_sparse(rows=rows.shape[0], dim=rows.shape[1], start=start, column=column, value=value), keep


def inputs_of(rows: Any) -> tuple[Any, list[Any]]:
    """The library struct for rows, a float32 array or sparse rows, and the arrays that it points to."""
    if hasattr(rows, "tocsr"):
        struct, keep = sparse_rows(rows)
        return c.bo_inputs(sparse=ctypes.pointer(struct)), [struct, *keep]
    x, step = strided(rows)
    return c.bo_inputs(rows=len(x), x=address(x), stride=step), [x]


def strided(array: Array) -> tuple[Array, int]:
    """Rows as float32, and the number of floats between two rows. Without a copy if the columns are contiguous."""
    width = max(array.shape[1], 1)
    if (
        array.dtype == np.float32
        and array.strides[1] == 4
        and array.strides[0] % 4 == 0
        and array.strides[0] >= 4 * width
    ):
        if array.flags.aligned:
            return array, array.strides[0] // 4
    return np.ascontiguousarray(array, np.float32), width


# ---- frames ---------------------------------------------------------------------------------------------------------


def _names(frame: Any) -> list[str] | None:
    texts = [isinstance(name, str) for name in frame.columns]
    if any(texts) and not all(texts):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but some names of X are not strings."
        )
    names = list(frame.columns)
    if len(set(names)) < len(names):
        name, count = Counter(names).most_common(1)[0]
        raise ValueError(f"X has {count} columns named {name!r}; rename them, so that all names are different")
    return names if all(texts) and texts else None


def _refuse_lists(frame: Any) -> None:
    """Refuses cells that are neither numbers nor text, such as lists."""
    if not hasattr(frame, "iloc"):
        for name, dtype in zip(frame.columns, frame.dtypes):
            if str(dtype).startswith(("List", "Array", "Struct")):
                raise TypeError(f"X: column {name!r} has cells of type {dtype}; expected numbers, text or dates")
        return
    for at, dtype in enumerate(frame.dtypes):
        if getattr(dtype, "kind", "") != "O":
            continue
        if getattr(dtype, "categories", None) is not None and not any(isinstance(v, tuple) for v in dtype.categories):
            continue
        for row, value in enumerate(frame.iloc[:, at]):
            if hasattr(value, "__len__") and not isinstance(value, (str, bytes)):
                raise TypeError(
                    f"X: column {frame.columns[at]!r}, row {row}: expected a number, text or a date, found a "
                    f"{type(value).__name__}; make a column of each of its members"
                )


_INDEX = re.compile(r"index|level_0|unnamed:.*|", re.IGNORECASE)
_FEW_ROWS, _MAX_PER_ROW = 20, 100  # integer range of an index of few rows, as in the library


def index_columns(table: Table) -> list[int]:
    """The columns that are DataFrame indices: named index, level_0, Unnamed: 0 or not at all, with different integers
    from 0."""
    found = []
    for at, name in enumerate(table.names or []):
        if not _INDEX.fullmatch(name):
            continue
        values = np.asarray(
            table.numbers[:, at] if table.numbers is not None
            else table.frame.iloc[:, at] if hasattr(table.frame, "iloc") else table.frame[name]
        )  # fmt: skip
        if values.dtype.kind == "O" and all(isinstance(v, (int, np.integer)) and abs(int(v)) < 1 << 53 for v in values):
            values = values.astype(np.int64)
        if values.dtype.kind in "iuf" and (values >= 0).all() and (values % 1 == 0).all():
            dense = values.max() - values.min() < _MAX_PER_ROW * len(values)
            if (dense or len(values) >= _FEW_ROWS) and len(np.unique(values)) == len(values):
                found.append(at)
    if len(found) == table.columns:
        return []
    for at in found:
        warn(f"X: column {(table.names or [])[at]!r} is left out: it numbers the rows (rename it to use it)")
    return found


def warn(message: str) -> None:
    """Warns at the location of the package call."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals["__name__"].startswith("bochner."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def with_index(table: Table, known: list[str], encoding: Any) -> Table:
    """A table with the columns of the fit. A column that was left out may be absent; an index may have another index name."""
    names = table.names
    if names is None or names == known:
        return table
    left_out = {name for name, use in zip(known, encoding.used) if not use}
    if not left_out:
        return table
    if any(_INDEX.fullmatch(name) or re.fullmatch(r"column \d+", name) for name in left_out):
        expected = set(known)
        names = [name for name in names if name in expected or not _INDEX.fullmatch(name)]
    absent = left_out.difference(names)
    names = names.copy()
    for at, name in enumerate(known):
        if name in absent:
            names.insert(at, name)
    return table.select(names)


def _is_number(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "fiubc"


def _frame_numbers(frame: Any) -> Array:
    if hasattr(frame, "iloc") and any(not isinstance(dtype, np.dtype) for dtype in frame.dtypes):
        return frame.to_numpy(np.float64, na_value=np.nan)  # type: ignore[no-any-return]
    return frame.to_numpy()  # type: ignore[no-any-return]


_GUARD = "row__"


def csv_names(table: Table) -> list[str]:
    """The names of the columns in a CSV file of the frame."""
    names = table.names or []
    if len(set(names)) != table.columns or any(not name or re.fullmatch(r"\s*[-+]?\d+\s*", name) for name in names):
        return [f"column{at}" for at in range(table.columns)]
    return names


def csv_columns(table: Table, unused: list[int]) -> dict[str, Any]:
    """The column settings of bo_data_desc for such a file: the inputs, and the categories."""
    numbered = [str(at + 1) for at, dtype in enumerate(table.frame.dtypes) if _is_numbered_category(dtype)]
    return {
        "drop": b"0", "keep": ",".join(str(at + 1) for at in range(table.columns) if at not in unused).encode(),
        "categorical": ",".join(numbered).encode() or None,
    }  # fmt: skip


def csv_text(frame: Any, names: list[str]) -> bytes:
    """A DataFrame as CSV. The first column is always 0: the first line is then recognized as a header. The column is
    not used."""
    guard = _GUARD + "_" * max(len(name) for name in names)
    if hasattr(frame, "iloc"):
        frame = frame.set_axis(names, axis=1)
        frame.insert(0, guard, 0)
        return frame.to_csv(index=False, na_rep="NA", quoting=csv.QUOTE_NONNUMERIC).encode()  # type: ignore[no-any-return]
    import polars

    zero = polars.lit(0).alias(guard)
    frame = frame.rename(dict(zip(frame.columns, names))).select([zero, *names])
    return frame.write_csv(null_value="NA", quote_style="non_numeric").encode()  # type: ignore[no-any-return]


def _csv_of_numbers(numbers: Array, names: list[str]) -> bytes:
    """An array as CSV."""
    lines = [",".join(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names)]
    return "\n".join(lines + [",".join(map(repr, row)) for row in numbers.tolist()]).encode()


def _is_numbered_category(dtype: Any) -> bool:
    """A category of pandas whose values are numbers or texts of numbers, which would be read as numbers."""
    categories: Any = getattr(dtype, "categories", None)
    if not hasattr(categories, "dtype"):
        return False
    if getattr(categories.dtype, "kind", "O") in "fiub":
        return True
    return len(categories) > 0 and all(isinstance(text, str) and _may_be_number(text) for text in categories)


def _may_be_number(text: str) -> bool:
    """Whether a cell of this text could be in a column of numbers, as a number or a missing value."""
    try:
        return text.lower() in ("null", "none", "-", "na", "n/a", "?") or float(text) is not None
    except ValueError:
        return False


# ---- encoding -------------------------------------------------------------------------------------------------------


def origins(numbers: Any) -> Array:
    """The origins of numeric columns; zeros are ignored. Mostly zero columns of sparse rows have no origin."""
    out = np.zeros(numbers.shape[1])
    if hasattr(numbers, "tocsr"):
        present = np.bincount(numbers.indices, minlength=len(out))
        chosen = np.flatnonzero(2 * present >= numbers.shape[0])
        columns = numbers[:, chosen].tocsc()
        for at, column in enumerate(chosen):
            values = columns.data[columns.indptr[at] : columns.indptr[at + 1]].astype(np.float64)
            lib.bo_origins_choose(len(values), 1, address(values), 1, out.ctypes.data + 8 * int(column))
        return out
    width = max(1, (1 << 20) // max(1, len(numbers)))  # columns per block
    for first in range(0, len(out), width):
        block = np.require(numbers[:, first : first + width], np.float64, ["C", "A"])
        lib.bo_origins_choose(len(block), block.shape[1], address(block), block.shape[1], out.ctypes.data + 8 * first)
    return out


def shifted(numbers: Any, origin: Any) -> Any:
    """The differences from the origins as float32; the numbers unchanged without origins."""
    if not np.any(origin):
        return numbers
    return _shift_sparse(numbers, origin) if hasattr(numbers, "tocsr") else _shift(numbers, origin)


def _shift(numbers: Array, origin: Any) -> Array:
    """The differences from the origins as float32."""
    if not np.any(origin):
        return np.ascontiguousarray(numbers, np.float32)
    out = np.empty(numbers.shape, np.float32)
    return np.subtract(numbers, origin, out=out, dtype=np.float64, casting="unsafe")  # type: ignore[no-any-return]


def _shift_sparse(rows: Any, origin: Any) -> Any:
    columns = np.flatnonzero(origin)
    if not columns.size:
        return rows.astype(np.float32)
    count, size = rows.shape[0], columns.size
    full = (np.tile(origin[columns], count), np.tile(columns, count), np.arange(count + 1) * size)
    return _sparse((rows - type(rows)(full, shape=rows.shape)).astype(np.float32))


_NUMBERED = "row numbers"  # the name in the library


class Numbers:
    """The encoding of numeric columns: missing values are replaced, with one more input for columns with missing values.

    Numbers far from 0 become differences from the origin of their column, which float32 can represent.
    """

    origin: Any = 0.0

    def __init__(self, numbers: Any, weights: Array | None, center: bool, unused: list[int]) -> None:
        self.used = np.ones(numbers.shape[1], bool)
        self.used[unused] = False
        if center:
            self.origin = origins(numbers)
        if hasattr(numbers, "tocsr"):
            self.has_missing = np.zeros(numbers.shape[1], bool)
            self.fill = np.asarray(numbers.mean(axis=0, dtype=np.float64)).ravel()
            return
        absent = np.isnan(numbers) if np.isnan(numbers.sum()) else np.zeros((1, 1), bool)
        self.has_missing = np.broadcast_to(absent.any(axis=0), numbers.shape[1]).copy()
        if self.has_missing.any():
            shares = np.ones(len(numbers)) if weights is None else weights
            present = shares @ ~absent
            sums = shares @ np.where(absent, 0.0, numbers)
            self.fill = np.divide(sums, present, out=np.zeros_like(present), where=present > 0)
        elif weights is None:
            self.fill = numbers.mean(axis=0, dtype=np.float64)
        else:
            self.fill = (weights @ numbers) / weights.sum()

    def encode(self, table: Table) -> Any:
        numbers = table.numbers
        if numbers is None:
            raise ValueError("X has columns of text; the machine was fitted to numbers only")
        used, origin = self.used, self.origin
        if not used.all():
            numbers, origin = numbers[:, used], np.broadcast_to(origin, used.shape)[used]
        if table.is_sparse:
            return _shift_sparse(numbers, origin)
        if not self.has_missing.any() and not np.isnan(numbers.sum()):
            return _shift(numbers, origin)
        absent = np.isnan(numbers)
        out = np.zeros((len(numbers), self.starts[-1]), np.float32)
        out[:, self.starts[:-1][used]] = _shift(np.where(absent, self.fill[used], numbers), origin)
        out[:, self.starts[1:][self.has_missing] - 1] = absent[:, self.has_missing[used]]
        return out

    @property
    def starts(self) -> Array:
        """The first input of each column, and the number of inputs."""
        return np.concatenate([[0], np.cumsum(self.used.astype(int) + self.has_missing)])

    def columns(self, names: list[str] | None) -> list[dict[str, Any]]:
        """The columns of the schema."""
        found = []
        origins = np.broadcast_to(self.origin, self.fill.shape)
        for at, (fill, missing, origin) in enumerate(zip(self.fill, self.has_missing, origins)):
            column: dict[str, Any] = {"kind": "number", "fill": float(fill)}
            if origin:
                column["origin"] = float(origin)
            if not self.used[at]:
                column = {"kind": "unused", "why": _NUMBERED}
            if names:
                column["name"] = names[at]
            if missing:
                column["indicator"] = True
            found.append(column)
        return found


class Texts:
    """The encoding of a DataFrame with nonnumeric columns, by a schema of the library."""

    def __init__(self, schema: Saved, names: list[str]) -> None:
        self.schema, self.names = schema, names

    @classmethod
    def fit(cls, table: Table, y: Array, classes: bool, center: bool, unused: list[int]) -> tuple[Texts, Array]:
        """The encoding, and the rows with codes that do not contain their own targets."""
        names = csv_names(table)
        labels = io.BytesIO()
        np.save(labels, y)
        settings = {
            "label_bytes": labels.getvalue(), "label_size": len(labels.getvalue()), **csv_columns(table, unused),
            "task": c.BO_TASK_CLASSIFICATION if classes else c.BO_TASK_REGRESSION,
            "no_origin": not center,
        }  # fmt: skip
        with collected_warnings() as messages:
            x, schema = _load(csv_text(table.frame, names), None, settings)
        for message in messages:  # such as an invalid date
            warn(message)
        return cls(schema, names), x

    @property
    def used(self) -> list[bool]:
        """Whether each column is used."""
        return [column["kind"] != "unused" for column in _listed(json.loads(self.schema.tobytes()))]

    def encode(self, table: Table) -> Array:
        write, rows = (csv_text, table.frame) if table.frame is not None else (_csv_of_numbers, table.numbers)
        return _load(write(rows, self.names), self.schema, {})[0]

    @property
    def starts(self) -> Array:
        """The first input of each column, and the number of inputs."""
        counts = np.zeros(len(self.names), int)
        column = c.bo_schema_column_info()
        for at in range(1, len(self.names) + 1):  # column 0 has no inputs
            lib.bo_schema_column(self.schema, at, ctypes.byref(column))
            counts[at - 1] = column.inputs
        return np.concatenate([[0], np.cumsum(counts)])


def _load(contents: bytes, schema: Saved | None, settings: dict[str, Any]) -> tuple[Array, Saved]:
    buffers = {
        name: ctypes.create_string_buffer(value, len(value))
        for name, value in settings.items()
        if name == "label_bytes"
    }
    desc = c.bo_data_desc(path=b"X", size=len(contents), format=c.BO_FORMAT_CSV, keep_unlabeled=schema is not None)
    for name, value in settings.items():
        setattr(desc, name, ctypes.addressof(buffers[name]) if name in buffers else value)
    table = ctypes.create_string_buffer(contents, len(contents))
    desc.bytes = ctypes.addressof(table)
    out = ctypes.c_void_p()
    with context() as ctx:
        lib.bo_data_load(ctx, ctypes.byref(desc), schema, ctypes.byref(out))
    data = Handle(out.value, lib.bo_data_destroy)
    found = c.bo_data.from_address(out.value or 0)
    x = np.ctypeslib.as_array(ctypes.cast(found.x or 0, ctypes.POINTER(ctypes.c_float)), (found.rows, found.dim)).copy()
    if schema is None:
        with context() as ctx:
            text = saved_bytes(lambda sink: lib.bo_schema_save(ctx, found.schema, sink))
        schema = read("schema", text)
    del data
    return x, schema


# ---- schemas of files -----------------------------------------------------------------------------------------------


def make_schema(encoding: Any, rows: int, columns: int, names: list[str] | None, targets: int, classes: Any) -> Saved:
    """The schema to store with a machine, so that `bochner predict` reads tables as the machine does."""
    if isinstance(encoding, Texts):
        schema = json.loads(encoding.schema.tobytes())
    else:
        listed = encoding.columns(names) if encoding else [{"kind": "number", "count": columns}]
        schema = {
            "version": 3, "format": "csv" if names else "npy", "impute": "auto", "named": bool(names),
            "separate_labels": True, "columns": listed,
        }  # fmt: skip
    labels = [] if classes is None else [str(label) for label in classes]
    schema |= {"rows": rows, "task": "regression" if classes is None else "classification", "classes": labels}
    schema["targets"] = ["label"] if targets == 1 else [f"label {at}" for at in range(targets)]
    return read("schema", json.dumps(schema).encode())


def _listed(stored: Any) -> list[Any]:
    """The columns of a stored schema that are columns of X."""
    return [
        column for column in stored["columns"]
        if column["kind"] not in ("target", "weight", "group") and not re.fullmatch(_GUARD + "_+", column.get("name", ""))
    ]  # fmt: skip


def read_schema(schema: Saved) -> tuple[Any, list[str] | None, int, list[str]]:
    """The encoding that a schema describes, the names and the number of its columns, and its classes."""
    stored = json.loads(schema.tobytes())
    listed = _listed(stored)
    names = [column["name"] for column in listed] if stored["named"] else None
    count = sum(column.get("count", 1) for column in listed)
    if any(column["kind"] != "number" and column.get("why") != _NUMBERED for column in listed):
        return Texts(schema, names or []), names, count, stored["classes"]
    fill, missing, used, origin = [], [], [], []
    for column in listed:
        used += [column["kind"] == "number"] * column.get("count", 1)
        fill += [column.get("fill", 0.0)] * column.get("count", 1)
        missing += [column.get("indicator", False)] * column.get("count", 1)
        origin += [column.get("origin", 0.0)] * column.get("count", 1)
    encoding = object.__new__(Numbers)
    encoding.fill, encoding.has_missing = np.array(fill, np.float64), np.array(missing, bool)
    encoding.used = np.array(used, bool)
    encoding.origin = np.array(origin, np.float64)
    return encoding, names, count, stored["classes"]


def labels_of(strings: list[str]) -> Array:
    """Classes from their text in a file: integers, numbers or strings.

    Only the standard text form of a number is a number: Infinity, nan, 1e5 and 007 are strings.
    """
    written: list[tuple[Any, list[Any]]] = [(np.int64, [str]), (np.float64, [repr, "{:.15g}".format])]
    for kind, forms in written:
        try:
            values = [float(string) if kind is np.float64 else int(string) for string in strings]
            if all(math.isfinite(v) and string in [form(v) for form in forms] for v, string in zip(values, strings)):
                return np.array(values, kind)
        except (ValueError, OverflowError):
            pass
    return np.array(strings)


# ---- equal rows -----------------------------------------------------------------------------------------------------


def merge_rows(x: Any, y: Array, weights: Array | None) -> tuple[Any, Array, Array | None]:
    """Rows of positive weight in an order that depends on their contents only, with equal rows merged into one row with
    their total weight.

    A row of weight 2 is then the same as two equal rows, to the last bit, and the order of the rows does not matter.
    The order is that of a hash, and therefore pseudorandom. The weights are None if all are 1.
    """
    if weights is not None and not weights.all():
        kept = np.flatnonzero(weights)
        x, y, weights = x[kept], y[kept], weights[kept]
    targets = y.reshape(len(y), -1)
    hashes = (_hash_sparse(x) if hasattr(x, "tocsr") else _hash(x, 0)) + _hash(targets, 1 << 40)
    order = np.argsort(hashes, kind="stable")
    x, y, targets, hashes = x[order], y[order], targets[order], hashes[order]
    mass = np.ones(len(y)) if weights is None else weights[order]
    twins = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
    if twins.size:
        different = x[twins] != x[twins - 1]
        count = different.getnnz(axis=1) if hasattr(different, "getnnz") else different.sum(axis=1)
        twins = twins[(count == 0) & (targets[twins] == targets[twins - 1]).all(axis=1)]
    if twins.size:
        first = np.ones(len(y), bool)
        first[twins] = False
        first = np.flatnonzero(first)
        x, y, mass = x[first], y[first], np.add.reduceat(mass, first)
    return x, y, None if (mass == 1).all() else mass.astype(np.float32)


def _mix(bits: Array) -> Array:
    """The finalizer of SplitMix64."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = bits ^ (bits >> np.uint64(31))
    return mixed


def _bits(values: Array) -> Array:
    values = values + values.dtype.type(0)  # -0 becomes 0
    return values.view(np.uint32 if values.dtype.itemsize == 4 else np.uint64).astype(np.uint64)


def _hash(values: Array, first: int) -> Array:
    """One number per row, as a sum over the columns. `first` is the number of the first column."""
    columns = _mix(np.arange(first + 1, first + values.shape[1] + 1, dtype=np.uint64))
    block = max(1, (1 << 18) // max(values.shape[1], 1))
    parts = [
        _mix(_bits(values[at : at + block]) + columns).sum(axis=1, dtype=np.uint64)
        for at in range(0, len(values), block)
    ]
    return np.concatenate(parts)


def _hash_sparse(rows: Any) -> Array:
    items = _mix(_bits(rows.data) + _mix(rows.indices.astype(np.uint64) + np.uint64(1)))
    ends = np.concatenate([np.zeros(1, np.uint64), np.cumsum(items, dtype=np.uint64)])[rows.indptr]
    return np.diff(ends)
