# bochner info of a model directory and of a kernel machine.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); for (i = 0; i < 800; i++) print "the " a[1 + int(4 * rand())] " eats." }' >text.txt
small="--layers 2 --width 16 --heads 2 --context 32 --batch 4 --steps 20 --checkpoint-every 10 --quiet"
succeeds "$BOCHNER" train --data text.txt --out gate $small --features 16
succeeds "$BOCHNER" train --data text.txt --out exact $small --attention softmax --key-heads 1 --vocab 270

succeeds "$BOCHNER" info gate
for words in "language model" "2 layers" "width 16" "rfa-gate" "16 features" "32 tokens" "one token per byte" "step 20 of 20"; do
    grep -q "$words" out || complain "info lacks '$words': $(cat out)"
done
succeeds "$BOCHNER" info exact
for words in "1 key head;" "softmax" "270 tokens"; do grep -q "$words" out || complain "info lacks '$words': $(cat out)"; done

succeeds "$BOCHNER" train --data text.txt --out again $small --features 16 --json
parameters=$(field out parameters) state=$(field out state_bytes)
succeeds "$BOCHNER" info gate/ --json
[ "$(field out holds)" = model ] || complain "holds $(field out holds)"
expect "parameters" "$(field out parameters)" == "$parameters"
expect "bytes of a state" "$(field out state_bytes)" == "$state"
expect "step" "$(field out step)" == 20
expect "loss" "$(field out valid_loss)" ">" 0
succeeds "$BOCHNER" info gate/checkpoints/step-10 --json
expect "step of a checkpoint" "$(field out step)" == 10
mv gate/checkpoints/step-20 gate/checkpoints/step-20.damaged # as train --resume sets it aside
succeeds "$BOCHNER" info gate --json
expect "step beside a damaged checkpoint" "$(field out step)" == 10
mv gate/checkpoints/step-20.damaged gate/checkpoints/step-20
succeeds "$BOCHNER" info gate/best --json # this directory has no step
[ "$(field out step)" = null ] || complain "the best model claims a step"

awk 'BEGIN { print "x,y"; for (i = 0; i < 60; i++) print i / 60 "," sin(i / 9) }' >table.csv
succeeds "$BOCHNER" fit table.csv --target y --features 16 --gamma 1 --lambda 0.01 --out table.model --quiet
succeeds "$BOCHNER" info table.model
grep -q '^Fitted on   60 rows' out || complain "rows of a machine: $(cat out)"
! grep -qv -e '^table.model: ' -e '^.\{11\} [^ ]' -e '^ ' out || complain "info has words in the column of names: $(cat out)"

# A profile: the table, the plot, JSON, and usage errors.
succeeds "$BOCHNER" info gate --graph step.dot --tokens 16 --batch 2 --repeats 2
for words in "a training step of 2 x 16 tokens" "median of 2 runs" "operation .*forward ms .*backward ms" "^  attention  *2 " "^  linear "; do
    grep -q "$words" out || complain "info --graph lacks '$words': $(cat out)"
done
grep -q 'Graph  *step.dot' err || complain "info --graph does not print the name of the file: $(cat err)"
for words in '^digraph' '<B>layer 1 attention</B>' '<B>linear</B>' 'q_proj.weight' '<B>tokens</B>' '32 × 16'; do
    grep -q "$words" step.dot || complain "step.dot lacks '$words'"
done
[ "$(tail -n 1 step.dot)" = '}' ] || complain "step.dot is not whole"
succeeds "$BOCHNER" info gate --graph step.dot --repeats 1 --checkpointing --json
[ "$(field out subject)" = "a training step of 1 x 32 tokens" ] || complain "subject: $(field out subject)"
expect "seconds of layers computed again" "$(field out again_seconds)" ">" 0
grep -q '"kinds": \[{"operation": "' out || complain "JSON without kinds: $(cat out)"
succeeds "$BOCHNER" info gate --graph step.dot --repeats 1 --forward --json
expect "seconds of backward" "$(field out backward_seconds)" == 0
if command -v dot >/dev/null; then
    succeeds "$BOCHNER" info gate --graph step.svg --repeats 1 --quiet
    grep -q '</svg>' step.svg || complain "step.svg is not whole"
else
    echo "no Graphviz: step.svg is not drawn" >&2
fi
fails 1 "Graphviz is not installed|graphviz|.dot" env PATH=/nonexistent "$BOCHNER" info gate --graph none.svg --repeats 1
[ ! -e none.svg ] || complain "half a plot was left"
fails 2 "ending in .dot or .svg|step.png" "$BOCHNER" info gate --graph step.png
fails 2 "--tokens|--graph" "$BOCHNER" info gate --tokens 8
fails 2 "--checkpointing|--forward" "$BOCHNER" info gate --graph step.dot --forward --checkpointing
fails 1 "33 tokens|context of 32" "$BOCHNER" info gate --graph step.dot --tokens 33
fails 1 "no directory nowhere" "$BOCHNER" info gate --graph nowhere/step.dot
fails 1 "table.model|no graph" "$BOCHNER" info table.model --graph step.dot

mkdir empty
fails 1 "empty: not a model directory|config.json" "$BOCHNER" info empty
finish
