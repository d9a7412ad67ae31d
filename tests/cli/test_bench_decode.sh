# bench decode: every storage on one thread and on two; a stand-in for llama2.c whose rates are known; bad options.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

yes 'the quick brown fox jumps over the lazy dog' | head -n 200 >text
succeeds "$BOCHNER" train --data text --out model --layers 2 --width 64 --heads 2 --context 32 --steps 1 --batch 1

# metric NAME: the value of a metric.
metric() {
    tr '{' '\n' <out | awk -v name="\"name\": \"$1\"," 'index($0, name) == 1 {
        v = substr($0, index($0, "\"value\": ") + 9); sub(/,.*/, "", v); print v; exit }'
}
# is_share WHAT RATIO RATE OF: the ratio is RATE / OF.
is_share() {
    expect "$1" "$(awk "BEGIN { d = $(metric "$2") / ($(metric "$3") / $4) - 1; print d < 0 ? -d : d }")" "<" 1e-3
}

succeeds "$BOCHNER" bench decode --model model --tokens 12 --repeats 2 --json
for storage in float32 bfloat16 int8 int4; do
    for threads in "1 thread" "2 threads"; do
        expect "decode, $storage" "$(metric "decode, $storage, $threads")" ">" 0
        expect "read, $storage" "$(metric "read a prompt, $storage, $threads")" ">" 0
    done
done
if grep -q llama2.c out; then complain "a comparison without a program"; fi

# The slow program prints 10 tokens/s, the fast one 100 for a prompt and otherwise 50; the fastest counts.
cat >slow <<'END'
#!/bin/sh
echo "achieved tok/s: 10.000000" >&2
END
cat >fast <<'END'
#!/bin/sh
[ "$1" = weights.bin ] && [ "$5" = 12 ] && [ "$6 $7" = "-z words.bin" ] || exit 3
case $OMP_NUM_THREADS in 1 | 2) ;; *) exit 4 ;; esac
if [ "$8" = -i ]; then echo "achieved tok/s: 100.000000" >&2; else echo "achieved tok/s: 50.000000" >&2; fi
END
chmod +x slow fast
succeeds "$BOCHNER" bench decode --model model --tokens 12 --repeats 2 --json --llama2c ./slow,./fast \
    --llama2c-model weights.bin --llama2c-int8 ./slow --llama2c-int8-model q.bin --llama2c-tokenizer words.bin
is_share "decode against the fastest" "decode, float32, 1 thread / llama2.c" "decode, float32, 1 thread" 50
is_share "a prompt against the fastest" "read a prompt, float32, 2 threads / llama2.c" "read a prompt, float32, 2 threads" 100
is_share "int8 has its own program" "decode, int8, 2 threads / llama2.c" "decode, int8, 2 threads" 10

fails 2 "--model is missing" "$BOCHNER" bench decode
fails 2 "--llama2c needs --llama2c-model" "$BOCHNER" bench decode --model model --llama2c ./fast
fails 1 "nowhere" "$BOCHNER" bench decode --model nowhere
fails 1 "no rate|false" "$BOCHNER" bench decode --model model --tokens 4 --llama2c false --llama2c-model m --repeats 1
finish
