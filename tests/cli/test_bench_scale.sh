# bench scale: every part with tiny sizes and three numbers of threads, the ratios, bad options.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# metric NAME: the value of a metric.
metric() {
    tr '{' '\n' <out | awk -v name="\"name\": \"$1\"," 'index($0, name) == 1 {
        v = substr($0, index($0, "\"value\": ") + 9); sub(/,.*/, "", v); print v; exit }'
}
# is WHAT A B: equal up to rounding.
is() { expect "$1" "$(awk -v a="$2" -v b="$3" 'BEGIN { d = a / b - 1; print d < 0 ? -d : d }')" '<' 1e-6; }

succeeds "$BOCHNER" bench scale --quick --threads 3 --json
for part in forward backward step ridge decode; do
    one=$(metric "$part, 1 thread")
    expect "$part" "$one" '>' 0
    for threads in 2 3; do
        time=$(metric "$part, $threads threads")
        is "$part, speedup" "$(metric "$part, $threads threads, speedup")" "$(awk "BEGIN { printf \"%.12g\", $one / $time }")"
        is "$part, efficiency" "$(metric "$part, $threads threads, efficiency")" "$(awk "BEGIN { printf \"%.12g\", $one / $time / $threads }")"
    done
done
grep -q "4 threads" out && complain "more threads than --threads: $(cat out)"
ls "${TMPDIR:-/tmp}"/bochner-bench-* 2>/dev/null && complain "the corpus of noise is still there"

succeeds "$BOCHNER" bench scale --quick --threads 1 --only ridge
[ "$(grep -c . out)" = 1 ] || complain "one part with one thread is one line: $(cat out)"

fails 2 "no part 'rigde'|did you mean ridge" "$BOCHNER" bench scale --only rigde
fails 2 "options only|now" "$BOCHNER" bench scale now
succeeds "$BOCHNER" bench scale --help
finish
