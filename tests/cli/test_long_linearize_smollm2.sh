# bochner linearize on real weights of 30 layers: all of them replaced, and half of them kept.
[ -s "$SMOLLM2" ] || { echo "skipped: no weights at $SMOLLM2 (scripts/models)"; exit 77; }
. "$BOCHNER_SOURCE/tests/cli/common.sh"
for page in "$BOCHNER_SOURCE"/docs/explanation/*.md; do cat "$page"; done >text.txt
succeeds "$BOCHNER" convert "$SMOLLM2" --out teacher --quiet
few="--context 64 --batch 1 --calibrate-tokens 256 --transfer-steps 2 --steps 1 --lora 2 --eval-tokens 128 --no-timing --json --quiet"
linearize() { # linearize OPTIONS...: the errors of the layers are in errors, one per line
    succeeds "$BOCHNER" linearize teacher --data text.txt --valid-fraction 0.02 $few "$@" || return
    grep '"layer_errors"' out | tr -d ' []' | sed 's/.*://; s/,$//' | tr ',' '\n' >errors
    [ "$(wc -l <errors)" -eq 30 ] || complain "$(wc -l <errors) errors: $(cat out)"
    expect "agreement with the teacher" "$(field out greedy_agreement)" ">" 0.02 # of 49,152 tokens
}

linearize --out all --attention dark --features 64 --merge
awk '!($1 > 0 && $1 < 10)' errors | grep . && complain "all layers: an error is missing: $(cat errors)"
all=$(field out perplexity_ratio)
succeeds "$BOCHNER" generate all --prompt "The capital of France is" --tokens 4 --greedy --quiet
rm -r all

# Half of the layers keep their attention, and the student is closer to the teacher.
odd=1,3,5,7,9,11,13,15,17,19,21,23,25,27,29
linearize --out half --attention dark --features 64 --merge --keep-softmax $odd
awk 'NR % 2 ? !($1 > 0 && $1 < 10) : $1 != "null"' errors | grep . && complain "half of the layers: an error at the wrong place: $(cat errors)"
expect "perplexity with half of the layers" "$(field out perplexity_ratio)" "<" "$all"
succeeds "$BOCHNER" info half --json
[ "$(field out kept_layers)" = "$odd" ] || complain "kept layers: $(cat out)"
succeeds "$BOCHNER" generate half --weights int8 --prompt "The capital of France is" --tokens 4 --greedy --quiet
finish
