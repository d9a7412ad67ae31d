# bench attention: every part with tiny sizes, the fixed counts of operations, parts that are skipped or refused.
[ -z "${SANITIZE:-}" ] || exit 77 # the references are long loops over matrices and a GiB
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# measures OPTIONS...: runs with small sizes and prints JSON.
measures() { succeeds "$BOCHNER" bench attention --json --repeats 1 --features 16 --peers nowhere "$@"; }
# metric NAME FIELD: value, detail or met of a metric.
metric() {
    tr '{' '\n' <out | awk -v name="\"name\": \"$1\"," -v what="\"$2\": " 'index($0, name) == 1 {
        v = substr($0, index($0, what) + length(what)); print v; exit }' | sed 's/^"//; s/[",}].*//'
}
# near WHAT A B: equal up to the four printed digits.
near() { compare "$(awk -v a="$2" -v b="$3" 'BEGIN { d = a / b - 1; print d < 0 ? -d : d }')" '<' 2e-3 || complain "$1: $2 is not $3"; }

# counts NAME OPERATIONS: time, rate and ratio of a pass agree with the operations. The detail: 0.12 ms, 30.1 of 120.5
# GFLOP/s, ...
counts() {
    tr '{' '\n' <out | awk -v name="\"name\": \"$1\"," 'index($0, name) == 1' | sed 's/.*"detail": "//; s/ms, //; s/of //' >detail
    read -r ms rate reference rest <detail || complain "no metric '$1': $(cat out)"
    near "$1: operations" "$(awk -v t="$ms" -v r="$rate" 'BEGIN { print t * r * 1e6 }')" "$2"
    near "$1: ratio" "$(metric "$1" value)" "$(awk -v r="$rate" -v y="$reference" 'BEGIN { print r / y }')"
}
linear() { echo $(($1 * 8 * (4 * 64 * $2 + 4 * $2 * 64 + 65 * ($2 + 64)))); }

measures --only forward,backward,softmax --lengths 64,100
for n in 64 100; do
    counts "forward, 16 features, N = $n / small-GEMM" "$(linear $n 16)"
    counts "forward + backward, 16 features, N = $n / small-GEMM" "$((3 * $(linear $n 16)))"
    counts "softmax forward, N = $n / small-GEMM" $((8 * 4 * 64 * n * (n + 1) / 2))
done

measures --only precision --lengths 64
for name in "forward, 16 features" "forward + backward, 16 features" "softmax forward"; do
    expect "$name" "$(metric "$name, N = 64, bfloat16 / float32" value)" '>' 0
done

measures --only crossover --lengths 64
grep -q "no crossover of" err && complain "an unknown map: $(cat err)"
for map in positive sincos hyperbolic elu relu rfa rfa-gate dark hybrid; do
    tr '{' '\n' <out | grep -q "^\"name\": \".*$map.*overtakes softmax at N\".*\(none up to 64\|at the shortest length\)" ||
        complain "no crossover of $map"
done

measures --only flat,memory --tokens 256 --lengths 256
grep -q "ns per token: [0-9]* at 256\"" out || complain "no time per token: $(cat out)"
[ "$(metric "forward, 16 features, bytes at 16 N / bytes at N" value)" = 1 ] || complain "forward's memory grows: $(cat out)"
[ "$(metric "backward + tape, 16 features, bytes / (sqrt(N) states)" met)" = true ] || complain "backward's memory: $(cat out)"

measures --only decode --sequences 2 --lengths 128
for batch in 1 2; do
    for n in 64 128; do
        expect "batch $batch, $n tokens" "$(metric "decode, batch $batch, $n tokens, cache / state" value)" '>' 0
    done
    grep -q "\"decode, batch $batch, break-even length\"" out || complain "no break-even length of batch $batch"
done
expect "bandwidth" "$(metric "decode, 16 features, 2 sequences, states' bandwidth / triad" value)" '>' 0

measures --only family,gates --lengths 64 --sequences 2
for kind in "linear (elu)" retention favor "favor, decay gate" "poly, degree 2" taylor hedgehog t2r "power, degree 2" gla delta gated-delta ridge gated-ridge; do
    for pass in "forward / small-GEMM" "forward + backward / small-GEMM" "decoding step"; do
        expect "$kind, $pass" "$(metric "$kind, $pass" value)" '>' 0
    done
done
for pass in "forward" "forward + backward"; do
    expect "ridge of a pool, $pass" "$(metric "ridge, not causal, $pass / small-GEMM" value)" '>' 0
    for other in "ridge, causal" "softmax, not causal"; do
        expect "$other, $pass" "$(metric "$other / ridge, not causal, $pass" value)" '>' 0
    done
