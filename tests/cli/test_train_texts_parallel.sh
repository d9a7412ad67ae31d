# Training on texts with two ranks of mpirun: the curve equals that of one process up to rounding, and is the same bits
# every time.
[ -n "${MPIEXEC:-}" ] || exit 77
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/cli/ranks.sh"
awk 'BEGIN { srand(3); for (i = 0; i < 200; i++) { good = rand() < 0.5; n = 2 + int(6 * rand()); s = ""
    for (k = 0; k < n; k++) s = s substr("abcdef", 1 + int(6 * rand()), 1)
    print (good ? "good" : "bad") "\t" s (good ? "x" : "y") } }' >labels.tsv
cut -f2 labels.tsv | awk '{ print $0 "\t" toupper($0) }' >translate.tsv

# losses DIR: training and test losses, one line per report
losses() {
    sed -n 's/.*"loss": *\([-0-9.e+]*\).*"valid_loss": *\([-0-9.e+]*\).*/\1 \2/p' "$1/metrics.jsonl"
}
# Sums in another order differ by about 1e-7 of losses up to 6, which SGD amplifies up to a hundred times in 10 steps.
for task in classify translate; do
    data=labels.tsv
    [ $task = translate ] && data=translate.tsv
    run="--task $task --data $data --layers 1 --width 16 --heads 2 --features 16 --batch 4 --pack 64 --dropout 0 --optim sgd --steps 10 --eval-every 5 --threads 1 --quiet"
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" train $run --out one_$task
    # shellcheck disable=SC2086
    succeeds ranks 2 "$BOCHNER" train $run --out two_$task
    losses one_$task >one
    losses two_$task >two
    [ "$(wc -l <one)" -ge 2 ] || complain "$task: one process reports $(wc -l <one) losses"
    paste one two | awk '{ for (i = 1; i <= NF / 2; i++) if (!(($i - $(i + NF / 2)) ^ 2 < 1e-8)) bad = 1 } END { exit bad }' ||
        complain "$task: two ranks have another curve: $(paste one two)"
done
# shellcheck disable=SC2086
succeeds ranks 2 "$BOCHNER" train $run --out again
cmp -s two_translate/model.safetensors again/model.safetensors || complain "two ranks give other bits the second time"
finish
