# bochner info of the folder of a model, and of a machine.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); for (i = 0; i < 800; i++) print "the " a[1 + int(4 * rand())] " eats." }' >text.txt
small="--layers 2 --width 16 --heads 2 --context 32 --batch 4 --steps 20 --checkpoint-every 10 --quiet"
succeeds "$BOCHNER" train --data text.txt --out gate $small --features 16
succeeds "$BOCHNER" train --data text.txt --out exact $small --attention exact --key-heads 1 --vocab 270

succeeds "$BOCHNER" info gate
for words in "language model" "2 layers" "width 16" "rfa" "convex gate" "16 features" "32 tokens" "bytes" "step 20 of 20"; do
    grep -q "$words" out || complain "info lacks '$words': $(cat out)"
done
succeeds "$BOCHNER" info exact
for words in "1 of keys" "exact" "270 tokens"; do grep -q "$words" out || complain "info lacks '$words': $(cat out)"; done

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
succeeds "$BOCHNER" info gate/best --json # knows no step
[ "$(field out step)" = null ] || complain "the best model claims a step"

awk 'BEGIN { print "x,y"; for (i = 0; i < 60; i++) print i / 60 "," sin(i / 9) }' >table.csv
succeeds "$BOCHNER" fit table.csv --target y --features 16 --gamma 1 --lambda 0.01 --out table.model --quiet
succeeds "$BOCHNER" info table.model
grep -q '^Fitted on   60 rows' out || complain "rows of a machine: $(cat out)"
! grep -qv -e '^table.model: ' -e '^.\{11\} [^ ]' -e '^ ' out || complain "info has words in the column of names: $(cat out)"

mkdir empty
fails 1 "empty/config.json" "$BOCHNER" info empty
finish