done
# Linear attention with the identity map: products with the sums, and the same count as favor without features.
detail=$(tr '{' '\n' <out | grep -F '"retention, forward / small-GEMM"' | sed 's/.*"detail": "N = 64: //; s/ms, //; s/of //')
near "operations of retention a token" "$(echo "$detail" | awk '{ print $1 * $2 / 64 }')" "$(echo "$detail" | awk '{ print $5 }')"
for map in "identity, not normalized" elu favor; do
    for gate in retention "one gate per token"; do
        expect "gates of $map" "$(metric "$map, forward: $gate / plain" value)" '>' 0
        expect "gates of $map" "$(metric "$map, forward + backward: $gate / plain" value)" '>' 0
    done
done

# The proposals are not timed, so their errors depend on the seed only. The proposal for this data beats sampling
# without a proposal, and no predicted error is below the minimum, up to the estimation error from few rows and
# candidates.
measures --only laws --plot-laws laws.svg --features 64
for data in gaussian anisotropic; do
    for width in 16 64; do
        for law in favor favor++ "favor#" "dark, gaussian proposal" "favor, optimal sampling" "dark, optimal sampling"; do
            name="$data, width $width, 64 features, $law"
            expect "$name" "$(metric "$name" value)" '>' 0
            tr '{' '\n' <out | awk -v name="\"name\": \"$name\"," 'index($0, name) == 1' >detail
            predicted=$(sed 's/.*predicted //; s/,.*//' detail)
            least=$(sed 's/.*lower bound //; s/".*//' detail)
            expect "$name: predicted against the least" "$predicted" '>=' "$(awk -v x="$least" 'BEGIN { print 0.9 * x }')"
        done
        expect "$data, width $width: dark compared with favor" "$(metric "$data, width $width, 64 features, dark, gaussian proposal" value)" \
            '<' "$(metric "$data, width $width, 64 features, favor" value)"
    done
done
if command -v gnuplot >/dev/null; then
    grep -q "<svg" laws.svg || complain "no plot of the laws"
fi
fails 2 "--plot-laws|leaves out" "$BOCHNER" bench attention --only softmax --plot-laws laws.svg
fails 2 "--plot-laws|.svg|laws.txt" "$BOCHNER" bench attention --plot-laws laws.txt

# A peer that takes three seconds for everything, six in float32; then no peer.
mkdir peers && touch peers/attention_torch.py
cat >python <<'END'
#!/bin/sh
[ "$1" = -c ] && exit 0
[ "$2 $3" = "64 16" ] || exit 1
for run in '"forward", "features": 16' '"forward + backward", "features": 16' '"forward", "features": 0'; do
    echo "{\"form\": $run, \"tokens\": 64, \"variant\": \"bfloat16, scan\", \"seconds\": 3.0, \"block\": 32, \"threads\": 1, \"float32_seconds\": 6.0}"
done
END
chmod +x python
measures --only peer --lengths 64 --python ./python --peers peers
for name in "forward, 16 features" "forward + backward, 16 features" "forward, softmax"; do
    for what in "6000 float32 / PyTorch float32" "3000 float32 / best PyTorch" "3000 bfloat16 / best PyTorch"; do
        whole="$name, N = 64, ${what#* }"
        ms=$(tr '{' '\n' <out | grep -F "\"$whole\"" | sed "s/.*bochner's median //; s/ ms.*//")
        near "$whole" "$(metric "$whole" value)" "$(awk -v ms="$ms" -v t="${what%% *}" 'BEGIN { print t / ms }')"
    done
done
grep -q "at its best 3000 ms (bfloat16, scan, chunks of 32, threads: 1)" out || complain "the best variant is not named: $(cat out)"
measures --only peer --lengths 64 --python ./python
grep -q "no comparison with PyTorch.*--peers DIRECTORY" err || complain "a missing script is not reported: $(cat err)"

fails 2 "no part 'forwards'|did you mean forward" "$BOCHNER" bench attention --only softmax,forwards
fails 2 "--lengths|ascending|'512,64'" "$BOCHNER" bench attention --lengths 512,64
fails 2 "--lengths|'64,'" "$BOCHNER" bench attention --lengths 64,
fails 2 "--features|'many'" "$BOCHNER" bench attention --features many
fails 2 "options only|now" "$BOCHNER" bench attention now
fails 2 "machines, attention, train, layers|nothing" "$BOCHNER" bench
succeeds "$BOCHNER" bench attention --help
PATH=$(dirname "$BOCHNER"):$PATH
awk '/^Example/ { on = 1; next } on && /^   / { print; next } on && /^  bochner / { print; next } on { exit }' out >examples
sh examples >out 2>err || complain "the example fails: $(cat examples err)"
grep -q "^softmax forward, N = 512" out || complain "the example measures something else: $(cat out)"
finish
