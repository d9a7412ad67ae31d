#!/usr/bin/env python3
"""Compares `bochner tokenizer encode` and `decode` with the package `tokenizers` on fuzzed Unicode text.

The tokenizers are small: they are trained here, and imitate those of published models. Environment: BOCHNER, the
program; TEXTS, the number of texts per tokenizer (default: 400); SEED (default: 1). Exit status 77: skipped. Arguments
choose tokenizers by parts of their names. With --write, prints tests/data/tokenizers.json.gz before compression instead, the results of
`tokenizers` for a few texts, which the test text.tokenizers reads.
"""
import base64
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

try:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from tokenizers import trainers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

BOCHNER = os.environ.get("BOCHNER", "bochner")
TEXTS = int(os.environ.get("TEXTS", "400"))
SEED = int(os.environ.get("SEED", "1"))

# ---- texts -----------------------------------------------------------------------------------------------------------

WORDS = """the quick brown fox jumps over the lazy dog It's we'll they've I'm don't he'd WE'RE naïve café résumé Ångström
ΑΒΓ αβγδ σίγμας Привет мир שלום עולם مرحبا بالعالم हिन्दी भाषा ภาษาไทย 日本語 東京都 漢字かな交じり カタカナ 한국어 안녕하세요
İstanbul ISTANBUL ǅ ﬁne ½ ² ③ Ⅳ 12345 1,234.56 3.14e-10 0xFF 1234567890 ١٢٣ १२३ snake_case camelCase HTTPServer foo.bar()
e.g. U.S.A. $100 50% a+b=c x<y && z || !w #tag @user http://example.org/path?q=1&r=2 ... --- *** ~~~ \u200bzero\u200d""".split()
SIGNS = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\t\t", " \n", "\n ", " \t ", "\u00a0", "\u3000", "\u2028", "\u2029", "\x85",
         "\x0b", "\x0c", "\u180e", "\u200b", "\u202f", "\ufeff", "\u205f", ".", ",", "!", "?", "'", "''", '"', "-", "_", "▁", "▁▁", "Ġ",
         "/", "\\", "(", ")", "[", "]", "{", "}", "<", ">", "\u0301", "\u0308\u0301", "\u0345\u0301", "\u093c", "\u200d", "\ufe0f",
         "\u1171", "\u11a8", "\x00", "\x01", "\x1f", "\x7f", "\ufffd", "\ue000", "\U0010ffff", "\U000e0001"]
EMOJI = ["😀", "👨\u200d👩\u200d👧\u200d👦", "🏳️\u200d🌈", "🇩🇪", "👍🏽", "1️⃣", "❤️", "\U0001fae8"]
SPECIAL = ["<s>", "</s>", "<unk>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<mask>", "[CLS]", "[SEP]", "[MASK]", "[UNK]",
           "<bos>", "<eos>", "<pad>", "<0x0A>", "<0xE2>", "##ing", "<extra_id_0>", "wörd", "Wort", "tool", "\n\n\n", "    ", "<a b>"]
BLOCKS = [(0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x52f), (0x590, 0x6ff), (0x900, 0xdff),
          (0xe00, 0xfff), (0x1100, 0x11ff), (0x1680, 0x1dff), (0x1e00, 0x2bff), (0x2e80, 0x30ff), (0x3130, 0x4dbf), (0x4e00, 0x9fff),
          (0xa000, 0xa8ff), (0xac00, 0xd7a3), (0xf900, 0xffff), (0x10000, 0x10fff), (0x11000, 0x123ff), (0x16000, 0x18fff),
          (0x1b000, 0x1d7ff), (0x1e000, 0x1fbff), (0x20000, 0x323af), (0xe0000, 0xe01ff), (1, 0x10ffff)]


def point(rng):
    low, high = rng.choice(BLOCKS)
    c = rng.randint(low, high)
    return chr(c) if not 0xD800 <= c <= 0xDFFF else "a"


def piece(rng):
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(WORDS)
    if kind < 0.65:
        return rng.choice(SIGNS)
    if kind < 0.72:
        return rng.choice(EMOJI)
    if kind < 0.80:
        return rng.choice(SPECIAL)
    if kind < 0.83:
        return rng.choice("abAB é漢1'") * rng.randint(2, 40)
    return "".join(point(rng) for _ in range(rng.randint(1, 4)))


def make_texts(rng, count):
    texts = ["", " ", "a", "\n", "Hello world", "  lead", "trail  ", "<s>", "<s><s>", " <s> a", "▁", "▁a", "It's we'll WE'LL 'S"]
    while len(texts) < count:
        glue = rng.choice(["", " ", " "])
        texts.append(glue.join(piece(rng) for _ in range(rng.randint(1, 14))))
    texts[-1] = "".join(rng.choice("abcde") for _ in range(5000))
    return texts[:count]


