# bench tasks: every part with tiny sizes, states that grow or keep their size, a plot, bad options.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# metric NAME FIELD: value, detail or met of a metric.
metric() {
    tr '{' '\n' <out | awk -v name="\"name\": \"$1\"," -v what="\"$2\": " 'index($0, name) == 1 {
        v = substr($0, index($0, what) + length(what)); print v; exit }' | sed 's/^"//; s/[",}].*//'
}

succeeds "$BOCHNER" bench tasks --quick --json
for kind in softmax rfa favor; do expect "$kind" "$(metric "train, $kind, documents of 96 bytes" value)" '>' 0; done
for kind in rfa favor; do expect "$kind" "$(metric "train, $kind, times faster than softmax" value)" '>' 0; done
for batch in 1 3; do
    for n in 16 48; do expect "$batch after $n" "$(metric "decode, batch $batch after $n tokens, times faster" value)" '>' 0; done
    tr '{' '\n' <out | grep -q "decode, batch $batch, rfa overtakes softmax after" || complain "no break-even of $batch"
done
grep -q '"at_least"' out && complain "the tiny sizes of --quick have goals for speed: $(cat out)"
expect "a cache grows with its tokens" "$(metric "decode, state of softmax at 48 / at 16" value)" '>' 1
expect "the state of rfa does not" "$(metric "decode, state of rfa at 48 / at 16" value)" == 1

succeeds "$BOCHNER" bench tasks --quick --only decode --plot steps.svg
if command -v gnuplot >/dev/null; then
    grep -q "softmax, batch 3" steps.svg || complain "no curve of softmax"
    grep -q "rfa, batch 1" steps.svg || complain "no curve of rfa"
fi
grep -q " inf " out && complain "a length that is none: $(cat out)"
grep -q "train, " out && complain "training was measured, but only decoding was requested"

fails 2 "no part 'training'|did you mean train" "$BOCHNER" bench tasks --only training
fails 2 "--lengths|'96,32'" "$BOCHNER" bench tasks --lengths 96,32
fails 2 "--batches|'0'" "$BOCHNER" bench tasks --batches 0
fails 2 "--plot|steps.txt" "$BOCHNER" bench tasks --plot steps.txt
fails 2 "options only|now" "$BOCHNER" bench tasks now
succeeds "$BOCHNER" bench tasks --help
finish
