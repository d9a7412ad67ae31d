"""Examples of models of the task predict: rows, targets and edges from the caller, in the form in which the library
reads files.

Arrays become .npy files in memory, and DataFrames become CSV files, so that a model has the columns and
the classes of its data, whether the package or a command reads the next rows.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _bindings as c
from ._arrays import address, as_array
from ._estimators import as_labels, as_targets, check_length
from ._library import Context, Handle, InvalidArgumentError, collected_warnings, lib, renamed
from ._model_core import network_info
from ._settings import fill, flag
from ._tables import Table, csv_columns, csv_names, csv_text, index_columns, labels_of, read_table, warn

Array = np.ndarray[Any, Any]

PARTS = ("train", "valid", "test", "all")
_PARTS_OF_ROWS = ("train", "valid", "test", "none")


def part_number(name: str) -> int:
    """The number of a part of examples."""
    if name not in PARTS:
        raise InvalidArgumentError(f"part: {name!r} is not known; expected one of {', '.join(PARTS)}")
    return int(getattr(c, f"BO_SPLIT_{name.upper()}"))


# ---- needs of a model -----------------------------------------------------------------------------------------------


class Needs:
    """The requirements of a model on its examples, and its columns and classes, if it was created from examples.

    Attributes
    ----------
    facts : bo_network_info or None
        The facts of the model; None for a description.
    classes : numpy.ndarray or None
        The classes of a model; None: numbers are predicted, or the model does not exist yet.
    """

    impute = c.BO_IMPUTE_NONE  # for a model without columns and classes

    def __init__(
        self, shape: dict[str, Any], targets: bool, labels: bool, facts: Any = None, handle: Handle | None = None
    ) -> None:
        self.shape, self.targets, self.labels, self.facts, self.handle = shape, targets, labels, facts, handle

    @classmethod
    def of_description(cls, ctx: Context, text: bytes, where: bytes, shape: dict[str, Any], impute: int) -> Needs:
        needs = c.bo_description_needs()
        lib.bo_description_inspect(ctx, text, where, ctypes.byref(needs))
        found = cls(shape, needs.targets, needs.task == c.BO_TASK_CLASSIFICATION)
        found.impute = impute
        return found

    @classmethod
    def of_model(cls, handle: Handle, shape: dict[str, Any]) -> Needs:
        facts = network_info(handle)
        return cls(shape, not facts.reconstructs, facts.classes > 0, facts, handle)

    @property
    def named(self) -> bool:
        """Whether the model has columns and classes."""
        return self.facts is not None and bool(self.facts.schema)

    @property
    def classes(self) -> Array | None:
        if self.facts is None or not self.facts.classes:
            return None
        if not self.named:
            return np.arange(self.facts.classes)
        info = lib.bo_schema_describe(self.facts.schema).contents
        if info.classes < self.facts.classes:  # the file was edited
            return np.arange(self.facts.classes)
        names = ctypes.cast(info.class_names, ctypes.POINTER(ctypes.c_char_p))
        return labels_of([name.decode() for name in names[: self.facts.classes]])


# ---- rows and targets -----------------------------------------------------------------------------------------------


def _flat(x: Any, shape: dict[str, Any]) -> Any:
    """Rows of numbers: images and sequences of an array of more dimensions become rows."""
    if hasattr(x, "columns") and hasattr(x, "to_numpy"):
        return x
    array = x.toarray() if hasattr(x, "tocsr") else as_array(x, "x")
    if array.ndim < 3:
        return array
    expected = _dimensions(shape)
    if array.shape[1:] != expected and (*array.shape[1:], 1) != expected:
        form = " x ".join(map(str, expected)) if expected else "a row of numbers"
        raise InvalidArgumentError(
            f"x has shape {array.shape}; expected examples of the form {form}, as the model is described"
        )
    return array.reshape(len(array), -1)


def _dimensions(shape: dict[str, Any]) -> tuple[int, ...]:
    """The dimensions of an example of more than one dimension."""
    names = {"image": ("height", "width", "channels"), "sequence": ("length", "channels")}.get(
        shape.get("kind", ""), ()
    )
    return tuple(int(shape.get(name, 1)) for name in names)


def _npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _targets(y: Any, needs: Needs, rows: int) -> bytes:
    """The contents of a file of targets or classes."""
    if not needs.labels:
        return _npy(as_targets("fit", y, rows))
    labels = as_labels("fit", y, rows)
    if labels.dtype.kind in "biuf":
        return _npy(labels.astype(np.float64) if labels.dtype.kind == "f" else labels.astype(np.int64))
    label_texts = [str(label) for label in labels]
    header = "label"
    while header in label_texts:  # the first line is recognized as a header because no class has its name
        header += "_"
    lines = [item.replace('"', '""') for item in (header, *label_texts)]
    return "".join(f'"{line}"\n' for line in lines).encode("utf-8", "surrogateescape")


def _numbers_of_classes(y: Any, needs: Needs, rows: int) -> Array:
    """Targets of a model without class names: classes are numbers from 0."""
    if not needs.labels:
        return as_targets("fit", y, rows)
    labels = as_labels("fit", y, rows)
    if labels.dtype.kind not in "biuf" or (len(labels) and labels.min() < 0):
        raise InvalidArgumentError(
            "y: the model was described without examples; expected the numbers of its classes, "
            f"0 to {needs.facts.classes - 1}"
        )
    return labels.astype(np.float64)


# ---- edges and parts ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _file(contents: bytes | None, name: str) -> Iterator[bytes | None]:
    """The path of a temporary file, for data that the library reads only from files. Messages show the argument's name."""
    if contents is None:
        yield None
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(contents)
        file.flush()
        with renamed(file.name, name):
            yield os.fsencode(file.name)