# ---- tokenizers ------------------------------------------------------------------------------------------------------

CORPUS = [" ".join(WORDS[i:] + WORDS[:i]) for i in range(0, len(WORDS), 3)] + \
    ["The dog and the fox: it's the lazy one!\n\nThey've jumped, 123 times.  Über naïve cafés\t(x)."] * 5

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
         r"\s+(?!\S)|\s+")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
CL100K_POSSESSIVE = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|"
                     r"\s*[\r\n]|\s+(?!\S)|\s")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"


WRITE = "--write" in sys.argv


def train(tokenizer, kind="bpe", size=600, **options):
    common = dict(vocab_size=size // 2 + 20 if WRITE else size, show_progress=False, **options)
    trainer = {"bpe": trainers.BpeTrainer, "unigram": trainers.UnigramTrainer, "wordpiece": trainers.WordPieceTrainer,
               "wordlevel": trainers.WordLevelTrainer}[kind](**common)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def byte_level(splitter, *, size=700, normalizer=None, special=("<|endoftext|>",), **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = splitter
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    return train(tokenizer, size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=list(special))


def split_bytes(*expressions, behavior="isolated", invert=False, **options):
    steps = [pre_tokenizers.Split(Regex(e), behavior, invert=invert) for e in expressions]
    return byte_level(pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
                      **options)


def edit(tokenizer, change):
    """Applies a function to the content of tokenizer.json."""
    content = json.loads(tokenizer.to_str())
    change(content)
    return Tokenizer.from_str(json.dumps(content))


def gpt2():
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def roberta():
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), special=["<s>", "</s>", "<mask>", "<unk>"])
    t.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t


def llama3():
    t = split_bytes(LLAMA3, special=["<|begin_of_text|>", "<|end_of_text|>"], ignore_merges=True)
    t.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    bos = ("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A $B", special_tokens=[bos])])
    return t


def bytes_alphabet():
    return ["<0x%02X>" % b for b in range(256)]


def character_bpe(**model):
    """A BPE of characters with tokens for bytes, as SentencePiece makes them."""
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    train(t, size=900, special_tokens=["<unk>", "<s>", "</s>"] + bytes_alphabet(), limit_alphabet=40 if WRITE else 120)
    options = dict(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    options.update(model)

    def change(content):
        content["model"].update(options)
        content["added_tokens"] = [a for a in content["added_tokens"] if not a["content"].startswith("<0x")]
    return edit(t, change)


def llama2():
    t = character_bpe()
    t.pre_tokenizer = None
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return edit(t, lambda c: [a.update(normalized=False) for a in c["added_tokens"]])


def llama2_metaspace(scheme, split, normalized=True):
    t = character_bpe()
    t.normalizer = None
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme=scheme, split=split)])
    t.add_tokens([AddedToken("tool", single_word=True), AddedToken("Wort", lstrip=True, rstrip=True, normalized=normalized)])
    return t


def gemma():
    t = character_bpe()
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.normalizer = normalizers.Replace(" ", "▁")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.add_tokens([AddedToken("\n" * n, normalized=False) for n in range(1, 12)] +
                 [AddedToken("▁" * n, normalized=False) for n in range(2, 12)])
    t.add_special_tokens(["<bos>", "<eos>", "<pad>"])
    t.post_processor = processors.TemplateProcessing(single="<bos> $A", pair="<bos> $A <bos> $B",
                                                     special_tokens=[("<bos>", t.token_to_id("<bos>"))])
    return t


def neox():
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.NFC())
    t.add_tokens([AddedToken(" " * n, normalized=False) for n in range(24, 1, -1)])
    t.add_tokens([AddedToken("\t" * n, normalized=True) for n in range(2, 6)])
    return t


def falcon():
    return byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")]))


def deepseek():
    return split_bytes(r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK)


