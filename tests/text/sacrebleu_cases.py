"""For test_long_sacrebleu.sh: compares the scores of print_bleu with those of sacreBLEU.

    python3 sacrebleu_cases.py PRINT_BLEU TEXT...

The sentences of the texts are references of realistic corpora; others are random."""
import random, re, subprocess, sys
from sacrebleu.metrics import BLEU

TOLERANCE = 1e-9
PIECES = ["a", "the", "The", "dog", "1", "23", "1,000.5", ".", ",", "-", "3-4", "A-3", "--", "...", "'s", "don't", '"', "&quot;",
          "&amp;", "&lt;b&gt;", "&amp;lt;", "<skipped>", "(", ")", "[x]", "{", "}", "$5", "50%", "#", "@", "/", ":", ";", "!", "?",
          "\\", "^", "_", "`", "|", "~", "+", "*", "=", "é", "ÄÖÜ", "ß", "Straße", "İ", "“x”", "…", "–", "日本", "。", "😀", "e\u0301"]
SPACES = [" ", " ", " ", "", "  ", "\t", "\u00a0", "\u3000", "\u2003", "\x1c", "\n", "\r"]


def main():
    program, texts = sys.argv[1], sys.argv[2:]
    draw = random.Random(7)
    sentences = [s for text in texts for s in sentences_of(text)]
    if len(sentences) < 500:
        sys.exit("sacrebleu: only %d sentences found" % len(sentences))
    corpora = [[(noised(draw, s, rate), s) for s in draw.sample(sentences, count)]
               for rate in (0, 0.05, 0.2, 0.5, 1) for count in (1, 3, 20, 200)]
    corpora += [[(fuzzed(draw), fuzzed(draw)) for _ in range(draw.randrange(1, 12))] for _ in range(150)]
    corpora += [[(noised(draw, s, 0.3), s) for s in (fuzzed(draw) for _ in range(30))] for _ in range(50)]
    corpora += [[("", "a b c d e")], [("", ""), ("a b c d e f", "a b c d e g")], [("a", "a")], [("a b c", "a b c")],
                [("a b c d", "a b c d e f g h i j")], [("x y z u v", "a b c d e")], [("a b c d", "")]]
    cases = [(tokenize, lower, corpus) for corpus in corpora for tokenize in ("13a", "none") for lower in (False, True)]
    compare(cases, bochner_scores(program, cases))


def sentences_of(path):
    with open(path, encoding="utf-8") as file:
        words = re.sub(r"\s+", " ", file.read())
    return [s for s in re.split(r"(?<=[.:;|]) ", words) if 4 <= len(s.split()) and len(s) < 400]


def noised(draw, text, rate):
    """Words are left out, repeated, exchanged with others or written in capitals; the end is cut off."""
    words = []
    for word in text.split(" "):
        what = draw.random()
        if what >= rate:
            words.append(word)
        else:
            words += draw.choice([[], [word, word], [draw.choice(PIECES)], [word.upper()], [word + draw.choice(PIECES)]])
    return " ".join(words[:len(words) - (draw.random() < rate) * draw.randrange(len(words) + 1)])


def fuzzed(draw):
    text = "".join(draw.choice(PIECES) + draw.choice(SPACES) for _ in range(draw.choice([0, 1, 3, 8, 20, 40])))
    return text.rstrip()  # sacreBLEU removes white space at the end before it tokenizes


def bochner_scores(program, cases):
    written = []
    for tokenize, lower, corpus in cases:
        written.append(b"%d %d\n" % (tokenize == "13a", len(corpus)))
        for pair in corpus:
            h, r = ((t.lower() if lower else t).encode() for t in pair)
            written.append(b"%d %d\n%s%s\n" % (len(h), len(r), h, r))
    out = subprocess.run([program], input=b"".join(written), stdout=subprocess.PIPE, check=True).stdout
    return [[float(word) for word in line.split()] for line in out.decode().splitlines()]


def compare(cases, found):
    if len(found) != len(cases):
        sys.exit("sacrebleu: %d scores for %d corpora" % (len(found), len(cases)))
    worst, positive = 0, 0
    for (tokenize, lower, corpus), numbers in zip(cases, found):
        metric = BLEU(tokenize=tokenize, lowercase=lower, smooth_method="none", force=True)
        b = metric.corpus_score([h for h, _ in corpus], [[r for _, r in corpus]])
        expected = [b.score, *b.precisions, b.bp, b.sys_len, b.ref_len]
        difference = max(abs(x - y) for x, y in zip(numbers, expected))
        if not difference <= TOLERANCE:
            sys.exit("sacrebleu: %s%s: %s, sacreBLEU %s, for %s" % (tokenize, ", lower case" * lower, numbers, expected, corpus[:3]))
        worst, positive = max(worst, difference), positive + (b.score > 0)
    if positive < len(cases) / 4:
        sys.exit("sacrebleu: only %d of %d scores are positive" % (positive, len(cases)))
    print("%d corpora, %d with a positive score: the largest difference is %g" % (len(cases), positive, worst))


if __name__ == "__main__":
    main()
