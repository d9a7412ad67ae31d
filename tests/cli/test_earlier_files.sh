# Files that version 0.1 wrote before names were changed still load and give the same results: a model ("normaliser",
# "rope-neighbours" in config.json), the state of a session, a kernel machine ("machine.centre"), a run to resume
# (--normaliser and "rope-neighbours" in train.json and training.json).
. "$BOCHNER_SOURCE/tests/cli/common.sh"
files=$BOCHNER_SOURCE/tests/data/version-0.1

succeeds "$BOCHNER" eval "$files/model" --data "$files/text.txt" --json --isa ref
case $(sed -n 's/.*"loss": \([0-9.]*\).*/\1/p' out) in
5.3962*) ;;
*) complain "the model's loss is not 5.3962: $(cat out)" ;;
esac
succeeds "$BOCHNER" generate "$files/model" --load-state "$files/session.state" --greedy --tokens 12 --quiet
cmp -s out "$files/continued.txt" || complain "the session continues differently: $(cat out)"
succeeds "$BOCHNER" predict "$files/machine.model" "$files/rows.csv" --std --out predictions.csv
cp -r "$files/run" "$files/words.txt" .
succeeds "$BOCHNER" train --resume --out run --quiet --json
grep -q '"step": 4' run/checkpoints/step-4/training.json || complain "the run was not resumed: $(cat out err)"
awk -F, 'NR == FNR { for (i = 1; i <= NF; i++) then[FNR, i] = $i; next }
    { for (i = 1; i <= NF; i++) { gap = FNR == 1 ? $i != then[1, i] : $i - then[FNR, i]
        if (gap > 1e-5 || gap < -1e-5) { print "row " FNR ": " $i " was " then[FNR, i]; wrong = 1 } } }
    END { exit wrong }' "$files/predictions.csv" predictions.csv || complain "the machine predicts something else"
finish