def bert(**options):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=30))
    t.normalizer = normalizers.BertNormalizer(**options)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    train(t, "wordpiece", 500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    t.decoder = decoders.WordPiece(prefix="##", cleanup=options.get("lowercase", True))
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def charsmap():
    """A precompiled map in the format of SentencePiece: a double array that is built here, and its replacements."""
    rules = {"ﬁ": "fi", "½": "1/2", "\u3000": " ", "é": "e\u0301", "e\u0301": "E", "①": "1", "\u200b": "", "Ａ": "A", "\n": " ",
             "\u0308": "", "ǅ": "Dž", "한": "han", "👍": "+1"}
    texts, values = b"", {}
    for key, value in rules.items():
        values[key.encode()] = len(texts)
        texts += value.encode() + b"\0"
    units = [0] * 2048
    used = {0}

    def build(prefix, node):
        children = sorted({k[len(prefix)] for k in values if len(k) > len(prefix) and k.startswith(prefix)})
        leaf = prefix in values
        entries = ([0] if leaf else []) + children
        if not entries:
            return
        offset = next(o for o in range(1, 1024) if all((node ^ o ^ c) not in used and (node ^ o ^ c) < len(units) for c in entries))
        units[node] |= offset << 10 | (1 << 8 if leaf else 0)
        base = node ^ offset
        used.update(base ^ c for c in entries)
        if leaf:
            units[base] = 1 << 31 | values[prefix]
        for c in children:
            units[base ^ c] = c
        for c in children:
            build(prefix + bytes([c]), base ^ c)

    build(b"", 0)
    data = struct.pack("<I", 4 * len(units)) + struct.pack("<%dI" % len(units), *units) + texts
    return base64.b64encode(data).decode()


def unigram(byte_fallback=False, split=True, scheme="always", normalizer=None, map_characters=False):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizer or normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    train(t, "unigram", 400, unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"])
    t.decoder = decoders.Metaspace(prepend_scheme=scheme, split=split)
    t.add_special_tokens(["<extra_id_0>"])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])

    def change(content):
        if byte_fallback:
            content["model"]["byte_fallback"] = True
            content["model"]["vocab"] += [[b, -20.0] for b in bytes_alphabet()]
            content["added_tokens"] = [a for a in content["added_tokens"] if a["content"] != "<extra_id_0>"]
        if map_characters:
            content["normalizer"] = {"type": "Sequence", "normalizers": [
                {"type": "Precompiled", "precompiled_charsmap": charsmap()}, {"type": "Strip", "strip_left": False, "strip_right": True}]}
    return edit(t, change)


def draw_words():
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    return train(t, "wordlevel", 300, special_tokens=["<unk>"])


def classic(prefix=None, suffix=None, **model):
    """BPE of words with affixes."""
    options = {k: v for k, v in (("continuing_subword_prefix", prefix), ("end_of_word_suffix", suffix)) if v}
    t = Tokenizer(models.BPE(unk_token="<unk>", **options, **model))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    train(t, size=500, special_tokens=["<unk>"], limit_alphabet=60, **options)
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents(), normalizers.Strip()])
    if suffix:
        t.decoder = decoders.BPEDecoder(suffix)
    return t


def splitters():
    """One word-level tokenizer per pre-tokenizer, whose vocabulary is the words of the texts, so that each cut shows."""
    p = pre_tokenizers
    yield "digits", p.Digits(individual_digits=True)
    yield "digit runs", p.Digits()
    yield "white space", p.Whitespace()
    yield "white-space split", p.WhitespaceSplit()
    yield "bert", p.BertPreTokenizer()
    yield "delimiter", p.CharDelimiterSplit("a")
    yield "fixed length", p.FixedLength(3)
    for behavior in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        yield f"punctuation {behavior}", p.Punctuation(behavior)
        for invert in (False, True):
            yield f"split {behavior} {invert}", p.Split(Regex(r"\s|[aeiou]"), behavior, invert=invert)
            yield f"empty {behavior} {invert}", p.Split(Regex(r"\d*"), behavior, invert=invert)
        yield f"string {behavior}", p.Split("a", behavior)
    for expression in EXPRESSIONS:
        yield f"expression {expression}", p.Split(Regex(expression), "isolated")
    yield "metaspace first", p.Sequence([p.Digits(), p.Metaspace(prepend_scheme="first")])
    yield "letters", p.Sequence([p.ByteLevel(add_prefix_space=True), p.Punctuation()])


EXPRESSIONS = [GPT2, LLAMA3, QWEN2, O200K, CL100K_POSSESSIVE, DEEPSEEK, BLOOM, r"\w+", r"\W", r"\b", r"\B", r"[\W\d]+", r"[^\w\s]+",
               r"\h+", r"\v", r"^.", r".$", r"\s+$", r"\p{Han}+", r"[\p{L}&&[^\p{Han}]]+", r"[[:punct:]]+", r"[[:^alpha:]]", r"\d{2}+",
               r"(?=(\d{3})+(?!\d))", r"\p{Lu}\p{Ll}*", r"[^\S\r\n]+", r"(?m:a.)", r"\p{^N}{3}", r"\P{L}{,2}", r"(?<=\p{P})", r"\u0041",
               r"\p{Letter}+|\p{Nd}", r"\p{Cyrillic}+", r"[]a]", r"[a-z&&[aeiou]]", r"\R", r"\p{M}",
               r"\p{S}+", r"\p{C}", r"(?i:ÄÖ|straße|k)", r"[^[:space:][a-c]]+", r"\x{41}|\x{1F600}", r"\A\s+|\s+\z", r"(?i)e", r"x{0,2}?y|o{2}?"]


