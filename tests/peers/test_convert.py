"""bochner convert against the packages gguf and transformers.

Tiny random models of every architecture are written as GGUF files, in the order of rows of llama.cpp, and converted. The
result must have the logits of the original model, its tokenizer must encode like the original tokenizer, and decoded blocks of
quantized numbers must equal those of the package gguf.

Environment: BOCHNER, the program. Exit status 77 if a package is missing.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import gguf
    import numpy as np
    import tokenizers
    import torch
    import transformers
    from safetensors.numpy import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

os.environ["HF_HUB_OFFLINE"] = "1"
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)

BOCHNER = os.environ.get("BOCHNER", "bochner")
VOCAB, WIDTH, HIDDEN, LAYERS, HEADS, KEYS, CONTEXT = 360, 64, 96, 2, 4, 2, 128
FAILURES = []


def complain(text):
    print(text)
    FAILURES.append(text)


def convert(path, out, *options, fails=None):
    run = subprocess.run([BOCHNER, "convert", str(path), "--out", str(out), "--quiet", *options],
                         capture_output=True, text=True, check=False)
    if fails is None and run.returncode != 0:
        complain(f"{path.name}: convert failed: {run.stderr.strip()}")
        return False
    if fails is not None and (run.returncode != 1 or fails not in run.stderr):
        complain(f"{path.name}: expected an error with '{fails}', found {run.returncode}: {run.stderr.strip()}")
    return run.returncode == 0


# ---- tokenizers -----------------------------------------------------------------------------------------------------

TEXTS = ["Hello, world!", "It's the  naïve test 1234567", "", " leading", "東京 🙂\n\n\tend ", "a b  c   d",
         "WE'LL don't x1y22z333", "<s> <|end|> tail", "…—“quoted” ½ ⅷ ١٢٣", "emoji👩‍👩‍👧 e\u0301"]


def byte_characters():
    """The characters of a byte-level vocabulary, in the order of the byte values."""
    return sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())


def learn_bpe():
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=VOCAB - 2, show_progress=False, initial_alphabet=byte_characters())
    model.train_from_iterator(TEXTS * 3, trainer)
    data = json.loads(model.to_str())["model"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in data["merges"]]
    tokens = sorted(data["vocab"], key=data["vocab"].get)
    return tokens + ["<|end|>", "<|user|>"], merges


def add_bpe(writer, pre):
    tokens, merges = learn_bpe()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (len(tokens) - 2) + [3, 4])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(len(tokens) - 2)
    writer.add_eos_token_id(len(tokens) - 2)
    writer.add_chat_template("{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}")
    return tokens, merges


def learn_pieces():
    """Pieces with scores, as SentencePiece orders them."""
    words = ["▁t", "he", "▁the", "in", "er", "▁a", "an", "▁the▁", "ll", "▁H", "ello", "el", "lo", "▁▁", "▁▁▁▁", "st"]
    characters = sorted(set("".join(TEXTS).replace(" ", "▁")) - set("東京"))
    pieces = [(w, -float(i)) for i, w in enumerate(words)]
    pieces += [(c, -float(100 + i)) for i, c in enumerate(characters) if c not in words]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + [p for p, _ in pieces]
    scores = [0.0] * 259 + [s for _, s in pieces]
    types = [2, 3, 3] + [6] * 256 + [1] * len(pieces)
    while len(tokens) < VOCAB:
        tokens.append(f"[PAD{len(tokens)}]")
        scores.append(-1000.0)
        types.append(5)
    return tokens, scores, types


def add_pieces(writer, space_prefix=True):
    tokens, scores, types = learn_pieces()
    assert len(tokens) <= VOCAB, len(tokens)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(space_prefix)


def encode_pieces(text, space_prefix):
    """The algorithm of SentencePiece: the best pair of neighbors is joined, the leftmost first."""
    tokens, scores, types = learn_pieces()
    ids = {t: i for i, t in enumerate(tokens) if types[i] == 1}
    text = text.replace(" ", "▁")
    if space_prefix and text:
        text = "▁" + text
    parts = list(text)
    while True:
        best = max(((scores[ids[a + b]], -i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ids),
                   default=None)
        if best is None:
            break
        i = -best[1]
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    out = [1]
    for part in parts:
        out += [ids[part]] if part in ids else [3 + b for b in part.encode()]
    return out


def check_trained(directory, text, reference):
    """Bochner's own tokenizer reads the file."""
    run = subprocess.run([BOCHNER, "tokenizer", "encode", str(directory), "--no-template", "--json"], input=text.encode(), capture_output=True,
                         check=False)
    found = json.loads(run.stdout) if run.returncode == 0 else run.stderr.decode()
    found = found["ids"] if isinstance(found, dict) else found
    if found != reference:
        complain(f"{directory.name}: bochner encodes '{text}' as {found}, expected {reference}")


