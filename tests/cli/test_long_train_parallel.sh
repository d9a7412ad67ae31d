# Training on ranks of mpirun: the curve and the weights equal those of one process up to rounding, and are the same
# bits every time. If a rank is killed the run ends, and resuming from its checkpoint gives the same bits.
[ -n "${MPIEXEC:-}" ] || exit 77
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/cli/ranks.sh"

# Words with some structure.
awk 'BEGIN { srand(7); split("the of and to in a that it was he for on are with as his they at be this", w, " ")
    for (i = 0; i < 9000; i++) printf "%s%s", w[1 + int(rand() * rand() * 20)], i % 11 == 10 ? ".\n" : " " }' >text.txt
model="--data text.txt --layers 2 --width 32 --heads 2 --context 32 --batch 8 --seed 3 --threads 1 --quiet"

losses() {
    sed -n 's/.*"loss": *\([-0-9.e+]*\).*"valid_loss": *\([-0-9.e+a-z]*\).*/\1 \2/p' "$1/metrics.jsonl"
}
# numbers DIR: the weights, in the order of the file
numbers() {
    header=$(od -An -tu8 -N8 "$1/model.safetensors")
    od -An -v -tf4 -w4 -j$((8 + header)) "$1/model.safetensors"
}
# close A B MAXIMUM: lines of numbers that differ by at most MAXIMUM
close() {
    [ -s "$1" ] && [ "$(wc -l <"$1")" = "$(wc -l <"$2")" ] && paste "$1" "$2" | awk -v most="$3" '
        { for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d < 0) d = -d; if (!(d <= most)) bad++ } }
        END { exit bad > 0 }'
}

# The batch does not depend on the number of ranks. Sums in another order differ by about 1e-7, which SGD with a
# learning rate of 0.1 amplifies up to a thousand times in 20 steps.
# shellcheck disable=SC2086
check() {
    optim=$1
    shift
    run="$model --optim $optim --steps 20 --eval-every 5"
    succeeds "$BOCHNER" train $run --out one_$optim
    losses one_$optim >one.losses
    numbers one_$optim >one.weights
    [ "$(wc -l <one.losses)" -ge 4 ] || complain "one process reports $(wc -l <one.losses) losses"
    for number in "$@"; do
        succeeds ranks "$number" "$BOCHNER" train $run --out "$optim$number"
        losses "$optim$number" >ranks.losses
        numbers "$optim$number" >ranks.weights
        close one.losses ranks.losses 1e-4 || complain "$optim, $number ranks: another curve: $(paste one.losses ranks.losses)"
        close one.weights ranks.weights 1e-3 || complain "$optim, $number ranks: other weights than one process"
    done
    succeeds ranks 2 "$BOCHNER" train $run --out again_$optim
    cmp -s ${optim}2/model.safetensors again_$optim/model.safetensors ||
        complain "$optim: two ranks give other bits the second time"
}
check sgd 2 4
check muon 2

# once STATUS TEXT ARGUMENTS...: 3 ranks fail with one message.
once() {
    expected=$1 words=$2
    shift 2
    ranks 3 "$@" >out 2>err
    status=$?
    [ $status -eq "$expected" ] || complain "3 ranks: exit status $status instead of $expected: $*"
    [ "$(grep -c "^bochner" err)" -eq 1 ] && grep -q "^bochner.*$words" err ||
        complain "3 ranks: not one message with '$words': $*: $(grep "^bochner" err)"
}
# shellcheck disable=SC2086
{
    once 1 "multiple of the 3 ranks" "$BOCHNER" train $model --steps 5 --out odd
    once 1 "nowhere.txt" "$BOCHNER" train $model --data nowhere.txt --steps 5 --out odd
    once 2 "unknown option --nonsense" "$BOCHNER" train $model --nonsense 5 --out odd
    once 2 "unknown command" "$BOCHNER" nonsense
    once 1 "nowhere" "$BOCHNER" info nowhere # not a parallel command
}
# An error of one rank names the rank.
cat >elsewhere.sh <<'END'
[ "$OMPI_COMM_WORLD_RANK" != 1 ] || cd /
exec "$BOCHNER" "$@"
END
ranks 2 sh elsewhere.sh train --data text.txt --steps 5 --out "$PWD/odd" --quiet >out 2>err && complain "a rank without the text succeeds"
grep -q "^bochner train: rank 1: .*text.txt" err || complain "the rank without the text is not named: $(head -c 500 err)"

# mpirun is asked to stop: all ranks save a checkpoint at the same step, from which the run resumes to the same bits.
# shellcheck disable=SC2086
for signal in INT USR1; do
    rm -rf stopped
    attended "$MPIEXEC" -n 2 --oversubscribe "$BOCHNER" train $model --steps 1000000 --eval-every 1000000 --out stopped >out 2>err &
    job=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ -s stopped/metrics.jsonl ] || [ -d stopped/checkpoints ] && break
        sleep 0.2
    done
    sleep 0.5
    kill -$signal $job
    wait $job && complain "a run stopped by SIG$signal counts as done"
    grep -q "stopped after step" err || complain "SIG$signal: $(head -c 500 err)"
    [ -n "$(ls stopped/checkpoints)" ] || complain "SIG$signal: no checkpoint was written"
done

# A rank is killed in the middle.
run="$model --steps 100 --eval-every 100 --checkpoint-every 5"
# shellcheck disable=SC2086
succeeds ranks 2 "$BOCHNER" train $run --out whole
# shellcheck disable=SC2086
ranks 2 "$BOCHNER" train $run --out killed >out 2>err &
job=$!
victim=
tries=0
while [ $tries -lt 100 ]; do
    tries=$((tries + 1))
    sleep 0.03
    victim=$(pgrep -f "train --data text.txt.*killed" | while read -r p; do
        grep -qz '^OMPI_COMM_WORLD_RANK=1$' /proc/"$p"/environ 2>/dev/null && echo "$p"
    done | head -1)
    [ -n "$victim" ] && [ -n "$(ls killed/checkpoints 2>/dev/null)" ] && break
done
if [ -n "$victim" ] && kill -9 "$victim" 2>/dev/null; then
    wait $job && complain "a killed rank goes unnoticed"
    grep -q "rank 1 .*signal 9" err || complain "the killed rank is not named: $(head -c 500 err)"
    grep -q "another rank of the job ended" err || complain "the surviving rank prints no message: $(head -c 500 err)"
    [ -n "$(ls killed/checkpoints)" ] || complain "a killed rank left no checkpoint"
    succeeds ranks 2 "$BOCHNER" train --resume --out killed --quiet
    cmp -s whole/model.safetensors killed/model.safetensors || complain "a run resumed after a killed rank has other weights"
else
    wait $job
    complain "no rank was found to kill"
fi
finish
