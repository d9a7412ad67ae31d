# bench train: every part with tiny sizes, the fixed count of operations, bad options.
[ -z "${SANITIZE:-}" ] || exit 77 # the references are long loops over matrices and a GiB
. "$BOCHNER_SOURCE/tests/cli/common.sh"

measures() {
    succeeds "$BOCHNER" bench train --json --gemm 256 --repeats 1 --layers 2 --width 32 --heads 2 --context 32 --vocab 256 --peers nowhere "$@"
}
# metric NAME FIELD: value, detail or met of a metric.
metric() {
    tr '{' '\n' <out | awk -v name="\"name\": \"$1\"," -v what="\"$2\": " 'index($0, name) == 1 {
        v = substr($0, index($0, what) + length(what)); print v; exit }' | sed 's/^"//; s/[",}].*//'
}

measures --tokens 128 --lengths 32,96 --decode-layers 1 --decode-width 64
expect "tokens per second" "$(metric "step, tokens per second" value)" '>' 0
# 6 (12 L d² + V d) operations per token, and 12 L d T / 2 for causal attention; the detail has seconds and rate.
detail=$(tr '{' '\n' <out | grep -F '"step, useful rate / GEMM rate"' | sed 's/.*"detail": "//; s/ s, / /; s/ of .*//')
count=$((64 * (6 * (12 * 2 * 32 * 32 + 256 * 32) + 12 * 2 * 32 * 32 / 2)))
expect "operations of a step" "$(echo "$detail" | awk -v n=$count '{ d = $1 * $2 * 1e9 / n - 1; print d < 0 ? -d : d }')" '<' 2e-3
grep -q "no comparison with PyTorch" err || complain "no message about the missing peer: $(cat err)"
grep -q "times faster than PyTorch" out && complain "a comparison without the peer"

expect "bfloat16 products" "$(metric "bfloat16 GEMM rate" value)" '>' 0
expect "a step in bfloat16" "$(metric "step, bfloat16, tokens per second" value)" '>' 0
expect "bfloat16 / float32" "$(metric "step, bfloat16 / float32" value)" '>' 0

for kind in rfa-gate favor; do
    expect "$kind" "$(metric "$kind, step at 128 tokens, times faster than softmax" value)" '>' 0
    expect "$kind, memory" "$(metric "$kind, activations at 128 tokens / at 64" value)" '>' 1
done

for n in 32 96; do expect "after $n tokens" "$(metric "decode, time per token after $n" value)" '>' 0; done
expect "longest / shortest" "$(metric "decode, time per token, longest / shortest" value)" '>' 0
for how in float32 bfloat16 int8 int4; do
    expect "bandwidth, $how" "$(metric "decode, bandwidth / triad, $how weights" value)" '>' 0
done
for how in bfloat16 int8 int4; do expect "$how" "$(metric "decode, $how / float32 weights" value)" '>' 0; done
ls "${TMPDIR:-/tmp}"/bochner-bench-* 2>/dev/null && complain "the corpus of noise is still there"

# A peer that takes three seconds at its best and six in float32.
mkdir peers && touch peers/train_torch.py
cat >python <<'END'
#!/bin/sh
[ "$1" = -c ] && exit 0
[ "$2 $3" = "2,32,2,32,256,2 1" ] || exit 1
echo '{"variant": "bfloat16, compiled", "seconds": 3.0, "threads": 2, "peer": "PyTorch 9", "float32_seconds": 6.0, "runs": []}'
END
chmod +x python
measures --only step --python ./python --peers peers
for what in "6 float32, times faster than PyTorch in float32" "3 float32, times faster than the best PyTorch" \
    "3 bfloat16, times faster than the best PyTorch"; do
    name="step, ${what#* }"
    seconds=$(tr '{' '\n' <out | grep -F "\"$name\"" | sed "s/.*bochner's median //; s/ s\".*//")
    expect "$name" "$(awk -v a="$(metric "$name" value)" -v s="$seconds" -v t="${what%% *}" 'BEGIN { d = a * s / t - 1; print d < 0 ? -d : d }')" '<' 2e-3
done
grep -q "PyTorch 9 at its best 3 s (bfloat16, compiled, threads: 2)" out || complain "the best variant is not named: $(cat out)"

fails 2 "no part 'steps'|did you mean step" "$BOCHNER" bench train --only steps
fails 2 "--lengths|'96,32'" "$BOCHNER" bench train --lengths 96,32
fails 2 "options only|now" "$BOCHNER" bench train now
succeeds "$BOCHNER" bench train --help
finish