def check_tokenizers(directory):
    llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    pre = tokenizers.pre_tokenizers
    level = pre.ByteLevel(add_prefix_space=False, use_regex=False)

    def split(regex):
        return pre.Split(tokenizers.Regex(regex), "isolated")

    expected = {
        "gpt-2": pre.ByteLevel(add_prefix_space=False),
        "llama-bpe": pre.Sequence([split(llama3), level]),
        "qwen2": pre.Sequence([split(llama3.replace("{1,3}", "")), level]),
        "stablelm2": pre.Sequence([split(llama3.replace("{1,3}", "")), level]),
        "smollm": pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)]),
        "default": pre.Sequence([split(r"[\p{P}\$\+<=>\^~\|]+"), pre.ByteLevel(add_prefix_space=False)]),
    }
    config = transformers.GPT2Config(vocab_size=VOCAB, n_embd=WIDTH, n_layer=1, n_head=HEADS, n_positions=CONTEXT)
    model = transformers.GPT2LMHeadModel(config)
    for name, steps in expected.items():
        path = directory / f"pre-{name}.gguf"
        tokens, merges = write_gpt2(path, model, pre=name)
        if not convert(path, directory / f"pre-{name}"):
            continue
        found = tokenizers.Tokenizer.from_file(str(directory / f"pre-{name}" / "tokenizer.json"))
        trained = tokenizers.Tokenizer(tokenizers.models.BPE(
            vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in merges],
            ignore_merges=name == "llama-bpe"))
        trained.pre_tokenizer = steps
        if name == "qwen2":
            trained.normalizer = tokenizers.normalizers.NFC()
        trained.add_special_tokens(["<|end|>"])
        trained.add_tokens([tokenizers.AddedToken("<|user|>", normalized=False)])
        bos = [VOCAB - 2] if name == "llama-bpe" else []
        for text in TEXTS:
            if name == "default" and any(c.isdigit() for c in text):
                continue  # digits are split further
            ids, reference = found.encode(text).ids, bos + trained.encode(text).ids
            check_trained(directory / f"pre-{name}", text, reference[len(bos):])
            if ids != reference:
                complain(f"{name}: '{text}' is encoded as {ids}, expected {reference}")
            if found.decode(ids) != text.replace("<|end|>", "") and name != "qwen2":
                complain(f"{name}: '{text}' is decoded as '{found.decode(ids)}'")
    chat = json.loads((directory / "pre-gpt-2" / "tokenizer_config.json").read_text())
    if "messages" not in chat.get("chat_template", "") or chat.get("eos_token") != "<|end|>":
        complain(f"tokenizer_config.json: {chat}")
    path = directory / "unknown-pre.gguf"
    write_gpt2(path, model, pre="nobody-knows")
    convert(path, directory / "unknown-pre", fails="'nobody-knows' is not supported; expected one of: gpt-2")


def check_pieces(directory, space_prefix):
    found = transformers.AutoTokenizer.from_pretrained(directory)
    for text in TEXTS:
        if "<s>" in text:
            continue
        ids, reference = found(text).input_ids, encode_pieces(text, space_prefix)
        if ids != reference:
            complain(f"{directory.name}: '{text}' is encoded as {ids}, expected {reference}")


# ---- models ---------------------------------------------------------------------------------------------------------