def _edges(edges: Any) -> bytes | None:
    if edges is None:
        return None
    array = edges.to_numpy() if hasattr(edges, "to_numpy") else as_array(edges, "edges")
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iuf":
        raise InvalidArgumentError(
            "edges: expected numbers of nodes in two columns, from and to, "
            f"found an array of {array.dtype} with shape {array.shape}"
        )
    return _npy(array)


def _split(split: Any, rows: int) -> bytes | None:
    if split is None:
        return None
    names = np.asarray(split).ravel()
    check_length(rows, names)
    unknown = [name for name in names if name not in _PARTS_OF_ROWS]
    if unknown:
        known = ", ".join(_PARTS_OF_ROWS)
        raise InvalidArgumentError(f"split: {unknown[0]!r} is not known; expected one of {known} for each row")
    return "".join(f"{name}\n" for name in names).encode()


# ---- examples -------------------------------------------------------------------------------------------------------


def open_examples(
    ctx: Context, needs: Needs, x: Any, y: Any = None, *, edges: Any = None, undirected: bool = False,
    self_loops: bool = False, split: Any = None, valid: float = 0.0, seed: int = 0,
) -> Handle:  # fmt: skip
    """Examples from arrays or DataFrames. They have the parts of `split`, or are split randomly if `valid` is above 0."""
    table = read_table(_flat(x, needs.shape), missing=True)
    if split is not None and needs.facts is not None and not needs.named:
        raise InvalidArgumentError("split: the model was described without examples; describe it with x and y")
    named = needs.facts is None or needs.named
    desc = c.bo_examples_desc(undirected=flag("undirected", undirected), self_loops=flag("self_loops", self_loops))
    fill(desc, {"valid": valid if named else 0.0, "seed": seed})
    contents, settings = _contents(table, needs)
    labels = _targets(y, needs, table.rows) if y is not None and named else None
    keep_alive = _fill_data(desc.data, contents, labels, settings)
    desc.data.task = c.BO_TASK_CLASSIFICATION if needs.labels else c.BO_TASK_REGRESSION
    desc.data.no_target = labels is None and not needs.named
    desc.data.seed = desc.seed
    out = ctypes.c_void_p()
    with _file(_edges(edges), "edges") as desc.edges, _file(_split(split, table.rows), "split") as desc.split:
        with collected_warnings() as messages:
            lib.bo_examples_load(ctx, ctypes.byref(desc), needs.handle if needs.named else None, ctypes.byref(out))
    del keep_alive
    for message in messages:
        warn(message)
    loaded = Handle(out.value, lib.bo_examples_destroy)
    if named or y is None:
        return loaded
    return _with_targets(ctx, loaded, _numbers_of_classes(y, needs, table.rows), needs, valid, seed)


def _contents(table: Table, needs: Needs) -> tuple[bytes, dict[str, Any]]:
    """A table as the contents of a file, and the settings of its columns."""
    if table.frame is not None:
        unused = [] if needs.facts is not None else index_columns(table)
        settings = {} if needs.named else {"impute": needs.impute, **csv_columns(table, unused)}
        return csv_text(table.frame, csv_names(table)), {"format": c.BO_FORMAT_CSV, **settings}
    columns = ",".join(map(str, range(table.columns))).encode()  # no column is left out
    settings = {} if needs.named else {"impute": needs.impute, "keep": columns, "categorical": b"none"}
    return _npy(table.numbers), {"format": c.BO_FORMAT_NPY, **settings}


def _fill_data(data: Any, contents: bytes, labels: bytes | None, settings: dict[str, Any]) -> list[Any]:
    """Sets the members of bo_data_desc. Returns the memory that they point to."""
    keep_alive = [ctypes.create_string_buffer(part, len(part)) for part in (contents, labels or b"")]
    data.path, data.bytes, data.size = b"x", ctypes.addressof(keep_alive[0]), len(contents)
    if labels is not None:
        data.labels, data.label_bytes, data.label_size = b"y", ctypes.addressof(keep_alive[1]), len(labels)
    for name, value in settings.items():
        setattr(data, name, value)
    return keep_alive


def _with_targets(ctx: Context, loaded: Handle, y: Array, needs: Needs, valid: float, seed: int) -> Handle:
    """A copy of examples with numeric classes as targets."""
    rows = c.bo_examples.from_address(loaded._as_parameter_ or 0)
    y = np.require(y.reshape(len(y), -1), np.float64, ["C", "A"])
    arrays = c.bo_examples_arrays(
        rows=rows.rows, dim=rows.dim, targets=y.shape[1], classes=needs.facts.classes, x=rows.x, y=address(y),
        edges=rows.edges, first=rows.first, neighbors=rows.neighbors, valid=valid, seed=seed,
    )  # fmt: skip
    out = ctypes.c_void_p()
    lib.bo_examples_create(ctx, ctypes.byref(arrays), ctypes.byref(out))
    return Handle(out.value, lib.bo_examples_destroy, loaded, y)


def rows_of(examples: Handle, part: int) -> int:
    """The number of rows of a part."""
    return int(c.bo_examples.from_address(examples._as_parameter_ or 0).parts[part].count)


def pointer_to(examples: Handle) -> Any:
    """The examples as a member of a struct. The handle must outlive it."""
    return ctypes.pointer(c.bo_examples.from_address(examples._as_parameter_ or 0))
