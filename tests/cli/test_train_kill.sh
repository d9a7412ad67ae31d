# kill -9 at any moment: the run can be resumed and gives the bits of an uninterrupted run.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 1500; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
options="--data text.txt --layers 2 --width 16 --heads 2 --context 32 --batch 4 --features 16 --dropout 0.1 --average 0.9
    --eval-every 7 --eval-tokens 400 --checkpoint-every 3 --threads 1 --quiet"

# same WHOLE PARTED: the models and the metrics are equal, except for times.
same() {
    cmp -s "$1/model.safetensors" "$2/model.safetensors" || complain "$2: another model than $1"
    cmp -s "$1/best/model.safetensors" "$2/best/model.safetensors" || complain "$2: another best model than $1"
    for run in "$1" "$2"; do sed 's/, "seconds".*//' "$run/metrics.jsonl" >"$run.numbers"; done
    cmp -s "$1.numbers" "$2.numbers" || complain "$2: other numbers than $1"
    ls "$2/checkpoints" | grep -q part && complain "$2: remains of a checkpoint"
}

steps=150
start=$(date +%s%N)
succeeds "$BOCHNER" train $options --out whole --steps $steps
took=$((($(date +%s%N) - start) / 1000000))
kills=0
for seed in 1 2 3 4 5 6 7 8 9 10 11 12; do
    wait=$(awk -v seed="$seed" -v most="$took" 'BEGIN { srand(seed * 7919); printf "%.3f", rand() * most / 2000 }')
    "$BOCHNER" train $options --out killed --steps $steps --resume >out 2>err &
    job=$!
    sleep "$wait"
    kill -9 $job 2>/dev/null
    wait $job 2>/dev/null
    [ $? -eq 137 ] && kills=$((kills + 1))
    [ -f killed/checkpoints/step-$steps/training.json ] || continue
    [ $kills -ge 4 ] && break
    rm -rf killed # the run was too fast and ended before the kill
    took=$((took / 2))
done
[ $kills -ge 4 ] || complain "only $kills runs were killed"
succeeds "$BOCHNER" train $options --out killed --steps $steps --resume
same whole killed

# Minutes are converted to steps once; the resumed run gives the same bits.
"$BOCHNER" train $options --out minutes --minutes 0.03 >out 2>err &
job=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
    sleep 0.1
    steps=$(cat minutes/checkpoints/*/training.json 2>/dev/null | sed -n 's/.*"steps": \([1-9][0-9]*\).*/\1/p' | head -1)
    [ -n "$steps" ] && break
done
kill -9 $job 2>/dev/null
wait $job 2>/dev/null
[ -n "$steps" ] || complain "the steps of --minutes are not kept"
cp -r minutes twice
succeeds "$BOCHNER" train --resume --out minutes --quiet
"$BOCHNER" train --resume --out twice --quiet >out 2>err &
job=$!
sleep 0.4
kill -9 $job 2>/dev/null
wait $job 2>/dev/null
succeeds "$BOCHNER" train --resume --out twice --quiet
same minutes twice
grep -q "\"step\": $steps, \"steps\": $steps," minutes/metrics.jsonl || complain "--minutes: not the steps that were kept, $steps: $(tail -1 minutes/metrics.jsonl)"
finish
