# bochner train --mlp: every kind trains and is shown by info; frozen weights are counted separately; combinations that
# are refused.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 600; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
small="--data text.txt --attention softmax --layers 2 --width 16 --heads 2 --context 32 --batch 4 --steps 4 --quiet"

for mlp in random-features degree-2 degree-3 degree-4 degree-e quadratic; do
    succeeds "$BOCHNER" train --out $mlp --mlp $mlp $small
    succeeds "$BOCHNER" info $mlp --json
    [ "$(field out mlp)" = "$mlp" ] || complain "info --json shows the MLP $(field out mlp), not $mlp"
    succeeds "$BOCHNER" eval $mlp --data text.txt --tokens 500 --json
    expect "$mlp: loss" "$(field out loss)" "<" 6
done

# Two layers of 32 frequencies of 16 numbers; each layer trains a readout of 64 x 16, a scale and a norm.
succeeds "$BOCHNER" info random-features
grep -q "and 1,024 fixed frequencies" out || complain "info does not count what is frozen: $(cat out)"
grep -q "MLP random-features, hidden width 64 (kernel rbf, function sincos" out || complain "info does not show the map: $(cat out)"
succeeds "$BOCHNER" info random-features --json
expect "frozen" "$(field out frozen)" "==" 1024
succeeds "$BOCHNER" train --out none --mlp none $small
with=$("$BOCHNER" info random-features --json | sed -n 's/.*"parameters": \([0-9]*\).*/\1/p')
without=$("$BOCHNER" info none --json | sed -n 's/.*"parameters": \([0-9]*\).*/\1/p')
expect "trained numbers of the MLPs" $((with - without)) "==" $((2 * (64 * 16 + 1 + 16)))

# Any map; heads; a model without an activation function.
succeeds "$BOCHNER" train --out map --mlp random-features --mlp-kernel arccos --mlp-draw iid --hidden 24 $small
succeeds "$BOCHNER" info map
grep -q "MLP random-features, hidden width 24 (kernel arccos, function relu, draw iid)" out || complain "info shows another map: $(cat out)"
succeeds "$BOCHNER" train --out heads --mlp degree-3 --degree-heads 4 $small
succeeds "$BOCHNER" info heads
grep -q "MLP degree-3, hidden width 32, 4 heads" out || complain "info does not show the heads: $(cat out)"
succeeds "$BOCHNER" train --out again --init random-features --steps 2 --batch 4 --data text.txt --quiet
fails 2 "--mlp-kernel|random-features" "$BOCHNER" train --out x --mlp-kernel rbf $small
fails 2 "--degree-heads|degree-2" "$BOCHNER" train --out x --mlp gelu --degree-heads 2 $small
fails 1 "degree_heads must divide hidden = 32, found 5" "$BOCHNER" train --out x --mlp degree-3 --hidden 32 --degree-heads 5 $small
fails 1 "multiple of 2, found 33" "$BOCHNER" train --out x --mlp random-features --hidden 33 $small
fails 1 "at most width = 16, found 17" "$BOCHNER" train --out x --mlp quadratic --hidden 17 $small
fails 2 "degree3|did you mean degree-3" "$BOCHNER" train --out x --mlp degree3 $small
finish
