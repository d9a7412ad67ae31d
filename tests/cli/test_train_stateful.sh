# bochner train --stateful and --redraw, bochner eval --stateful, and their errors.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(5); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 1500; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
small="--layers 1 --width 16 --heads 2 --context 8 --batch 4 --lr 0.05 --other-lr 0.02 --seed 3"
rfa="--attention rfa-gate --features 16"

# Validation reads the text as one window, and so does eval --stateful.
succeeds "$BOCHNER" train --data text.txt --out run $small $rfa --steps 60 --stateful --eval-tokens 0 --json
loss=$(field out valid_loss)
expect "tokens" "$(field out tokens)" == $((60 * 4 * 8))
succeeds "$BOCHNER" eval run --data text.txt --last 0.1 --stateful --json
expect "eval's loss, with the validation loss $loss" "$(awk -v a="$(field out loss)" -v b="$loss" 'BEGIN { print (a - b)^2 < 1e-8 }')" == 1
expect "the window" "$(field out context)" ">" 1000
succeeds "$BOCHNER" eval run --data text.txt --last 0.1 --json
expect "the loss with empty states" "$(field out loss)" "!=" "$loss"

# Several windows per step; the run is stopped and resumed from its states.
more="$small $rfa --steps 40 --stateful --state-windows 3 --redraw 7 --eval-every 10"
succeeds "$BOCHNER" train --data text.txt --out whole $more --json
expect "tokens of 3 windows" "$(field out tokens)" == $((40 * 4 * 3 * 8))
succeeds "$BOCHNER" train --data text.txt --out parted $more --quiet
rm -r parted/checkpoints/step-40
[ -s parted/checkpoints/step-30/states.safetensors ] || complain "no states in a checkpoint"
succeeds "$BOCHNER" train --resume --out parted --threads 1 --quiet
cmp -s whole/model.safetensors parted/model.safetensors || complain "a resumed run gives another model"
fails 1 "state_windows|expected 3" "$BOCHNER" train --resume --out parted --state-windows 2 --quiet

fails 2 "state-windows|--stateful" "$BOCHNER" train --data text.txt --out no $small --steps 2 --state-windows 2
fails 2 "stateful|context" "$BOCHNER" eval run --data text.txt --stateful --context 16
fails 2 "stateful|--task" "$BOCHNER" train --task classify --data text.txt --out no --stateful --steps 2
fails 1 "stateful|keeps all keys|window" "$BOCHNER" train --data text.txt --out no $small --attention softmax --steps 2 --stateful --quiet
fails 1 "stateful|mixer conv" "$BOCHNER" train --data text.txt --out no $small --mixer conv --steps 2 --stateful --quiet
fails 1 "redraw|no attention with random frequencies" "$BOCHNER" train --data text.txt --out no $small --attention softmax --steps 2 --redraw 1 --quiet
fails 1 "redraw|no attention with random frequencies" "$BOCHNER" train --data text.txt --out no $small --mixer gru --steps 2 --redraw 1 --quiet
finish
