"""Models: language models, and models that predict classes, numbers or translations."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from . import _bindings as c
from . import _chat, _library, _training
from ._arrays import address, as_bytes, as_float32
from ._chat import Message
from ._model_core import Core, network_info
from ._library import (
    Handle, InvalidArgumentError, bytes_source, enum_name, file_sink, file_source, lib, long_context, parse,
    precision_number, saved_bytes,
)  # fmt: skip
from ._model_settings import Kind, block_of, model_desc, read_model_desc
from ._predicting import Description, Evaluation, Predictor, Summary, network_config
from ._reports import Report, table
from ._sessions import MAX_TOKENS, Generation, Session, count, session_for
from ._settings import Unpack, checks_names
from ._tokenizer import Array, Data, Path, Tokenizer, open_corpus
from ._training import Callback, History, LinearizationReport, TrainingReport
from .typing import (
    Gate, GenerationSettings, Impute, LinearizationSettings, LoraSettings, ModelSettings, Optimizer, Parametrization, Part,
    Precision, Preset, Schedule, Storage, TrainingSettings,
)  # fmt: skip

__all__ = [
    "Evaluation",
    "Generation",
    "History",
    "LinearizationReport",
    "Model",
    "ModelConfig",
    "Session",
    "Summary",
    "Tokenizer",
    "TrainingReport",
    "Weights",
]


def __dir__() -> list[str]:
    return sorted(__all__)


_LONGEST_WINDOW = 8192  # tokens per window of an evaluation, as in bochner eval


class ModelConfig(Report):
    """The settings of a model, named as in :meth:`Model.create`.

    `blocks` is the list of its blocks, with all settings of each. Settings that have the same value in all blocks, and so
    all settings of a model whose layers have one block, are also items under their own names.
    """

    _title = "Model"


class Weights(Mapping[str, Array]):
    """The weights of a model by name. `weights[name]` is a copy; `weights[name] = values` changes the model."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        with self._core.gate.reading():
            weights, shapes = lib.bo_model_weights(self._core.handle), {}
            facts = lib.bo_weights_describe(weights).contents
            addresses = (ctypes.c_void_p * facts.count).from_address(facts.weight) if facts.count else ()
            for at in addresses:
                weight: Any = c.bo_weight.from_address(at)
                shapes[weight.name.decode()] = tuple((ctypes.c_size_t * weight.rank).from_address(weight.shape))
        return shapes

    def _shape(self, name: str) -> tuple[int, ...]:
        try:
            return self._shapes()[name]
        except KeyError:
            raise KeyError(f"the model has no weight {name!r}") from None

    def __getitem__(self, name: str) -> Array:
        out = np.empty(self._shape(name), np.float32)
        with self._core.reading() as ctx:
            lib.bo_weights_get(ctx, lib.bo_model_weights(self._core.handle), name.encode(), address(out), None)
        return out

    def __setitem__(self, name: str, values: Any) -> None:
        shape, array = self._shape(name), np.ascontiguousarray(as_float32(values, name))
        if array.shape != shape:
            raise InvalidArgumentError(f"{name} has shape {shape}; found values of shape {array.shape}")
        with self._core.gate.changing(), _library.context() as ctx:
            lib.bo_weights_set(ctx, lib.bo_model_weights(self._core.handle), name.encode(), address(array))

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes())

    def __len__(self) -> int:
        return int(lib.bo_weights_describe(lib.bo_model_weights(self._core.handle)).contents.count)

    def __contains__(self, name: object) -> bool:
        return name in self._shapes()

    def __repr__(self) -> str:
        return "\n".join(f"{name}  {' x '.join(map(str, shape))}" for name, shape in self._shapes().items())