def permute(weight, heads):
    """The order of rows of llama.cpp: the numbers of a rotary pair are neighbors."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def start(path, arch, config, epsilon, layer_norm=False):
    writer = gguf.GGUFWriter(str(path), arch)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_head_count(HEADS)
    (writer.add_layer_norm_eps if layer_norm else writer.add_layer_norm_rms_eps)(epsilon)
    return writer


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tensors(writer, arch, model, change):
    """The tensors of a model under their names of GGUF, each passed to `change`."""
    names = gguf.get_tensor_name_map(arch, model.config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name.endswith((".attn.bias", ".masked_bias", "inv_freq")):
            continue
        tied = model.config.tie_word_embeddings and name in ("lm_head.weight", "embed_out.weight")
        if tied:
            continue
        new = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert new, name
        writer.add_tensor(new, np.ascontiguousarray(change(name, tensor.numpy().astype(np.float32))))


def write_gpt2(path, model, pre="gpt-2"):
    config = model.config
    writer = start(path, "gpt2", config, config.layer_norm_epsilon, layer_norm=True)
    writer.add_feed_forward_length(4 * WIDTH)
    vocabulary = add_bpe(writer, pre)
    turned = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")
    add_tensors(writer, gguf.MODEL_ARCH.GPT2, model, lambda name, x: x.T if name.endswith(turned) else x)
    finish(writer)
    return vocabulary


def write_gated(path, arch, model, kind, change, more=None, pieces=True):
    config = model.config
    writer = start(path, arch, config, config.rms_norm_eps)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count_kv(config.num_key_value_heads)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope.get("full_attention", rope)["rope_theta"])
    if more:
        more(writer)
    if pieces:
        add_pieces(writer, space_prefix=not arch.startswith("gemma"))
    add_tensors(writer, kind, model, change)
    finish(writer)


def rotate(name, x):
    if ".q_proj." in name:
        return permute(x, HEADS)
    return permute(x, KEYS) if ".k_proj." in name else x


def check_logits(name, directory, model):
    torch.manual_seed(1)
    ids = torch.randint(0, VOCAB, (2, 40))
    found = transformers.AutoModelForCausalLM.from_pretrained(directory)
    if found.config.model_type != model.config.model_type:
        complain(f"{name}: model_type {found.config.model_type}, expected {model.config.model_type}")
    with torch.no_grad():
        reference, logits = model(ids).logits, found.float()(ids).logits
    error = (reference - logits).abs().max().item()
    print(f"{name}: largest difference of logits {error:.2g}")
    if not error < 1e-5:
        complain(f"{name}: logits differ by {error}")


def randomize(model):
    """Weights of a size that makes every part of the model matter."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) * (0.3 if p.ndim == 1 else 0.08) + (0.5 if "norm" in name else 0))
    return model.eval()


