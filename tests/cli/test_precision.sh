# bfloat16 products, and activations in training; bfloat16, int8 and int4 weights in inference.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 900; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
small="--layers 2 --width 64 --heads 2 --context 32 --batch 8 --steps 40 --lr 0.05 --other-lr 0.02 --features 16"

# The plan reports the precision, a resumed run keeps it, and another one is refused.
succeeds "$BOCHNER" train --data text.txt --out half $small --activations bfloat16 --eval-every 40
grep -q "activations .* (stored as bfloat16)" err || complain "the plan does not show bfloat16: $(cat err)"
half=$(sed -n 's/.*activations \([0-9.]*\) .B.*/\1/p' err)
succeeds "$BOCHNER" train --data text.txt --out full $small --eval-every 40
full=$(sed -n 's/.*activations \([0-9.]*\) .B.*/\1/p' err)
expect "memory of activations" "$half" "<" "$full"
succeeds "$BOCHNER" train --resume --out half
fails 2 "float32, bfloat16" "$BOCHNER" train --data text.txt --out no $small --activations int8

# The loss on the same text is nearly unchanged with half and with a quarter of the bytes.
succeeds "$BOCHNER" eval half --data text.txt --json
loss=$(field out loss) bytes=$(field out weight_bytes)
[ "$(field out weights)" = float32 ] || complain "weights are $(field out weights)"
for how in "bfloat16 0.51 0.01" "int8 0.32 0.01" "int4 0.2 0.3"; do
    set -- $how
    succeeds "$BOCHNER" eval half --data text.txt --json --weights $1
    [ "$(field out weights)" = $1 ] || complain "weights are $(field out weights), not $1"
    expect "$1: bytes" "$(field out weight_bytes)" "<" "$(awk "BEGIN { print $2 * $bytes }")"
    expect "$1: loss" "$(field out loss)" "<" "$(awk "BEGIN { print $loss + $3 }")"
    expect "$1: loss" "$(field out loss)" ">" "$(awk "BEGIN { print $loss - $3 }")"
    succeeds "$BOCHNER" generate half --prompt "the cat" --tokens 20 --greedy --quiet --weights $1
    grep -q "the " out || complain "$1: $(cat out)"
done
succeeds "$BOCHNER" eval half --data text.txt --weights int8
grep -q "^Weights  *int8, " out || complain "eval does not show int8: $(cat out)"
fails 2 "float32, bfloat16, int8, int4" "$BOCHNER" eval half --data text.txt --weights float8
fails 2 "float32, bfloat16, int8, int4" "$BOCHNER" generate half --prompt x --weights 8

# Products in bfloat16: the run records its precision and resumes in it; reports name it; the loss hardly changes.
succeeds "$BOCHNER" train --data text.txt --out rounded $small --eval-every 40 --precision bfloat16 --json
[ "$(field out precision)" = bfloat16 ] || complain "train: the precision is $(field out precision)"
grep -rq '"precision": "bfloat16"' rounded/checkpoints || complain "the checkpoint does not have the precision"
succeeds "$BOCHNER" train --resume --out rounded --json
[ "$(field out precision)" = bfloat16 ] || complain "a resumed run has the precision $(field out precision)"
fails 2 "float32, bfloat16" "$BOCHNER" train --data text.txt --out no $small --precision int8
succeeds "$BOCHNER" eval half --data text.txt --json --precision bfloat16
[ "$(field out precision)" = bfloat16 ] || complain "eval: the precision is $(field out precision)"
expect "bfloat16 products: loss" "$(field out loss)" "<" "$(awk "BEGIN { print $loss + 0.02 }")"
expect "bfloat16 products: loss" "$(field out loss)" ">" "$(awk "BEGIN { print $loss - 0.02 }")"
succeeds "$BOCHNER" generate half --prompt "the cat" --tokens 20 --greedy --quiet --precision bfloat16
grep -q "the " out || complain "bfloat16 products: $(cat out)"

# The precision of the Gram matrix has another name, and kernel machines have no precision of products.
printf 'x,y\n1,2\n2,4\n3,6\n4,8\n5,10\n6,12\n7,14\n8,16\n' >table.csv
succeeds "$BOCHNER" fit table.csv --target y --task regression --gram-precision float64 --out table.model --quiet
fails 2 "unknown option --precision" "$BOCHNER" fit table.csv --target y --precision float64 --out no
finish
