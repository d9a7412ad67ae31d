"""Tiny random models of the families that Bochner reads, created with transformers, and their exact outputs.

Weights, gains and biases are random and large, so that a missing or exchanged part changes the logits.
"""
import json
import os
import zlib

import torch
import transformers
from safetensors.torch import save_file

TOKENS, PROMPT, GREEDY = 40, 16, 32
ROWS = [0, 1, 7, 8, 9, 23, 38, 39]
VOCAB, WIDTH, LAYERS, HEADS, HIDDEN, CONTEXT = 131, 32, 2, 4, 48, 64

SIZES = dict(vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
             intermediate_size=HIDDEN, max_position_embeddings=CONTEXT)
GROUPED = dict(SIZES, num_key_value_heads=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)


def flatten_rope(config):
    """Replaces "rope_parameters" of version 5 by the members of version 4."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    if config["rope_scaling"]:
        rope["type"] = rope.pop("rope_type")


def flatten_neox(config):
    rope = config.pop("rope_parameters")
    config.update(rotary_emb_base=rope["rope_theta"], rotary_pct=rope["partial_rotary_factor"])


def flatten_smollm3(config):
    """Leaves the lists of layers to the defaults."""
    flatten_rope(config)
    for name in ("no_rope_layers", "layer_types"):
        del config[name]


def flatten_gemma3(config):
    rope = config.pop("rope_parameters")
    config.update(rope_theta=rope["full_attention"]["rope_theta"],
                  rope_local_base_freq=rope["sliding_attention"]["rope_theta"],
                  rope_scaling={key: value for key, value in rope["full_attention"].items() if key != "rope_theta"})
    del config["layer_types"]
    config["sliding_window_pattern"] = 2


# name: (model type, members, storage, edit of config.json or None)
MODELS = {
    "llama": ("llama", GROUPED, "mixed", None),
    "llama3": ("llama", dict(GROUPED, head_dim=12, attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                             rope_parameters=LLAMA3), "bfloat16", None),
    "llama-linear": ("llama", dict(GROUPED, attention_bias=True, rope_parameters=dict(
        rope_type="linear", rope_theta=5000.0, factor=2.5)), "float16", flatten_rope),
    "mistral": ("mistral", dict(GROUPED, head_dim=16, sliding_window=8, rms_norm_eps=1e-3), "bfloat16", None),
    "mistral-full": ("mistral", dict(GROUPED, sliding_window=None, tie_word_embeddings=True), "float16", None),
    "qwen2": ("qwen2", dict(GROUPED, tie_word_embeddings=True), "float16", flatten_rope),
    "qwen2-window": ("qwen2", dict(GROUPED, num_hidden_layers=3, use_sliding_window=True, sliding_window=6,
                                   max_window_layers=1), "bfloat16", None),
    "qwen3": ("qwen3", dict(GROUPED, head_dim=16), "bfloat16", None),
    "qwen3-window": ("qwen3", dict(GROUPED, head_dim=8, num_hidden_layers=3, attention_bias=True,
                                   use_sliding_window=True, sliding_window=5,
                                   layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
                     "float16", None),
    "gemma": ("gemma", dict(SIZES, num_key_value_heads=1, head_dim=16), "bfloat16", None),
    "gemma3": ("gemma3_text", dict(GROUPED, head_dim=16, num_hidden_layers=3, sliding_window=6, query_pre_attn_scalar=20,
                                   layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                   rope_parameters=dict(
                                       sliding_attention=dict(rope_type="default", rope_theta=50.0),
                                       full_attention=dict(rope_type="linear", factor=2.0, rope_theta=10000.0))),
               "bfloat16", flatten_gemma3),
    "gemma3-plain": ("gemma3_text", dict(GROUPED, head_dim=8, sliding_window=5, query_pre_attn_scalar=8,
                                         attention_bias=True, tie_word_embeddings=False), "float16", None),
    "gpt2": ("gpt2", dict(vocab_size=VOCAB, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=CONTEXT),
             "bfloat16", None),
    "gpt2-relu": ("gpt2", dict(vocab_size=VOCAB, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=CONTEXT,
                               n_inner=HIDDEN, activation_function="relu", tie_word_embeddings=False), "float16", None),
    "gpt_neox": ("gpt_neox", dict(SIZES, rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                                              partial_rotary_factor=0.25)), "bfloat16", None),
    "gpt_neox-sequential": ("gpt_neox", dict(SIZES, use_parallel_residual=False, attention_bias=False,
                                             hidden_act="gelu_fast", tie_word_embeddings=True,
                                             rope_parameters=dict(rope_type="default", rope_theta=500.0,
                                                                  partial_rotary_factor=0.5)),
                            "bfloat16", flatten_neox),
    "phi": ("phi", dict(GROUPED, partial_rotary_factor=0.5), "bfloat16", None),
    "phi3": ("phi3", dict(GROUPED, sliding_window=7, pad_token_id=0), "float16", None),
    "phi3-partial": ("phi3", dict(GROUPED, pad_token_id=0, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.75), tie_word_embeddings=True),
        "bfloat16", flatten_rope),
    "starcoder2": ("starcoder2", dict(GROUPED, sliding_window=9), "bfloat16", None),
    "starcoder2-plain": ("starcoder2", dict(GROUPED, use_bias=False, hidden_act="silu", tie_word_embeddings=False),
                         "float16", None),
    "stablelm": ("stablelm", dict(GROUPED, use_qkv_bias=True), "bfloat16", None),
    "stablelm-parallel": ("stablelm", dict(GROUPED, use_parallel_residual=True, partial_rotary_factor=0.5),
                          "float16", flatten_rope),
    "granite": ("granite", dict(GROUPED, embedding_multiplier=3.0, residual_multiplier=0.4, attention_multiplier=0.2,
                                logits_scaling=2.5), "bfloat16", None),
    "olmo2": ("olmo2", GROUPED, "bfloat16", None),
    "gptj": ("gptj", dict(vocab_size=VOCAB, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=CONTEXT, rotary_dim=4),
             "float16", None),
    "smollm3": ("smollm3", dict(GROUPED, num_hidden_layers=5, pad_token_id=0), "bfloat16", flatten_smollm3),
    "smollm3-window": ("smollm3", dict(GROUPED, num_hidden_layers=4, attention_bias=True, tie_word_embeddings=False,
                                       pad_token_id=0, no_rope_layers=[0, 1, 1, 0], use_sliding_window=True,
                                       sliding_window=6, rope_parameters=LLAMA3), "float16", None),
}


def storage_of(storage, key, value):
    """Returns the type in which a parameter is stored."""
    if storage != "mixed":
        return getattr(torch, storage)
    return torch.float32 if value.dim() == 1 else torch.float16 if "mlp" in key else torch.bfloat16


def build(name, seed=0):
    """Returns a model with random weights, which are exact in its storage, in float32."""
    kind, members, storage, _ = MODELS[name]
    extra = dict(bos_token_id=None, eos_token_id=None)
    config = transformers.AutoConfig.for_model(kind, **dict(extra, **members))
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    torch.manual_seed(1000 * seed + zlib.crc32(name.encode()) % 1000)  # that of a name stays when models are added
    with torch.no_grad():
        for key, value in model.named_parameters():
            gain = key.endswith("norm.weight") or ".ln_" in key and key.endswith("weight") or "layer_norm.weight" in key
            noise = 0.3 * torch.randn_like(value)
            value.copy_((noise + 1 if gain and not kind.startswith("gemma") else noise).to(storage_of(storage, key, value)))
    return model


def forward(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].float()


def tokens(seed):
    return torch.randint(0, VOCAB, (TOKENS,), generator=torch.Generator().manual_seed(seed)).tolist()


def greedy(model, ids):
    """Returns GREEDY tokens, of which the first PROMPT are given, and the smallest lead of a chosen token."""
    ids, lead = list(ids[:PROMPT]), float("inf")
    while len(ids) < GREEDY:
        best = forward(model, ids)[-1].topk(2)
        lead = min(lead, (best.values[0] - best.values[1]).item() / forward(model, ids).abs().max().item())
        ids.append(best.indices[0].item())
    return ids, lead


def write(name, directory):
    """Writes config.json, model.safetensors and reference.safetensors."""
    _, _, storage, edit = MODELS[name]
    for seed in range(20):
        model, ids = build(name, seed), tokens(seed)
        chosen, lead = greedy(model, ids)
        if lead > 1e-3:  # rounding cannot change the tokens
            break
    os.makedirs(directory, exist_ok=True)
    logits = forward(model, ids)
    for key, value in model.named_parameters():
        value.data = value.data.to(storage_of(storage, key, value))
    model.save_pretrained(directory)
    generation = os.path.join(directory, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)
    path = os.path.join(directory, "config.json")
    with open(path) as file:
        config = json.load(file)
    if edit:
        edit(config)
    with open(path, "w") as file:
        json.dump(config, file, indent=2, sort_keys=True)
        file.write("\n")
    as_int = dict(dtype=torch.int32)
    save_file({"input_ids": torch.tensor(ids, **as_int), "greedy": torch.tensor(chosen, **as_int),
               "rows": torch.tensor(ROWS, **as_int), "logits": logits[ROWS].contiguous()},
              os.path.join(directory, "reference.safetensors"))
    return model, logits