class Model(Predictor):
    """A model: ``Model(path)`` loads a model, :meth:`create` and :meth:`describe` create one with random weights.

    Models have a :attr:`task`. Models of the task language learn from text (:meth:`train`) and continue it
    (:meth:`generate`). Models of the tasks classify, match and translate learn from texts with labels or translations
    (:meth:`fit`, :meth:`predict`, :meth:`translate`). Models of the task predict, which :meth:`describe` creates, learn
    from arrays, images, sequences, graphs and tables (:meth:`fit`, :meth:`predict`).

    Parameters
    ----------
    path : path
        A directory that Bochner wrote (`bochner train`, `bochner linearize`, :meth:`save`), a pretrained Hugging Face model,
        an adapter, or a model in one .safetensors file.
    storage : {"float32", "bfloat16", "float8", "int8", "int4"}, optional
        Storage of the matrices in memory (default: float32). Fewer bytes make generation faster. Such a model cannot be
        trained.
    precision : {"float32", "bfloat16"}, optional
        Precision of matrix products (default: that of :func:`bochner.set_precision`).

    Notes
    -----
    Threads may share a model. A change of weights waits for running calls in other threads. While a model is trained,
    calls in other threads raise an error; a callback of the training may use the model.

    Examples
    --------
    >>> import bochner
    >>> text = "the cat sat on the mat and the dog sat on the log. " * 40
    >>> model = bochner.Model.create(layers=1, width=32, heads=2, context=32, attention="favor", features=16, seed=1)
    >>> history = model.train(text, steps=60, batch=4)
    >>> history.loss < 3
    True
    >>> piece = model.generate_text("the cat ", max_tokens=20, temperature=0.5)
    >>> len(piece)
    20
    """

    @checks_names()
    def __init__(self, path: Path, storage: Storage | None = None, *, precision: Precision | None = None) -> None:
        kind = parse("storage", "float32" if storage is None else storage, c.BO_ENUM_STORAGE)
        number, out = _precision(precision), ctypes.c_void_p()
        with long_context(precision=number) as ctx:
            desc = c.bo_model_load_desc(storage=kind)
            lib.bo_model_load(ctx, ctypes.byref(file_source(path)), ctypes.byref(desc), ctypes.byref(out))
        self._core = Core(Handle(out.value, lib.bo_model_destroy), number)
        self._report = None

    _report: LinearizationReport | None

    @classmethod
    def _of(cls, address: int | None, precision: int, tokenizer: Tokenizer | None = None) -> Model:
        keep_alive = () if tokenizer is None else (tokenizer._handle,)
        return cls._with(Core(Handle(address, lib.bo_model_destroy, *keep_alive), precision, tokenizer))

    @classmethod
    def _with(cls, core: Core, report: LinearizationReport | None = None) -> Model:
        model = object.__new__(cls)
        model._core = core
        model._report = report
        return model

    @property
    def _open(self) -> Core:
        if self._core is None:
            raise InvalidArgumentError("the model is closed")
        return self._core

    # ---- creation ---------------------------------------------------------------------------------------------------

    @classmethod
    @checks_names()
    def load(cls, path: Path, storage: Storage | None = None, *, precision: Precision | None = None) -> Model:
        """Load a model, as ``Model(path)`` does."""
        return cls(path, storage, precision=precision)

    @classmethod
    @checks_names(ModelSettings)
    def create(
        cls, preset: Preset | None = None, *, layers: int | None = None, width: int | None = None, heads: int | None = None,
        context: int | None = None, attention: Kind = "rfa-gate", features: int | None = None,
        tokenizer: Tokenizer | Path | None = None, vocab: int | None = None, seed: int = 0, precision: Precision | None = None,
        **settings: Unpack[ModelSettings],
    ) -> Model:  # fmt: skip
        """Create a model with random weights.

        Parameters
        ----------
        preset : {"tiny", "small", "base"}, optional
            Default sizes (default: "tiny", with 4 layers, width 128, 4 heads and context 256).
        layers, width, heads, context : int, optional
            Number of layers, width of the residual stream, number of heads, and tokens of a training window.
        attention : str or mapping
            A name of :func:`bochner.attention_kinds`, or {"kind": name, ...} with settings of :class:`bochner.Attention`
            (default: "rfa-gate", as in `bochner train`).
        features : int, optional
            Number of features per head (default: 128).
        tokenizer : Tokenizer or path, optional
            The tokenizer (default: one id per byte; with `vocab`, no tokenizer).
        vocab : int, optional
            Size of the vocabulary (default: that of the tokenizer).
        seed : int
            Seed of weights and frequencies.
        precision : {"float32", "bfloat16"}, optional
            Precision of matrix products (default: that of :func:`bochner.set_precision`).
        **settings
            Other members of bo_model_desc (dropout, untied, ...) and of bo_block (mixer, mlp, norm, positions, key_heads,
            ...) in the C header model.h, and settings of the attention (gate, window, draw, ...). Settings of blocks, such
            as `heads` and `attention`, apply to all layers. :class:`bochner.typing.ModelSettings` lists all.
        blocks : list of dict, optional
            A list of blocks, which is repeated until there are `layers` layers: blocks[0] for `repeat` layers (default:
            1), then blocks[1] for its `repeat` layers, ... Each is a mapping with settings of blocks; other settings
            are those of all layers, as above. None as a value means the default.
        encoder : dict, optional
            Settings of the block of the encoder, for task="translate" (default: the blocks of the decoder).
        encoder_blocks : list of dict, optional
            A list of blocks of the encoder.

        Examples
        --------
        Every third layer sees all keys, with another base of RoPE; the other layers see a window:

        >>> import bochner
        >>> model = bochner.Model.create(
        ...     layers=6, width=32, heads=2, attention="softmax",
        ...     blocks=[{"repeat": 2, "window": 16}, {"rope_base": 1e6, "key_heads": 1}],
        ... )
        >>> [block["window"] for block in model.config.blocks], model.config.heads
        ([16, 0], 2)

        A hybrid stack of recurrent layers and softmax attention:

        >>> model = bochner.Model.create(
        ...     layers=4, width=32, heads=2, mlp="swiglu",
        ...     blocks=[{"repeat": 3, "attention": "gated-delta"}, {"attention": "softmax"}],
        ... )
        >>> model.attention
        ['gated-delta', 'gated-delta', 'gated-delta', 'softmax']
        """
        if tokenizer is None and vocab is None:
            tokenizer = Tokenizer()
        elif tokenizer is not None and not isinstance(tokenizer, Tokenizer):
            tokenizer = Tokenizer.load(tokenizer)
        sizes = {"layers": layers, "width": width, "heads": heads, "context": context, "features": features}
        desc = model_desc(preset, attention, {**settings, **sizes, "vocab": vocab, "seed": seed})
        number, out = _precision(precision), ctypes.c_void_p()
        with long_context(precision=number) as ctx:
            lib.bo_model_create(ctx, ctypes.byref(desc), tokenizer and tokenizer._handle, ctypes.byref(out))
            return cls._of(out.value, number, tokenizer)

    @classmethod
    @checks_names()
    def describe(
        cls, description: Description, x: Any = None, y: Any = None, *, edges: Any = None, undirected: bool = False,
        self_loops: bool = False, split: Any = None, validation: float | tuple[Any, Any] | None = 0.1,
        impute: Impute = "none", width_multiplier: float | None = None, parametrization: Parametrization | None = None,
        tokenizer: Tokenizer | Path | None = None, seed: int = 0, precision: Precision | None = None,
    ) -> Model:  # fmt: skip
        """Create a model with random weights from a description, in the language of `bochner train --model`.

        Parameters
        ----------
        description : mapping, JSON text or path
            The description (docs/guides/network.md). A description with a list of blocks instead of the input and the
            layers describes a text model.
        x, y, edges, undirected, self_loops, split
            Examples as in :meth:`fit`, from which the model derives what the description omits: columns, classes,
            targets and scaling. Without examples the description must be complete.
        validation : float, optional
            Fraction of the rows that :meth:`fit` holds out; the scaling is that of the training rows (default: 0.1).
        impute : {"none", "auto", "mean", "median"}
            Replacement of missing numbers, NaN (default: "none", NaN is refused). "auto" is the mean, with one more
            input for columns that have missing numbers.
        width_multiplier : float, optional
            Factor of every hidden width (default: 1).
        parametrization : {"standard", "mup", "unit"}, optional
            The parametrization (default: "standard").
        tokenizer : Tokenizer or path, optional
            The tokenizer of a text model.
        seed : int
            Seed of weights and frequencies, and of the split.
        precision : {"float32", "bfloat16"}, optional
            Precision of matrix products (default: that of :func:`bochner.set_precision`).

        Examples
        --------
        >>> import numpy as np, bochner
        >>> x = np.random.default_rng(0).standard_normal((200, 16, 2))        # sequences of 2 channels
        >>> layers = [{"type": "gru", "width": 8}, {"type": "last"}, {"type": "linear", "width": "targets"}]
        >>> description = {"input": {"kind": "sequence", "length": 16, "channels": 2}, "layers": layers, "loss": "mse"}
        >>> model = bochner.Model.describe(description, x, x.sum((1, 2)))
        >>> [layer.shape for layer in model.summary().layers]
        ['16 x 8', '8', '1']
        >>> model.predict(x).shape
        (200,)
        """
        if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
            tokenizer = Tokenizer.load(tokenizer)
        data = {"edges": edges, "undirected": undirected, "self_loops": self_loops, "split": split}
        settings = {"width_multiplier": width_multiplier, "parametrization": parametrization}
        number = _precision(precision)
        return cls._described(number, description, x, y, data, impute, validation, tokenizer, seed, settings)

    def save(self, path: Path) -> None:
        """Save the model to a directory, or to one file if the path ends with ".safetensors"."""
        core = self._open
        with core.reading() as ctx:
            lib.bo_model_save(ctx, core.handle, ctypes.byref(file_sink(path)))

    def tobytes(self) -> bytes:
        """Return the model as the bytes of one safetensors file."""
        core = self._open
        with core.reading() as ctx:
            return saved_bytes(lambda sink: lib.bo_model_save(ctx, core.handle, sink))

    @classmethod
    def frombytes(cls, data: bytes | bytearray | memoryview, *, precision: Precision | None = None) -> Model:
        """Restore a model from :meth:`tobytes`."""
        data, number, out = as_bytes(data, "data"), _precision(precision), ctypes.c_void_p()
        with long_context(precision=number) as ctx:
            lib.bo_model_load(ctx, ctypes.byref(bytes_source(data)), None, ctypes.byref(out))
            return cls._of(out.value, number)

    def __reduce__(self) -> Any:
        return _restored, (self.tobytes(), self.precision)

    def close(self) -> None:
        """Release the model. Its sessions remain usable; running calls in other threads finish normally."""
        self._core = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- facts ------------------------------------------------------------------------------------------------------

    @property
    def config(self) -> ModelConfig:
        """All settings. For a model of the task predict, its config.json, with the description as `network`."""
        core = self._open
        if core.desc.task == c.BO_MODEL_TASK_PREDICT:
            return ModelConfig(network_config(core))
        return ModelConfig(read_model_desc(core.desc))

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, or None."""
        return self._open.tokenizer

    @property
    def weights(self) -> Weights:
        """The weights by name, as copies in float32. Assignment changes the model.

        >>> import bochner
        >>> model = bochner.Model.create(layers=1, width=32, heads=2)
        >>> model.weights["model.norm.weight"].shape
        (32,)
        >>> model.weights["model.norm.weight"] *= 2
        """
        return Weights(self._open)

    @property
    def parameters(self) -> int:
        """Number of parameters. Tied weights count once."""
        return int(self._open.facts.parameters)

    @property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        return int(self._open.facts.bytes)

    @property
    def storage(self) -> Storage:
        """Storage of the matrices: float32, bfloat16, float8, int8 or int4."""
        return cast(Storage, enum_name(c.BO_ENUM_STORAGE, self._open.facts.storage))

    @property
    def precision(self) -> Precision:
        """Precision of matrix products: float32 or bfloat16."""
        return cast(Precision, enum_name(c.BO_ENUM_PRECISION, self._open.precision))

    @property
    def layers(self) -> int:
        """Number of layers."""
        core = self._open
        predicts = core.desc.task == c.BO_MODEL_TASK_PREDICT
        return int(network_info(core.handle).layers if predicts else core.desc.layers)

    @property
    def vocab(self) -> int:
        """Size of the vocabulary; 0 for a model of the task predict."""
        return self._open.vocab

    @property
    def context(self) -> int:
        """Tokens of a training window; 0 for a model of the task predict."""
        return int(self._open.desc.context)

    @property
    def attention(self) -> list[str]:
        """The kind of attention, or the mixer, of each layer."""
        core, kinds = self._open, []
        for layer in range(core.desc.layers):
            found = lib.bo_model_attention(core.handle, layer)
            mixer = block_of(core.desc, layer).mixer
            name = lib.bo_attention_name(lib.bo_attention_describe(found)) if found else lib.bo_enum_name(c.BO_ENUM_MIXER, mixer)
            kinds.append(name.decode())
        return kinds

    @property
    def report(self) -> LinearizationReport | None:
        """The report of :meth:`linearize`, if it created the model."""
        return self._report

    def summary(self) -> Summary:
        """Return facts about the model, for the task predict with the name, type, shape and weights of its layers.

        >>> import bochner
        >>> layers = [{"name": "first", "type": "linear", "width": 4}, {"type": "relu"}, {"type": "linear", "width": 3}]
        >>> array = {"kind": "array", "width": 2}
        >>> description = {"input": array, "layers": layers, "loss": "cross-entropy", "classes": 3}
        >>> bochner.Model.describe(description).summary()
        Model
          task              predict
          input             array
          dim               2
          outputs           3
          classes           3
          reconstructs      False
          loss              cross-entropy
          parameters        27
          width_multiplier  1
          parametrization   standard
        Layers
          first     linear  4  12
          relu.2    relu    4  0
          linear.3  linear  3  15
        """
        core = self._open
        if core.desc.task == c.BO_MODEL_TASK_PREDICT:
            return self._network_summary(core)
        return Summary({"task": self.task, **self._facts(), "layers": []})

    def _facts(self) -> dict[str, Any]:
        if self._open.desc.task == c.BO_MODEL_TASK_PREDICT:
            facts = self._network_summary(self._open)
            shown_facts = {name: facts[name] for name in ("task", "input", "dim", "outputs", "classes", "loss")}
            return {**shown_facts, "layers": self.layers, "parameters": self.parameters, "bytes": self.nbytes}
        kinds = self.attention
        shown = kinds[0] if len(set(kinds)) == 1 else ", ".join(kinds)
        core = self._open
        heads = dict.fromkeys(block_of(core.desc, layer).heads for layer in range(core.desc.layers))
        return {"attention": shown, "layers": core.desc.layers, "width": core.desc.width,
                "heads": next(iter(heads)) if len(heads) == 1 else ", ".join(map(str, heads)), "context": core.desc.context, "vocab": core.desc.vocab, "parameters": self.parameters,
                "bytes": self.nbytes, "storage": self.storage}  # fmt: skip

    def __repr__(self) -> str:
        if self._core is None:
            return "Model(closed)"
        return f"Model({', '.join(f'{name}={value!r}' for name, value in self._facts().items())})"

    def _repr_html_(self) -> str:
        return table("Model", {} if self._core is None else self._facts())

    # ---- reading ----------------------------------------------------------------------------------------------------

    @checks_names()
    def session(
        self, *, capacity: int | None = None, chunk: int | None = None, state: bytes | Path | None = None
    ) -> Session:
        """Start a session, which reads tokens with a state.

        Parameters
        ----------
        capacity : int, optional
            Maximum number of tokens, for attention that keeps every key, such as softmax (default: the context).
        chunk : int, optional
            Maximum number of tokens per block (default: 256).
        state : bytes or path, optional
            A state to start from: of :meth:`Session.tobytes`, or a file of :meth:`Session.save`.
        """
        session = Session(self._reading_text, capacity, chunk)
        if isinstance(state, (bytes, bytearray, memoryview)):
            session.restore(state)
        elif state is not None:
            session.load(state)
        return session

    def _session_for(self, tokens: Any) -> tuple[Session, Array]:
        """A session for a complete text, and its tokens."""
        return session_for(self._reading_text, tokens, 0)

    def logits(self, tokens: Any) -> Array:
        """Return the logits after each token of a text.

        Parameters
        ----------
        tokens : str, bytes or array_like of int
            Text or token ids. Text gets the special tokens of the tokenizer's template (`encode(text, template=True)`).

        Returns
        -------
        numpy.ndarray
            Float32 numbers of shape (tokens, vocab).

        Examples
        --------
        >>> import bochner
        >>> bochner.Model.create(layers=1, width=32, heads=2).logits("Hello").shape
        (5, 256)
        """
        session, ids = self._session_for(tokens)
        return session.logits(ids)

    def score(self, tokens: Any) -> Array:
        """Return the log-probability of each token but the first, given those before it.

        >>> import bochner
        >>> bochner.Model.create(layers=1, width=32, heads=2).score("Hello").shape
        (4,)
        """
        session, ids = self._session_for(tokens)
        return session.score(ids)

    @checks_names()
    def evaluate(
        self, data: Any, y: Any = None, *, context: int | None = None, tokens: int | None = None,
        field: str | None = None, separator: str | None = None, edges: Any = None, undirected: bool = False,
        self_loops: bool = False, split: Any = None, part: Part = "all", beam: int | None = None,
        penalty: float | None = None, tokenize: bool = True,
    ) -> Evaluation:  # fmt: skip
        """Measure the model, as `bochner eval`: on a text, or on examples or texts with their targets `y`.

        Parameters
        ----------
        data : str, path, list of paths or array_like of int
            For a language model: text, files (text, or JSON lines; also gzipped), or token ids. A string that is the
            name of a file is a file; pass text that could be mistaken for a name as bytes.
        context : int, optional
            Tokens per window (default: the context of the model, at most 8192).
        tokens : int, optional
            Maximum number of tokens to score (default: all).
        field, separator : str, optional
            For JSON lines, the field with the text (default: "text"); for text, the separator that ends a document.
        y, edges, undirected, self_loops, split
            For other models: `data` and `y` are x and y of :meth:`fit`.
        part : {"all", "train", "valid", "test"}
            With `split`, the rows to evaluate on (default: "all").
        beam, penalty : optional
            For translations, as in :meth:`translate`.
        tokenize : bool
            For translations: split words by the 13a rules of mteval for BLEU (default: True), or at spaces.

        Returns
        -------
        Evaluation
            loss, and the metrics of the task: bits_per_byte and perplexity of a text, accuracy of classes, rmse of
            numbers, bleu of translations.

        Examples
        --------
        >>> import bochner
        >>> model = bochner.Model.create(layers=1, width=32, heads=2, context=32)
        >>> 5 < model.evaluate("the quick brown fox jumps over the lazy dog").loss < 6.5
        True
        """
        core = self._open
        if core.desc.task != c.BO_MODEL_TASK_LANGUAGE:
            graph = {"edges": edges, "undirected": undirected, "self_loops": self_loops}
            beams = {"beam": beam, "penalty": penalty}
            return self._evaluate_examples(core, data, y, graph, split, part, beams, tokenize)
        if y is not None:
            raise InvalidArgumentError("y: a language model is evaluated on text without targets")
        window = count(context or min(core.desc.context, _LONGEST_WINDOW), "context")
        limit = count(tokens or 0, "tokens")
        with core.gate.reading(), long_context(precision=core.precision) as ctx:
            corpus = open_corpus(ctx, core.require_tokenizer(), data, field=field, separator=separator)
            return Evaluation(_training.evaluated(ctx, core.handle, corpus, window, limit))

    # ---- generation -------------------------------------------------------------------------------------------------

    @checks_names()
    def generate(
        self, prompt: Any = None, *, max_tokens: int = MAX_TOKENS, temperature: float | None = None,
        top_k: int | None = None, top_p: float | None = None, min_p: float | None = None, greedy: bool = False,
        repetition_penalty: float | None = None, seed: int = 0, stop: str | Sequence[str] = (), ignore_end: bool = False,
    ) -> Generation:  # fmt: skip
        """Continue a text. The result is an iterator over pieces of text.

        Parameters
        ----------
        prompt : str, bytes or array_like of int, optional
            Text or token ids (default: the start of a text).
        max_tokens : int
            Maximum number of tokens to generate.
        temperature : float, optional
            Divisor of the logits (default: 1). 0 is the same as greedy.
        top_k, top_p : optional
            Choose among the k most likely tokens; among the most likely tokens with total probability p (default: all).
        min_p : float, optional
            Choose among tokens with at least this share of the probability of the most likely one (default: all).
        greedy : bool
            Always choose the most likely token.
        repetition_penalty : float, optional
            Penalty on the latest 64 tokens (default: 1, none).
        seed : int
            Seed of the choices. `bochner generate` with the same options chooses the same tokens.
        stop : str or list of str
            Texts before which generation ends.
        ignore_end : bool
            Whether to continue after the model's end tokens.

        Examples
        --------
        >>> import bochner
        >>> model = bochner.Model.create(layers=1, width=32, heads=2, attention="favor", features=16)
        >>> stream = model.generate("Once", max_tokens=8, greedy=True)
        >>> text = "".join(piece for piece in stream)
        >>> len(stream.ids), stream.finish_reason
        (8, 'length')
        """
        session, ids = session_for(self._reading_text, prompt, max_tokens)
        return Generation(
            session, ids, max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, greedy=greedy,
            repetition_penalty=repetition_penalty, seed=seed, stop=stop, ignore_end=ignore_end,
        )  # fmt: skip

    @checks_names(GenerationSettings)
    def generate_text(self, prompt: Any = None, **options: Unpack[GenerationSettings]) -> str:
        """Continue a text and return the continuation. Takes the options of :meth:`generate`."""
        return self.generate(prompt, **options).text()

    @checks_names(GenerationSettings)
    def chat(
        self, messages: Sequence[Message], *, template: str | None = None, variables: Mapping[str, Any] | None = None,
        parse_special: bool = False, **options: Unpack[GenerationSettings],
    ) -> Generation:  # fmt: skip
        """Reply to the last message of a conversation with a chat model.

        Parameters
        ----------
        messages : list of dict
            The conversation: [{"role": "user", "content": "Hello"}, ...].
        template : str, optional
            A chat template in Jinja (default: that of the directory of the model).
        variables : dict, optional
            Further variables of the template.
        parse_special : bool
            Whether texts of special tokens in messages become these tokens (default: False, they are plain text).
        **options
            As in :meth:`generate` (default of `max_tokens`: 512).
        """
        core = self._reading_text
        limit = options.setdefault("max_tokens", 512)
        opened = _chat.open_template(core, template)
        ids = _chat.encode(core, opened, messages, variables or {}, parse_special)
        session, ids = session_for(core, ids, limit)
        return Generation(session, ids, drawn=0, ends=_chat.end_token(core, opened), **options)

    # ---- training ---------------------------------------------------------------------------------------------------

    @checks_names(TrainingSettings)
    def train(
        self, data: Data, *, steps: int | None = None, minutes: float | None = None, batch: int | None = None,
        context: int | None = None, learning_rate: float | None = None, optimizer: Optimizer | None = None,
        schedule: Schedule | None = None, validation: float | Data | None = 0.1, field: str | None = None,
        separator: str | None = None, directory: Path | None = None, seed: int = 0,
        lora: int | LoraSettings | None = None, callback: Callback | None = None, progress: bool | None = None,
        **settings: Unpack[TrainingSettings],
    ) -> History:  # fmt: skip
        """Train the model on text, in place.

        Parameters
        ----------
        data : str, path, list of paths or array_like of int
            Text, files or token ids, as in :meth:`evaluate`.
        steps, minutes : optional
            Length of the run. One of them is required.
        batch : int, optional
            Sequences per step (default: 16).
        context : int, optional
            Tokens per sequence, at most the context of the model (default: the context; with `lora` at most 1024).
        learning_rate : float, optional
            Learning rate (default: that of the optimizer; Muon 0.02).
        optimizer : {"muon", "adamw", "sgd", "sign", "linf"}, optional
            The optimizer (default: "muon").
        schedule : {"cosine", "linear", "wsd", "constant"}, optional
            Schedule of the learning rate after warmup (default: "cosine").
        validation : float or data, optional
            Text to evaluate on, or the fraction at the end of `data` that is held out (default: 0.1). None: no evaluation.
        field, separator : str, optional
            As in :meth:`evaluate`.
        directory : path, optional
            Directory for checkpoints, which can be resumed (`resume=True`) and loaded as models.
        seed : int
            Seed of batches and dropout.
        lora : int or mapping, optional
            Rank of adapters, or {"rank": r, "alpha": a, "targets": "q_proj,v_proj", "init": "zero"}: only adapters are
            trained, and added to the weights at the end.
        callback : callable, optional
            Receives a :class:`TrainingReport` about ten times per evaluation. It stops the run by returning False. An
            exception stops the run and is raised from train(). The model has the weights of the last step.
        progress : bool, optional
            Show a progress bar, with tqdm if it is installed (default: if standard error is a terminal).
        **settings
            warmup, floor, weight_decay, clip, average, eval_every, eval_tokens, patience, stateful, documents, freeze, ...,
            named as in the C headers train.h and optim.h; :class:`bochner.typing.TrainingSettings` lists all.

        Returns
        -------
        History
            The last report, and all reports as `reports`.
        """
        arguments = {"steps": steps, "minutes": minutes, "batch": batch, "context": context, "learning_rate": learning_rate,
                     "optimizer": optimizer, "schedule": schedule, "directory": directory, "seed": seed}  # fmt: skip
        return _training.train(
            self._open, data, validation=validation, field=field, separator=separator, lora=lora, callback=callback,
            progress=progress, settings={**settings, **arguments},
        )  # fmt: skip

    @checks_names(LinearizationSettings)
    def linearize(
        self, data: Data, kind: Kind = "hybrid", *, features: int | None = None, window: int | None = None,
        gate: Gate | None = None, keep_softmax: str | Iterable[int] | None = None, steps: int | None = None,
        transfer_steps: int | None = None, minutes: float | None = None, validation: float | Data | None = 0.1,
        field: str | None = None, separator: str | None = None, directory: Path | None = None, seed: int = 0,
        callback: Callback | None = None, progress: bool | None = None,
        **settings: Unpack[LinearizationSettings],
    ) -> Model:  # fmt: skip
        """Return a copy that decodes from a state of fixed size, as `bochner linearize`. This model is not changed.

        Parameters
        ----------
        data : str, path, list of paths or array_like of int
            Text, files or token ids, as in :meth:`evaluate`.
        kind : str or mapping
            The new attention, as in :meth:`create` (default: "hybrid", as `bochner linearize`).
        features : int, optional
            Features per head (default: 256).
        window : int, optional
            Latest keys that softmax attention sees, in hybrid attention (default: 64 for "hybrid", no window for other kinds).
        gate : str, optional
            Gate of the state (default: "decay" if the kind has a gate).
        keep_softmax : str or list of int, optional
            Layers that keep their attention: [0, 5] or "0,5-7,block-1" (default: layers with a window).
        steps, transfer_steps : int, optional
            Steps of finetuning and of the transfer; 0: skip (default, if one of them is set: 600 and 300).
        minutes : float, optional
            Time of both runs (default: 60 if no steps are set).
        validation, field, separator, seed, callback, progress :
            As in :meth:`train`. Reports have a `stage`: "transfer" or "finetune".
        directory : path, optional
            Directory of the result and of checkpoints, from which an interrupted run continues (`resume=True`).
        **settings
            batch, context, learning_rate, transfer_learning_rate, rank, alpha, targets, share, sparsity, gate_bias,
            eval_tokens, merge, ..., as in the C header linearize.h; :class:`bochner.typing.LinearizationSettings` lists all.

        Returns
        -------
        Model
            The new model, with a :class:`LinearizationReport` as `report`.
        """
        core = self._reading_text
        arguments = {"steps": steps, "transfer_steps": transfer_steps, "minutes": minutes, "seed": seed}
        handle, report = _training.linearize(
            core, data, kind=kind, features=features, window=window, gate=gate, keep_softmax=keep_softmax,
            validation=validation, field=field, separator=separator, directory=directory, callback=callback, progress=progress,
            settings={**settings, **arguments},
        )  # fmt: skip
        return self._with(Core(handle, core.precision, core.tokenizer), report)


def _precision(name: str | None) -> int:
    return _library._precision if name is None else precision_number(name)


def _restored(data: bytes, precision: Precision) -> Model:
    return Model.frombytes(data, precision=precision)
