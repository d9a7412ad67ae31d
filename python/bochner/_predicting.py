"""Models that predict: classes or numbers of arrays, images, sequences and graphs, labels of texts, translations."""

from __future__ import annotations

import ctypes
import json
import math
import os
import struct
from collections.abc import Mapping
from typing import Any, TypeVar, Union, cast

import numpy as np

from . import _bindings as c
from . import _texts, _training
from ._arrays import address
from ._estimators import seed_of
from ._examples import Needs, open_examples, part_number, pointer_to, rows_of
from ._library import (
    InvalidArgumentError, UnsupportedError, enum_name, lib, long_context, parse, path_bytes, saved_bytes, text_bytes,
)  # fmt: skip
from ._model_core import Core, network_info
from ._reports import Report, table
from ._saved import read_file
from ._settings import Unpack, checks_names, fill, flag, read_struct
from ._tokenizer import Array, Path, Tokenizer
from ._training import Callback, History
from .typing import FitSettings, Optimizer, Schedule, Task

Description = Union[Mapping[str, Any], Path]
"""A description of a model: a mapping, JSON text, or the name of a JSON file."""
Self = TypeVar("Self", bound="Predictor")

_PREDICT = c.BO_MODEL_TASK_PREDICT
_LABELED = (c.BO_MODEL_TASK_CLASSIFY, c.BO_MODEL_TASK_MATCH)


class Evaluation(Report):
    """The quality of a model.

    For text: loss in nats per token, bits_per_byte, perplexity, tokens, seconds, ... For classes: loss, accuracy,
    examples; for numbers: loss, rmse in the unit of the targets, examples; for translations: loss, perplexity, bleu,
    examples.
    """

    _title = "Evaluation"


class _Facts(Report):
    _title = "Model"


class Summary(Report):
    """Facts about a model, and its layers as `layers`: a list of reports with name, type, shape and weights."""

    _title = "Model"

    def __repr__(self) -> str:
        rows = [(layer.name, layer.type, layer.shape, f"{layer.weights:,}") for layer in self["layers"]]
        widths = [max((len(row[at]) for row in rows), default=0) for at in range(3)]
        lines = ["  ".join(["", *(f"{word:{width}}" for word, width in zip(row, widths)), row[3]]) for row in rows]
        return "\n".join([repr(_Facts(self._without_layers())), *(["Layers", *lines] if rows else [])])

    def _without_layers(self) -> dict[str, Any]:
        return {name: value for name, value in self.items() if name != "layers"}

    def _repr_html_(self) -> str:
        layers = {layer.name: f"{layer.type}, {layer.shape}, {layer.weights:,} weights" for layer in self["layers"]}
        return table(self._title, self._without_layers()) + (table("Layers", layers) if layers else "")


def _description(description: Description) -> tuple[bytes, bytes]:
    """The text of a description, and its name in messages."""
    if isinstance(description, Mapping):
        try:
            return text_bytes(json.dumps(dict(description)), "description"), b"description"
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"description: {error}") from None
    if isinstance(description, str) and description.lstrip()[:1] in ("{", "["):
        return text_bytes(description, "description"), b"description"
    name = path_bytes(description)
    contents = read_file(description)
    if b"\0" in contents:
        raise InvalidArgumentError(f"{os.fsdecode(name)}: not a description of a model (expected JSON)")
    return contents, name


def _input_of(text: bytes) -> dict[str, Any]:
    """The input of a description; the library reports its errors."""
    try:
        found = json.loads(text)["input"]
    except (ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def network_config(core: Core) -> dict[str, Any]:
    """The contents of config.json of a model of the task predict."""
    with core.reading() as ctx:
        data = saved_bytes(lambda sink: lib.bo_model_save(ctx, core.handle, sink))
    (length,) = struct.unpack("<Q", data[:8])
    config: dict[str, Any] = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["config.json"])
    return config