def check_models(directory):
    common = dict(vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=HIDDEN, num_hidden_layers=LAYERS,
                  num_attention_heads=HEADS, num_key_value_heads=KEYS, max_position_embeddings=CONTEXT,
                  bos_token_id=1, eos_token_id=2, pad_token_id=None)
    t = transformers
    arch = gguf.MODEL_ARCH

    def case(name, model, write):
        path = directory / f"{name}.gguf"
        randomize(model)
        write(path, model)
        if convert(path, directory / name):
            check_logits(name, directory / name, model)

    for tied in (False, True):
        case(f"llama-{'tied' if tied else 'untied'}",
             t.LlamaForCausalLM(t.LlamaConfig(**common, tie_word_embeddings=tied)),
             lambda path, m: write_gated(path, "llama", m, arch.LLAMA, rotate))
    check_pieces(directory / "llama-untied", True)
    case("llama-biases", t.LlamaForCausalLM(t.LlamaConfig(**common, attention_bias=True, mlp_bias=True)),
         lambda path, m: write_gated(path, "llama", m, arch.LLAMA, rotate))
    case("llama-head", t.LlamaForCausalLM(t.LlamaConfig(**common, head_dim=32)),
         lambda path, m: write_gated(path, "llama", m, arch.LLAMA, rotate,
                                     lambda w: (w.add_key_length(32), w.add_value_length(32))))
    case("llama-linear",
         t.LlamaForCausalLM(t.LlamaConfig(**common, rope_parameters={"rope_type": "linear", "factor": 4.0,
                                                                     "rope_theta": 500000.0})),
         lambda path, m: write_gated(path, "llama", m, arch.LLAMA, rotate,
                                     lambda w: (w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR),
                                                w.add_rope_scaling_factor(4.0))))
    case("llama-yarn",
         t.LlamaForCausalLM(t.LlamaConfig(**common, rope_parameters={
             "rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0, "original_max_position_embeddings": 32,
             "beta_fast": 16.0})),
         lambda path, m: write_gated(path, "llama", m, arch.LLAMA, rotate, lambda w: (
             w.add_rope_scaling_type(gguf.RopeScalingType.YARN), w.add_rope_scaling_factor(4.0),
             w.add_rope_scaling_orig_ctx_len(32), w.add_float32("llama.rope.scaling.yarn_beta_fast", 16.0))))
    for parts in ((8.0, 4.0, 8192), (32.0, 4.0, 8192), (4.0, 2.5, 100)):
        factor, high, original = parts
        rope = {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": high,
                "original_max_position_embeddings": original, "rope_theta": 500000.0 if original > 100 else 10000.0}

        def with_factors(path, m, rope=rope):
            base, dim = rope["rope_theta"], 64
            plain = 1 / base ** (np.arange(0, dim, 2) / dim)
            scaled = m.model.rotary_emb.inv_freq.numpy()
            write_gated(path, "llama", m, arch.LLAMA, rotate, lambda w: (
                w.add_key_length(dim), w.add_value_length(dim),
                w.add_tensor("rope_freqs.weight", (plain / scaled).astype(np.float32))))

        case(f"llama3-{factor:g}-{original}",
             t.LlamaForCausalLM(t.LlamaConfig(**common, head_dim=64, rope_parameters=rope)), with_factors)
    case("mistral", t.MistralForCausalLM(t.MistralConfig(**common, sliding_window=16)),
         lambda path, m: write_gated(path, "llama", m, arch.LLAMA, rotate, lambda w: w.add_sliding_window(16)))
    case("qwen2", t.Qwen2ForCausalLM(t.Qwen2Config(**common)),
         lambda path, m: write_gated(path, "qwen2", m, arch.QWEN2, lambda _, x: x))
    case("qwen3", t.Qwen3ForCausalLM(t.Qwen3Config(**common, head_dim=32)),
         lambda path, m: write_gated(path, "qwen3", m, arch.QWEN3, lambda _, x: x,
                                     lambda w: (w.add_key_length(32), w.add_value_length(32))))
    case("gemma", t.GemmaForCausalLM(t.GemmaConfig(**common, head_dim=32)),
         lambda path, m: write_gated(path, "gemma", m, arch.GEMMA,
                                     lambda name, x: x + 1 if name.endswith("norm.weight") else x,
                                     lambda w: (w.add_key_length(32), w.add_value_length(32))))
    check_pieces(directory / "gemma", False)
    for layers, scalar in ((7, 32), (62, WIDTH // HEADS)):  # llama.cpp knows the largest model by its number of layers
        config = t.Gemma3TextConfig(**{**common, "num_hidden_layers": layers}, head_dim=32, sliding_window=8,
                                    query_pre_attn_scalar=scalar)
        case(f"gemma3-{layers}", t.Gemma3ForCausalLM(config),
             lambda path, m: write_gated(path, "gemma3", m, arch.GEMMA3,
                                         lambda name, x: x + 1 if name.endswith("norm.weight") else x,
                                         lambda w: (w.add_key_length(32), w.add_value_length(32), w.add_sliding_window(8))))
    check_pieces(directory / "gemma3-7", False)
    scaled = t.Gemma3TextConfig(**{**common, "num_hidden_layers": 7}, head_dim=32, sliding_window=8, query_pre_attn_scalar=32,
                                rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                                 "full_attention": {"rope_type": "linear", "factor": 8.0,
                                                                    "rope_theta": 1000000.0}})
    case("gemma3-scaled", t.Gemma3ForCausalLM(scaled),
         lambda path, m: write_gated(path, "gemma3", m, arch.GEMMA3,
                                     lambda name, x: x + 1 if name.endswith("norm.weight") else x,
                                     lambda w: (w.add_key_length(32), w.add_value_length(32), w.add_sliding_window(8),
                                                w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR),
                                                w.add_rope_scaling_factor(8.0))))
    case("olmo2", t.Olmo2ForCausalLM(t.Olmo2Config(**common)),
         lambda path, m: write_gated(path, "olmo2", m, arch.OLMO2, lambda _, x: x))
    for biased in (False, True):
        config = t.GraniteConfig(**common, attention_bias=biased, mlp_bias=biased, attention_multiplier=0.2,
                                 embedding_multiplier=3.0, residual_multiplier=0.25, logits_scaling=4.0)
        case(f"granite-{'biases' if biased else 'plain'}", t.GraniteForCausalLM(config),
             lambda path, m: write_gated(path, "granite", m, arch.GRANITE, rotate, lambda w: (
                 w.add_attention_scale(0.2), w.add_embedding_scale(3.0), w.add_residual_scale(0.25), w.add_logit_scale(4.0))))
    case("phi3", t.Phi3ForCausalLM(t.Phi3Config(**common, sliding_window=20)),
         lambda path, m: write_gated(path, "phi3", m, arch.PHI3, lambda _, x: x, lambda w: (
             w.add_sliding_window(20), w.add_rope_dimension_count(WIDTH // HEADS))))
    long = {"rope_type": "longrope", "rope_theta": 10000.0, "long_factor": [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0],
            "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7], "original_max_position_embeddings": 64}
    case("phi3-long", t.Phi3ForCausalLM(t.Phi3Config(**common, rope_parameters=long, original_max_position_embeddings=64)),
         lambda path, m: write_gated(path, "phi3", m, arch.PHI3, lambda _, x: x, lambda w: (
             w.add_rope_dimension_count(16), w.add_rope_scaling_orig_ctx_len(64),
             w.add_tensor("rope_factors_long.weight", np.array(long["long_factor"], np.float32)),
             w.add_tensor("rope_factors_short.weight", np.array(long["short_factor"], np.float32)))))
    check_other_families(case, common)


def check_other_families(case, common):
    t = transformers
    arch = gguf.MODEL_ARCH

    def write_neox(path, model):
        writer = start(path, "gptneox", model.config, 1e-5, layer_norm=True)
        writer.add_feed_forward_length(HIDDEN)
        writer.add_rope_dimension_count(4)
        writer.add_parallel_residual(model.config.use_parallel_residual)

        def change(name, x):
            if "query_key_value" not in name:
                return x
            return x.reshape(HEADS, 3, WIDTH // HEADS, -1).swapaxes(0, 1).reshape(x.shape)

        add_bpe(writer, "gpt-2")
        add_tensors(writer, arch.GPTNEOX, model, change)
        finish(writer)

    for parallel in (True, False):
        config = t.GPTNeoXConfig(**{k: v for k, v in common.items() if k != "num_key_value_heads"},
                                 use_parallel_residual=parallel)
        case(f"gptneox-{'parallel' if parallel else 'serial'}", t.GPTNeoXForCausalLM(config), write_neox)

    def write_phi2(path, model, fused):
        writer = start(path, "phi2", model.config, 1e-5, layer_norm=True)
        writer.add_feed_forward_length(HIDDEN)
        writer.add_head_count_kv(HEADS)
        writer.add_rope_dimension_count(8)
        add_bpe(writer, "phi-2")
        if fused:
            state = model.state_dict()
            for layer in range(LAYERS):
                for suffix in ("weight", "bias"):
                    parts = [state[f"model.layers.{layer}.self_attn.{p}_proj.{suffix}"].numpy() for p in "qkv"]
                    writer.add_tensor(f"blk.{layer}.attn_qkv.{suffix}", np.concatenate(parts))
            names = gguf.get_tensor_name_map(arch.PHI2, LAYERS)
            for name, tensor in state.items():
                if not any(f".{p}_proj." in name for p in "qkv"):
                    writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), tensor.numpy())
        else:
            add_tensors(writer, arch.PHI2, model, lambda _, x: x)
        finish(writer)

    for fused in (False, True):
        config = t.PhiConfig(**{**common, "num_key_value_heads": HEADS},
                             rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                              "partial_rotary_factor": 0.5})
        case(f"phi2-{'fused' if fused else 'separate'}", t.PhiForCausalLM(config),
             lambda path, m, fused=fused: write_phi2(path, m, fused))
    def write_layer_norm(path, model, name, epsilon, kind):
        writer = start(path, name, model.config, epsilon, layer_norm=True)
        writer.add_feed_forward_length(HIDDEN)
        writer.add_head_count_kv(KEYS)
        writer.add_rope_freq_base(model.config.rope_parameters["rope_theta"])
        if name == "stablelm":
            writer.add_rope_dimension_count(8)
            writer.add_parallel_residual(model.config.use_parallel_residual)
        add_bpe(writer, "starcoder" if name == "starcoder2" else "stablelm2")
        add_tensors(writer, kind, model, lambda _, x: x)
        finish(writer)

    config = t.Starcoder2Config(**common, sliding_window=None)
    case("starcoder2", t.Starcoder2ForCausalLM(config),
         lambda path, m: write_layer_norm(path, m, "starcoder2", config.norm_epsilon, arch.STARCODER2))
    for parallel in (False, True):
        config = t.StableLmConfig(**common, use_qkv_bias=parallel, use_parallel_residual=parallel,
                                  rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                                                   "partial_rotary_factor": 0.5})
        case(f"stablelm-{'parallel' if parallel else 'serial'}", t.StableLmForCausalLM(config),
             lambda path, m: write_layer_norm(path, m, "stablelm", m.config.layer_norm_eps, arch.STABLELM))
    config = t.GPT2Config(vocab_size=VOCAB, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=CONTEXT)
    case("gpt2", t.GPT2LMHeadModel(config), write_gpt2)


# ---- numbers --------------------------------------------------------------------------------------------------------

def check_types(directory):
    """A matrix of every type is decoded as by the package gguf, and rounded as by torch."""
    rng = np.random.default_rng(0)
    wide = 256
    types = gguf.GGMLQuantizationType
    for kind in (types.F32, types.F16, types.BF16, types.Q4_0, types.Q4_1, types.Q5_0, types.Q5_1, types.Q8_0,
                 types.Q2_K, types.Q3_K, types.Q4_K, types.Q5_K, types.Q6_K):
        block, size = gguf.GGML_QUANT_SIZES[kind]
        values = rng.standard_normal((VOCAB, wide)).astype(np.float32)
        values[:9] *= np.float32(10.0) ** -np.arange(9, dtype=np.float32)[:, None]  # also below the normal float16 numbers
        if kind in (types.F32, types.F16, types.BF16, types.Q4_0, types.Q4_1, types.Q5_0, types.Q5_1, types.Q8_0):
            raw = gguf.quants.quantize(values, kind)
        else:  # the package cannot write these: random bits, with finite scales
            raw = rng.integers(0, 256, (VOCAB, wide // block * size), dtype=np.uint8)
            halves = {types.Q2_K: (80, 82), types.Q3_K: (108,), types.Q4_K: (0, 2), types.Q5_K: (0, 2),
                      types.Q6_K: (208,)}[kind]
            blocks = raw.reshape(-1, size)
            for at in halves:
                scale = rng.standard_normal(len(blocks)).astype(np.float16)
                blocks[:, at:at + 2] = scale.view(np.uint8).reshape(-1, 2)
        reference = values if kind == types.F32 else gguf.quants.dequantize(raw, kind)
        path = directory / f"type-{kind.name}.gguf"
        writer = gguf.GGUFWriter(str(path), "llama")
        for add, value in ((writer.add_block_count, 1), (writer.add_context_length, 16),
                           (writer.add_embedding_length, wide), (writer.add_head_count, 4),
                           (writer.add_feed_forward_length, 32)):
            add(value)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_tensor("token_embd.weight", raw, raw_dtype=kind)
        for name, shape in (("attn_norm", (wide,)), ("attn_q", (wide, wide)), ("attn_k", (wide, wide)),
                            ("attn_v", (wide, wide)), ("attn_output", (wide, wide)), ("ffn_norm", (wide,)),
                            ("ffn_gate", (32, wide)), ("ffn_up", (32, wide)), ("ffn_down", (wide, 32))):
            writer.add_tensor(f"blk.0.{name}.weight", np.ones(shape, np.float32))
        writer.add_tensor("output_norm.weight", np.ones(wide, np.float32))
        finish(writer)
        check_decoded(directory, path, kind, reference)


def check_decoded(directory, path, kind, reference):
    for dtype in ("source", "float32", "float16", "bfloat16"):
        out = directory / f"{path.stem}-{dtype}"
        if not convert(path, out, "--dtype", dtype):
            continue
        with transformers.modeling_utils.safe_open(out / "model.safetensors", "pt") as file:
            found = file.get_tensor("model.embed_tokens.weight")
        kept = {"F16": torch.float16, "BF16": torch.bfloat16}.get(kind.name, torch.float32)
        expected = torch.from_numpy(reference.copy()).to(kept if dtype == "source" else getattr(torch, dtype))
        if found.dtype != expected.dtype or not torch.equal(found, expected):
            difference = (found.float() - expected.float()).abs().max().item()
            complain(f"{kind.name} as {dtype}: {found.dtype}, differs by {difference} from {expected.dtype}")


def check_shards(directory):
    path = directory / "llama-untied.gguf"
    if not convert(path, directory / "shards", "--shard", "100K"):
        return
    index = json.loads((directory / "shards" / "model.safetensors.index.json").read_text())
    whole = load_file(directory / "llama-untied" / "model.safetensors")
    if set(index["weight_map"]) != set(whole) or len(set(index["weight_map"].values())) < 2:
        complain("shards: the index has other tensors, or one file")
    model = transformers.AutoModelForCausalLM.from_pretrained(directory / "shards")
    for name, tensor in model.state_dict().items():
        if name in whole and not np.array_equal(tensor.float().numpy(), whole[name].astype(np.float32)):
            complain(f"shards: {name} differs")


# ---- llama2.c -------------------------------------------------------------------------------------------------------

def groups(x, group):
    """The int8 groups of llama2.c version 2, and the numbers that they stand for."""
    rows = x.reshape(-1, group)
    scale = (np.abs(rows).max(axis=1) / 127).astype(np.float32)
    quants = np.round(rows / scale[:, None]).astype(np.int8)
    return quants, scale, (quants * scale[:, None]).astype(np.float32).reshape(x.shape)


def write_llama2c(path, model, version):
    """The model as a file of llama2.c. Version 2 replaces the matrices of the model by what the file stands for."""
    state, tied, group = model.state_dict(), model.config.tie_word_embeddings, 32
    header = np.array([WIDTH, HIDDEN, LAYERS, HEADS, KEYS, VOCAB, CONTEXT], np.int32)
    if version == 0 and not tied:
        header[5] = -VOCAB
    out = bytearray(header.tobytes())
    if version:
        out = bytearray(np.array([0x616B3432, version], np.uint32).tobytes()) + out + bytes([tied])
        out += np.array([group if version == 2 else 0], np.int32).tobytes()
        out += bytes(256 - len(out))

    def write_tensor(name):
        tensor = state[name]
        x = rotate(name, tensor.numpy())
        if version != 2 or x.ndim == 1:
            out.extend(np.ascontiguousarray(x, np.float32).tobytes())
            return
        quants, scale, decoded = groups(np.ascontiguousarray(x), group)
        out.extend(quants.tobytes() + scale.tobytes())
        heads = HEADS if ".q_proj." in name else KEYS if ".k_proj." in name else 0
        if heads:  # the inverse of rotate
            decoded = decoded.reshape(heads, -1, 2, decoded.shape[1]).swapaxes(1, 2).reshape(decoded.shape)
        tensor.copy_(torch.from_numpy(decoded.copy()))

    def layers(part):
        for i in range(LAYERS):
            write_tensor(f"model.layers.{i}.{part}.weight")

    attention = [f"self_attn.{p}_proj" for p in "qkvo"]
    mlp = ["mlp.gate_proj", "mlp.down_proj", "mlp.up_proj"]
    with torch.no_grad():
        if version == 0:
            write_tensor("model.embed_tokens.weight")
            for part in ["input_layernorm", *attention, "post_attention_layernorm", *mlp]:
                layers(part)
            write_tensor("model.norm.weight")
            out.extend(bytes(4 * CONTEXT * WIDTH // HEADS))
        else:
            layers("input_layernorm")
            layers("post_attention_layernorm")
            write_tensor("model.norm.weight")
            write_tensor("model.embed_tokens.weight")
            for part in attention + mlp:
                layers(part)
        if not tied:
            write_tensor("lm_head.weight")
    path.write_bytes(out)


def check_llama2c(directory):
    for version in (0, 1, 2):
        for tied in (False, True):
            config = transformers.LlamaConfig(
                vocab_size=VOCAB, hidden_size=WIDTH, intermediate_size=HIDDEN, num_hidden_layers=LAYERS,
                num_attention_heads=HEADS, num_key_value_heads=KEYS, max_position_embeddings=CONTEXT,
                rms_norm_eps=1e-5, tie_word_embeddings=tied)
            model = randomize(transformers.LlamaForCausalLM(config))
            name = f"llama2c-{version}-{'tied' if tied else 'untied'}"
            write_llama2c(directory / name, model, version)
            if convert(directory / name, directory / f"{name}-out"):
                check_logits(name, directory / f"{name}-out", model)


def main():
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        check_models(directory)
        check_tokenizers(directory)
        check_types(directory)
        check_shards(directory)
        check_llama2c(directory)
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