def normalizer_list():
    n = normalizers
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel"):
        yield name, getattr(n, name)()
    for left in (False, True):
        for right in (False, True):
            yield f"strip {left} {right}", n.Strip(left, right)
    yield "prepend", n.Prepend("x ")
    yield "replace", n.Replace(Regex(r"\s+|\d"), "<>")
    yield "replace empty", n.Replace(Regex(r"\d*"), "-")
    yield "replace string", n.Replace("a", "")
    for options in ({}, {"lowercase": False}, {"strip_accents": False}, {"clean_text": False, "handle_chinese_chars": False},
                    {"lowercase": False, "strip_accents": True}):
        yield f"bert {options}", n.BertNormalizer(**options)
    yield "sequence", n.Sequence([n.NFD(), n.Lowercase(), n.StripAccents(), n.Replace("s", "ss"), n.NFC()])


def word_model(vocab_words):
    vocab = {"<unk>": 0}
    for word in vocab_words:
        vocab.setdefault(word, len(vocab))
    return Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))


def whole(tokenizer):
    """Decodes to the texts of the tokens themselves."""
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def published():
    yield "gpt2", gpt2()
    yield "roberta", roberta()
    yield "llama3", llama3()
    yield "qwen2", split_bytes(QWEN2, normalizer=normalizers.NFC(), special=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    yield "o200k", split_bytes(O200K)
    yield "cl100k removed inverted", split_bytes(LLAMA3, behavior="removed", invert=True)
    yield "bloom", split_bytes(BLOOM)
    yield "starcoder", byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(False)]))
    yield "deepseek", deepseek()
    yield "falcon", falcon()
    yield "neox", neox()
    yield "byte normalizer", byte_level(pre_tokenizers.Whitespace(), normalizer=normalizers.ByteLevel())
    yield "llama2", llama2()
    yield "unfused", character_bpe(fuse_unk=False, byte_fallback=False)
    yield "partial bytes", edit(character_bpe(fuse_unk=True), drop_bytes)
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            yield f"metaspace {scheme} {split}", llama2_metaspace(scheme, split, normalized=split)
    yield "gemma", gemma()
    yield "bert", bert()
    yield "bert cased", bert(lowercase=False)
    yield "unigram", unigram()
    yield "unigram bytes", unigram(byte_fallback=True)
    yield "unigram whole", unigram(split=False, scheme="first", normalizer=normalizers.Sequence([normalizers.Strip(), normalizers.NFKD()]))
    yield "unigram charsmap", unigram(map_characters=True)
    yield "unigram charsmap first", unigram(map_characters=True, scheme="first", split=False)
    yield "words", draw_words()
    yield "suffix", classic(suffix="</w>")
    yield "prefix", classic(prefix="##")
    yield "both", classic(prefix="@@", suffix="</w>", fuse_unk=True)
    yield "added", added()
    yield "added lower", added(normalizers.Sequence([normalizers.Lowercase(), normalizers.Strip(True, False)]))


def drop_bytes(content):
    """Removes the tokens of some bytes, so that some characters are unknown and others are bytes."""
    for b in ("<0xE6>", "<0xF0>", "<0x0A>"):
        content["model"]["vocab"].pop(b)


def added(normalizer=None):
    t = character_bpe()
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    t.add_tokens([AddedToken("Wort", single_word=True), AddedToken("tool", lstrip=True), AddedToken("<a b>", rstrip=True),
                  AddedToken("<mask>", lstrip=True, rstrip=True, normalized=False), AddedToken("wörd", single_word=True, normalized=False),
                  AddedToken("fox", normalized=True), AddedToken("foxes"), AddedToken(" \n", normalized=False), AddedToken("É"),
                  AddedToken("jump", single_word=True, lstrip=True, rstrip=True)])
    t.add_special_tokens([AddedToken("<|im_end|>", rstrip=True), AddedToken("<s>", normalized=True)])
    return t


def all_tokenizers(texts):
    yield from published()
    for name, splitter in splitters():
        pieces = [w for text in texts for w, _ in splitter.pre_tokenize_str(text)]
        tokenizer = word_model(pieces)
        tokenizer.pre_tokenizer = splitter
        yield "cut: " + name, whole(tokenizer)
    for name, normalizer in normalizer_list():
        tokenizer = word_model([normalizer.normalize_str(text) for text in texts])
        tokenizer.normalizer = normalizer
        yield "normal: " + name, whole(tokenizer)


