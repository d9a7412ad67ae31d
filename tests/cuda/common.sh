# For the scripts of this directory: a text, the options of a tiny model, and the comparison of loss curves. Skipped without
# an emulator or a GPU.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
"$BOCHNER" info --devices --json | grep -q '"device": "cuda:0"' || { "$BOCHNER" info --devices; exit 77; }
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 300; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
tiny="--layers 2 --width 32 --heads 2 --context 16 --batch 2 --lr 0.05 --other-lr 0.02"
features="--features 8"
run="--steps 12 --eval-every 6 --checkpoint-every 6 --quiet --json"

# same_curve DIRECTORY DIRECTORY TOLERANCE: the losses of all steps differ by at most TOLERANCE.
same_curve() {
    for directory in "$1" "$2"; do sed 's/.*"loss": \([^,]*\),.*/\1/' "$directory/metrics.jsonl" >"$directory.curve"; done
    paste "$1.curve" "$2.curve" | awk -v tolerance="$3" 'NF != 2 { print "lines differ"; exit 1 }
        { d = $1 - $2; if (d < 0) d = -d; if (!(d <= tolerance)) { print "step " NR ": " $1 " and " $2; bad = 1; exit } }
        END { exit bad || NR != 12 }' >differences || complain "the loss curves of $1 and $2: $(cat differences)"
}

# near WHAT A B TOLERANCE
near() {
    awk -v a="$2" -v b="$3" -v tolerance="$4" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a != "" && b != "" && d <= tolerance) }' ||
        complain "$1: $2 and $3"
}
