"""LoRA adapters and the peft package, in both directions, on tiny models of transformers with random weights.

Adapters of peft are loaded by Bochner, and adapters that Bochner trained are loaded by peft. The logits of the adapted
models agree: float32 sums of a few hundred products differ by about 1e-5, and a wrong adapter by 1e-2 or more."""
import json, shutil
from peer import bochner, difference, fail, directory, need

numpy, torch, transformers, peft, safetensors_torch = need("numpy", "torch", "transformers", "peft", "safetensors.torch")
TOLERANCE, CHANGE = 1e-4, 1e-2
work = directory()
transformers.utils.logging.disable_progress_bar()
tokens = numpy.random.default_rng(3).integers(0, 256, size=(2, 24)).astype("int32")
numpy.save(work / "ids.npy", tokens)
text = work / "text.txt"
text.write_text("".join("%d times %d is %d. " % (i, i, i * i) for i in range(300)))

SIZES = dict(vocab_size=300, bos_token_id=1, eos_token_id=2)
CONFIGS = {
    "llama": transformers.LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=64, **SIZES),
    "gpt2": transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, **SIZES),
    "gpt_neox": transformers.GPTNeoXConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                           num_attention_heads=4, max_position_embeddings=64, **SIZES),
}


def create_base(name):
    torch.manual_seed(len(name))
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name]).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    path = work / name
    model.save_pretrained(path)
    bochner("tokenizer", "train", text, "--vocab", 300, "--out", path / "tokenizer.json", "--quiet")
    return path


def load_base(path):
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


def peft_logits(model):
    with torch.no_grad():
        return model(torch.tensor(tokens, dtype=torch.long)).logits.numpy()


def bochner_logits(path):
    out = work / "logits.npy"
    bochner("eval", path, "--ids", work / "ids.npy", "--logits-out", out, "--quiet")
    return numpy.load(out)


def compare(what, found, expected, base):
    error, change = difference(found, expected), difference(expected, base)
    if not change > CHANGE:
        fail("%s: the adapter changes the logits by %g only: the comparison means nothing" % (what, change))
    if not error < TOLERANCE:
        fail("%s: the logits differ by %g" % (what, error))
    print("%-40s logits change by %.2g, differ by %.1e" % (what, change, error))


# ---- adapters of peft -------------------------------------------------------------------------------------------------

def save_peft(base, name, dtype=None, **settings):
    """An adapter with random A and B."""
    torch.manual_seed(7)
    model = peft.get_peft_model(load_base(base), peft.LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if "lora_" in key or "modules_to_save" in key:
                weight.add_(0.2 * torch.randn_like(weight))
                if dtype:
                    weight.copy_(weight.to(dtype).to(weight.dtype))
    path = work / name
    model.save_pretrained(path)
    if dtype:
        tensors = safetensors_torch.load_file(path / "adapter_model.safetensors")
        safetensors_torch.save_file({k: v.to(dtype) for k, v in tensors.items()}, path / "adapter_model.safetensors")
    return path, model


CASES = [
    ("llama", "list", dict(r=4, target_modules=["q_proj", "v_proj"])),
    ("llama", "all-linear", dict(r=3, lora_alpha=5, target_modules="all-linear")),
    ("llama", "regular expression", dict(r=4, target_modules=r".*\.(self_attn\.[qk]_proj|mlp\.down_proj)")),
    ("llama", "some layers", dict(r=4, target_modules=["q_proj"], layers_to_transform=[1])),
    ("llama", "rslora", dict(r=4, lora_alpha=6, target_modules=["o_proj", "up_proj"], use_rslora=True)),
    ("llama", "patterns", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "gate_proj"],
                               rank_pattern={"v_proj": 2, r"layers\.1\.mlp.gate_proj": 7},
                               alpha_pattern={r".*1.self_attn.q_proj": 3, "gate_proj": 20})),
    ("llama", "patterns and rslora", dict(r=4, target_modules=["q_proj", "v_proj"], use_rslora=True,
                                          rank_pattern={"v_proj": 6}, alpha_pattern={"q_proj": 1})),
    ("llama", "bfloat16", dict(r=4, target_modules=["q_proj", "v_proj"], dtype=torch.bfloat16)),
    ("llama", "modules_to_save", dict(r=4, target_modules=["q_proj"], modules_to_save=["lm_head"])),
    ("gpt2", "fused", dict(r=4, target_modules=["c_attn"], fan_in_fan_out=True)),
    ("gpt2", "all-linear", dict(r=4, target_modules="all-linear", fan_in_fan_out=True)),
    ("gpt2", "some modules", dict(r=2, target_modules=["attn.c_proj", "c_fc"], fan_in_fan_out=True)),
    ("gpt_neox", "fused by head", dict(r=4, target_modules=["query_key_value", "dense"])),
]

REFUSED = [
    ("use_dora", dict(target_modules=["q_proj"], use_dora=True)),
    ("lora_embedding_A", dict(target_modules=["embed_tokens"])),
    ("lm_head.lora_A", dict(target_modules=["q_proj", "lm_head"])),
    ("bias", dict(target_modules=["q_proj"], bias="lora_only")),
    ("lora_bias", dict(target_modules=["q_proj"], lora_bias=True)),
    ("pissa", dict(target_modules=["q_proj"], init_lora_weights="pissa")),
]


def test_reading(bases):
    for family, what, settings in CASES:
        path, model = save_peft(bases[family], "adapter", **settings)
        compare("%s, peft, %s" % (family, what), bochner_logits(path), peft_logits(model), peft_logits(load_base(bases[family])))
        shutil.rmtree(path)
    for message, settings in REFUSED:
        path, _ = save_peft(bases["llama"], "refused", r=2, **settings)
        output = bochner("eval", path, "--ids", work / "ids.npy", status=None)
        if message not in output:
            fail("%s: expected an error that names it, found %s" % (message, output))
        shutil.rmtree(path)


# ---- adapters of Bochner ----------------------------------------------------------------------------------------------

def test_writing(bases):
    for family, targets in [("llama", "q_proj,v_proj"), ("llama", "all"), ("gpt2", "all"), ("gpt2", "q_proj,v_proj"),
                            ("gpt_neox", "all"), ("gpt2", "*.1.*")]:
        for init in ("zero", "random"):
            path = work / "trained"
            bochner("train", "--data", text, "--init", bases[family], "--lora", 3, "--lora-targets", targets,
                    "--lora-init", init, "--steps", 4, "--lr", 0.05, "--batch", 2,
                    "--warmup", 0, "--out", path, "--quiet", "--seed", 1)
            base = load_base(bases[family])
            before = peft_logits(base)
            model = peft.PeftModel.from_pretrained(base, path).eval()
            compare("%s, Bochner, %s, %s" % (family, targets, init), bochner_logits(path), peft_logits(model), before)
            shutil.rmtree(path)


def main():
    bases = {name: create_base(name) for name in CONFIGS}
    for name, path in bases.items():
        error = difference(bochner_logits(path), peft_logits(load_base(path)))
        if not error < TOLERANCE:
            fail("%s: the logits of the base differ by %g" % (name, error))
    test_reading(bases)
    test_writing(bases)


main()