# ---- comparison ------------------------------------------------------------------------------------------------------

def run(verb, path, lines, *options):
    """Each line is a JSON value, and so is each line of the answer."""
    done = subprocess.run([BOCHNER, "tokenizer", verb, path, "--lines", *options], capture_output=True,
                          input="".join(json.dumps(line) + "\n" for line in lines).encode())
    if done.returncode != 0:
        return None, done.stderr.decode(errors="replace").strip()
    return [json.loads(line) for line in done.stdout.split(b"\n") if line], None


def squeeze(text):
    """Bytes that are not UTF-8 are shown by one or more replacement characters."""
    return re.sub("\ufffd+", "\ufffd", text)


class Report:
    def __init__(self):
        self.compared = self.wrong = 0

    def difference(self, name, what, text, found, expected):
        self.wrong += 1
        if self.wrong <= 40:
            first = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
            print(f"{name}: {what} of {text!r:.400}\n  differs at {first}: {found[first:first + 12]!r} instead of "
                  f"{expected[first:first + 12]!r}")


def compare_ids(report, name, tokenizer, path, texts):
    encoded = []
    for special, plain in ((True, False), (False, False), (False, True)):
        options = ([] if special else ["--no-template"]) + (["--plain"] if plain else [])
        results, failure = run("encode", path, texts, *options)
        if results is None:
            report.wrong += 1
            print(f"{name}: {failure}")
            return None
        tokenizer.encode_special_tokens = plain
        for text, result in zip(texts, results):
            expected = tokenizer.encode(text, add_special_tokens=special).ids
            report.compared += 1
            if result["ids"] != expected:
                report.difference(name, f"encoding {options}", text, result["ids"], expected)
            if special:
                encoded.append(expected)
    tokenizer.encode_special_tokens = False
    return encoded


def compare_texts(report, name, tokenizer, path, lists):
    for skip in (False, True):
        results, failure = run("decode", path, lists, *(["--skip-special"] if skip else []))
        if results is None:
            report.wrong += 1
            print(f"{name}: {failure}")
            return
        for ids, result in zip(lists, results):
            expected = tokenizer.decode(ids, skip_special_tokens=skip)
            report.compared += 1
            if squeeze(result["text"]) != squeeze(expected):
                report.difference(name, f"decoding (skip {skip})", ids, result["text"], expected)


FIXED = ["Hello world, it's WE'LL  naïve 12345!\n\n x", " <s>漢字 日本語\ttool Wort</s> e\u0301 ½ \u180e",
         "The quick fox jumps\r\n  over 1234567 ΑΣ İ \U0001fae8 👍🏽 한국어 ﬁne", "▁a  b<mask> \u0345\u0301 wörd [MASK]\u2028Привет <|im_end|>  z"]


def write():
    """Prints one tokenizer per line."""
    lines = []
    for name, tokenizer in all_tokenizers(FIXED):
        cases = []
        for text in FIXED:
            ids = tokenizer.encode(text).ids
            decoded = [tokenizer.decode(ids, skip_special_tokens=False)] if ids else []
            cases.append({"text": text, "ids": ids, "decoded": decoded})
        content = {k: v for k, v in json.loads(tokenizer.to_str()).items() if v is not None}
        lines.append(json.dumps({"name": name, "cases": cases, "tokenizer": content}, ensure_ascii=True, separators=(",", ":")))
    print("[\n" + ",\n".join(lines) + "\n]")
    return 0


def main():
    if WRITE:
        return write()
    rng = random.Random(SEED)
    report = Report()
    chosen = sys.argv[1:]
    count = 0
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "tokenizer.json")
        texts = make_texts(rng, TEXTS)
        for name, tokenizer in all_tokenizers(texts):
            if chosen and not any(c in name for c in chosen):
                continue
            count += 1
            tokenizer.save(path)
            encoded = compare_ids(report, name, tokenizer, path, texts)
            if encoded is None:
                continue
            size = tokenizer.get_vocab_size()
            known = [i for i in range(size) if tokenizer.id_to_token(i) is not None]
            lists = [ids for ids in encoded if ids] + [rng.choices(known, k=rng.randint(1, 20)) for _ in range(TEXTS // 4)]
            compare_texts(report, name, tokenizer, path, lists)
    print(f"{count} tokenizers, {report.compared} comparisons, {report.wrong} differences")
    return 1 if report.wrong else 0


sys.exit(main())