class Predictor:
    """Methods of models that predict classes, numbers or translations."""

    _core: Core | None
    _shape: dict[str, Any] | None = None  # the input of the description

    @property
    def _open(self) -> Core:
        raise NotImplementedError

    @classmethod
    def _of(cls: type[Self], address: int | None, precision: int, tokenizer: Tokenizer | None = None) -> Self:
        raise NotImplementedError

    # ---- creation ---------------------------------------------------------------------------------------------------

    @classmethod
    def _described(
        cls: type[Self], number: int, description: Description, x: Any, y: Any, data: dict[str, Any], impute: str,
        validation: Any, tokenizer: Tokenizer | None, seed: int, settings: dict[str, Any],
    ) -> Self:  # fmt: skip
        text, where = _description(description)
        shape, out = _input_of(text), ctypes.c_void_p()
        desc = c.bo_description(text=text, where=where)
        fill(desc, {"seed": seed_of(seed), **settings}, named={"parametrization": c.BO_ENUM_PARAMETRIZATION})
        with long_context(precision=number) as ctx:
            examples = None
            if x is not None:
                needs = Needs.of_description(ctx, text, where, shape, parse("impute", impute, c.BO_ENUM_IMPUTE))
                if needs.targets and y is None:
                    raise InvalidArgumentError("y: the loss of the description needs targets")
                valid = _share(validation) if data["split"] is None else 0.0
                examples = open_examples(ctx, needs, x, y, **data, valid=valid, seed=desc.seed)
            elif y is not None:
                raise InvalidArgumentError("y: expected x, too")
            desc.examples = pointer_to(examples) if examples else None
            desc.tokenizer = tokenizer._handle._as_parameter_ if tokenizer else None
            lib.bo_model_create_described(ctx, ctypes.byref(desc), ctypes.byref(out))
            model = cls._of(out.value, number, tokenizer)
        model._shape = shape
        return model

    # ---- facts ------------------------------------------------------------------------------------------------------

    @property
    def _reading_text(self) -> Core:
        """The model, which must be a text model."""
        core = self._open
        if core.desc.task == _PREDICT:
            raise UnsupportedError(
                "a model of the task predict reads examples, not text; use fit, predict and evaluate"
            )
        return core

    @property
    def task(self) -> Task:
        """The task: language, classify, match, translate or predict."""
        return cast(Task, enum_name(c.BO_ENUM_MODEL_TASK, self._open.desc.task))

    @property
    def classes(self) -> Array | None:
        """The classes that the model predicts: strings, integers or numbers. None: the model has no classes."""
        core = self._open
        if core.desc.task in _LABELED:
            return _texts.classes_of(core)
        return self._needs(core).classes if core.desc.task == _PREDICT else None

    def _needs(self, core: Core) -> Needs:
        shape = self._shape
        if shape is None:
            shape = self._shape = network_config(core)["network"].get("input", {})
        return Needs.of_model(core.handle, shape)

    def _network_summary(self, core: Core) -> Summary:
        facts = network_info(core.handle)
        layers = [Report(read_struct(facts.layer[i])) for i in range(facts.layers)]
        return Summary({
            "task": self.task, "input": enum_name(c.BO_ENUM_NETWORK_INPUT, facts.input), "dim": facts.dim,
            "outputs": facts.outputs, "classes": facts.classes, "reconstructs": facts.reconstructs,
            "loss": facts.loss.decode(), "parameters": facts.parameters, "width_multiplier": facts.width_multiplier,
            "parametrization": enum_name(c.BO_ENUM_PARAMETRIZATION, facts.parametrization), "layers": layers,
        })  # fmt: skip

    # ---- training ---------------------------------------------------------------------------------------------------

    @checks_names(FitSettings)
    def fit(
        self, x: Any, y: Any = None, *, epochs: float | None = None, steps: int | None = None,
        minutes: float | None = None, batch: int | None = None, learning_rate: float | None = None,
        optimizer: Optimizer | None = None, schedule: Schedule | None = None, validation: float | tuple[Any, Any] | None = 0.1,
        edges: Any = None, undirected: bool = False, self_loops: bool = False, split: Any = None,
        directory: Path | None = None, seed: int = 0, callback: Callback | None = None, progress: bool | None = None,
        **settings: Unpack[FitSettings],
    ) -> History:  # fmt: skip
        """Train the model on examples or on texts, in place. Language models have :meth:`train`.

        Parameters
        ----------
        x : array_like, frame or list of str
            For the task predict, rows of numbers: (rows, columns), (rows, height, width, channels) or
            (rows, length, channels); or a pandas or polars DataFrame, which is read like its CSV file. For the
            tasks classify and translate, texts; for match, pairs of texts.
        y : array_like or list of str, optional
            Classes, (rows,); numbers, (rows,) or (rows, targets); or translations. None: the model reconstructs its
            input.
        epochs : float, optional
            Passes over the training rows, for the task predict (default: 10; for a graph 200).
        steps, minutes : optional
            Length of the run, instead of `epochs`. Texts require one of them.
        batch : int, optional
            Examples per step (default: 128). A graph is one example. For texts, packs of texts per step.
        learning_rate, optimizer, schedule, directory, callback, progress : optional
            As in :meth:`train`.
        validation : float or tuple, optional
            Fraction of the rows that is held out, chosen by `seed` (default: 0.1), or separate rows as a tuple (x, y).
            None: no evaluation.
        edges : array_like, optional
            For a graph, numbers of rows in two columns: a node sees the nodes that have an edge to it.
        undirected, self_loops : bool
            Add the reverse of every edge; add an edge from every node to itself (default: False).
        split : array_like of str, optional
            The part of each row, instead of a random fraction: "train", "valid", "test" or "none".
        seed : int
            Seed of the split, of batches and of dropout.
        **settings
            pack and smoothing for texts; further settings as in :meth:`train`. :class:`bochner.typing.FitSettings` lists all.

        Returns
        -------
        History
            The last report, and all reports as `reports`.

        Examples
        --------
        >>> import numpy as np, bochner
        >>> x = np.random.default_rng(0).uniform(-1, 1, (600, 2))
        >>> y = np.where(x[:, 0] * x[:, 1] > 0, "same", "other")
        >>> layers = [{"type": "linear", "width": 32}, {"type": "gelu"}, {"type": "linear", "width": "classes"}]
        >>> description = {"input": {"kind": "array"}, "layers": layers, "loss": "cross-entropy"}
        >>> model = bochner.Model.describe(description, x, y)
        >>> history = model.fit(x, y, epochs=30)
        >>> model.evaluate(x, y).accuracy > 0.9
        True
        """
        core = self._open
        arguments = {"steps": steps, "minutes": minutes, "batch": batch, "learning_rate": learning_rate,
                     "optimizer": optimizer, "schedule": schedule, "directory": directory, "seed": seed}  # fmt: skip
        run = _training.ExampleRun(core, {**settings, **arguments}, callback, progress)
        graph = {"edges": edges, "undirected": undirected, "self_loops": self_loops}
        if core.desc.task == c.BO_MODEL_TASK_LANGUAGE:
            raise UnsupportedError("fit: a language model learns from text without targets; use train(data)")
        if core.desc.task != _PREDICT:
            _refuse({**graph, "split": split, "epochs": epochs}, f"a model of the task {self.task}")
            return run.on_texts(x, y, validation)
        return run.on_examples(self._needs(core), x, y, {**graph, "split": split}, validation, epochs)

    @checks_names()
    def solve(
        self, x: Any, y: Any = None, *, regularization: float = 1.0, edges: Any = None, undirected: bool = False,
        self_loops: bool = False, split: Any = None,
    ) -> None:  # fmt: skip
        """Set the last linear layer by ridge regression on the training rows, as `bochner train --readout ridge`.

        Parameters
        ----------
        x, y, edges, undirected, self_loops, split
            As in :meth:`fit`. Without `split` all rows are training rows.
        regularization : float
            λ of ``λ (|W|² + |b|²)``, at least 0 (default: 1).
        """
        core = self._predicting("solve")
        needs = self._needs(core)
        data = {"edges": edges, "undirected": undirected, "self_loops": self_loops, "split": split}
        with core.gate.changing("trained"), long_context(precision=core.precision) as ctx:
            examples = open_examples(ctx, needs, x, y, **data)
            lib.bo_model_solve(ctx, core.handle, examples, float(regularization))

    # ---- predict ----------------------------------------------------------------------------------------------------

    def _predicting(self, name: str) -> Core:
        core = self._open
        if core.desc.task != _PREDICT:
            hint = "; use translate" if core.desc.task == c.BO_MODEL_TASK_TRANSLATE else ""
            raise UnsupportedError(f"{name}: expected a model of the task predict, found {self.task}{hint}")
        return core

    def _outputs(self, x: Any, graph: dict[str, Any]) -> Array:
        """The outputs of the model: probabilities or numbers, one row per example."""
        core = self._open
        if core.desc.task in _LABELED:
            _refuse(graph, f"a model of the task {self.task}")
            with core.gate.reading(), long_context(precision=core.precision) as ctx:
                return _texts.probabilities(ctx, core, x)
        self._predicting("predict")
        needs = self._needs(core)
        with core.gate.reading(), long_context(precision=core.precision) as ctx:
            examples = open_examples(ctx, needs, x, **graph)
            out = np.empty((rows_of(examples, c.BO_SPLIT_ALL), needs.facts.outputs), np.float32)
            lib.bo_model_predict(ctx, core.handle, examples, c.BO_SPLIT_ALL, address(out))
        return out

    @checks_names()
    def predict(self, x: Any, *, edges: Any = None, undirected: bool = False, self_loops: bool = False) -> Array:
        """Predict classes, or numbers in the unit of the targets.

        Parameters
        ----------
        x, edges, undirected, self_loops
            As in :meth:`fit`.

        Returns
        -------
        numpy.ndarray
            Classes, (rows,); numbers, (rows,) if there is one per row, otherwise (rows, targets). A model that
            reconstructs its input predicts rows.
        """
        found = self._outputs(x, {"edges": edges, "undirected": undirected, "self_loops": self_loops})
        classes = self.classes
        if classes is not None:
            return np.asarray(classes[found.argmax(axis=1)])
        return found[:, 0] if found.shape[1] == 1 else found

    @checks_names()
    def predict_proba(self, x: Any, *, edges: Any = None, undirected: bool = False, self_loops: bool = False) -> Array:
        """Predict probabilities of classes, (rows, classes), in the order of :attr:`classes`.

        Takes the same arguments as :meth:`predict`.
        """
        if self.classes is None:
            raise UnsupportedError(f"predict_proba: the model of the task {self.task} has no classes")
        return self._outputs(x, {"edges": edges, "undirected": undirected, "self_loops": self_loops})

    @checks_names()
    def translate(
        self, texts: Any, *, beam: int | None = None, penalty: float | None = None, max_tokens: int | None = None,
        return_scores: bool = False,
    ) -> Any:  # fmt: skip
        """Translate texts with a model of the task translate.

        Parameters
        ----------
        texts : list of str
            The sources.
        beam : int, optional
            Number of hypotheses (default: 1, greedy).
        penalty : float, optional
            Exponent of the length penalty of a beam (default: 1).
        max_tokens : int, optional
            Maximum number of tokens (default: twice the tokens of the source plus 50, within the context).
        return_scores : bool
            Also return the log probabilities (default: False).

        Returns
        -------
        list of str
            The translations; with `return_scores` a tuple of translations and scores.
        """
        core = self._open
        if core.desc.task != c.BO_MODEL_TASK_TRANSLATE:
            raise UnsupportedError(f"translate: expected a model of the task translate, found {self.task}")
        desc = translate_desc({"beam": beam, "penalty": penalty, "max_tokens": max_tokens})
        with core.gate.reading(), long_context(precision=core.precision) as ctx:
            found, scores = _texts.translations(ctx, core, texts, desc)
        return (found, scores) if return_scores else found

    def _evaluate_examples(
        self,
        core: Core,
        x: Any,
        y: Any,
        graph: dict[str, Any],
        split: Any,
        part: str,
        beam: dict[str, Any],
        tokenize: bool,
    ) -> Evaluation:
        """The evaluation of a model that is not a language model."""
        if core.desc.task != _PREDICT:
            _refuse({**graph, "split": split}, f"a model of the task {self.task}")
            if y is None:
                raise InvalidArgumentError("y: expected labels or translations of the texts")
            with core.gate.reading(), long_context(precision=core.precision) as ctx:
                return Evaluation(_texts.evaluated(ctx, core, x, y, translate_desc(beam), flag("tokenize", tokenize)))
        number, needs, out = part_number(part), self._needs(core), c.bo_examples_evaluation()
        with core.gate.reading(), long_context(precision=core.precision) as ctx:
            examples = open_examples(ctx, needs, x, y, **graph, split=split)
            lib.bo_model_evaluate_examples(ctx, core.handle, examples, number, ctypes.byref(out))
        return Evaluation({name: value for name, value in read_struct(out).items() if not math.isnan(value)})


def translate_desc(settings: dict[str, Any]) -> Any:
    desc = c.bo_translate_desc()
    fill(desc, settings)
    return desc


def _share(validation: Any) -> float:
    """The fraction of rows that is held out."""
    return _training.share_of(validation) if not isinstance(validation, tuple) else 0.0


def _refuse(arguments: dict[str, Any], owner: str) -> None:
    """Refuses arguments that do not apply."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise InvalidArgumentError(f"{name}: {owner} does not take it")
