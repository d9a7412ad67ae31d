# Models with 1, 17 and 80 layers: commands that process or list layers have no limit on their number.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { for (i = 0; i < 500; i++) print "the " substr("catdoghencow", 1 + 3 * (i * i % 7 % 4), 3) " sleeps." }' >text.txt
few="--batch 1 --eval-tokens 64 --quiet"
small="--attention dark --features 8 --lora 2 --calibrate-tokens 32 --transfer-steps 1 --steps 1 --no-timing $few"
linearize() { # linearize LAYERS OPTIONS...: the student has errors for all layers, in order
    layers=$1
    shift
    succeeds "$BOCHNER" linearize base-$layers --data text.txt $small --json "$@" || return
    grep '"layer_errors"' out | tr -d ' []' | sed 's/.*://; s/,$//' | tr ',' '\n' >errors
    [ "$(wc -l <errors)" -eq "$layers" ] || complain "$layers layers: $(wc -l <errors) errors: $(cat out)"
}
for layers in 1 17 80; do
    succeeds "$BOCHNER" train --data text.txt --out base-$layers --attention softmax --layers $layers --width 8 --heads 1 --context 16 \
        --steps 1 --valid-fraction 0 --batch 1 --quiet
    linearize $layers --out all-$layers
    awk '!($1 > 0 && $1 < 10)' errors | grep . && complain "$layers layers: an error is missing"
done

# Half of 80 layers, as a list.
odd=$(awk 'BEGIN { for (i = 1; i < 80; i += 2) printf "%s%d", (i > 1 ? "," : ""), i }')
linearize 80 --out half --keep-softmax "$odd"
awk 'NR % 2 ? !($1 > 0 && $1 < 10) : $1 != "null"' errors | grep . && complain "half of the layers: an error at the wrong place"
[ "$(field out kept_layers)" = "$odd" ] || complain "kept layers: $(field out kept_layers)"
fails 1 "must leave at least one of 80 layers" "$BOCHNER" linearize base-80 --data text.txt $small --keep-softmax 0-79 --out never
fails 1 "must be below 80|found 80" "$BOCHNER" linearize base-80 --data text.txt $small --keep-softmax 80 --out never

# The result is a model for all commands.
succeeds "$BOCHNER" info half --json
[ "$(field out layers) $(field out kept_layers)" = "80 $odd" ] || complain "info: $(cat out)"
evaluate() { # evaluate MODEL OPTIONS...: the loss
    succeeds "$BOCHNER" eval "$@" --data text.txt --last 0.1 --json --quiet
    field out loss
}
near() { # near WHAT A B TOLERANCE
    awk -v a="$2" -v b="$3" -v most="$4" 'BEGIN { d = a - b; exit !(a > 0 && b > 0 && d * d <= most * most) }' ||
        complain "$1: loss $2, expected $3"
}
loss=$(evaluate half)
near "in 8 bits" "$(evaluate half --weights int8)" "$loss" 0.02
near "in 4 bits" "$(evaluate half --weights int4)" "$loss" 0.02
succeeds "$BOCHNER" generate half --prompt "the " --tokens 5 --greedy --quiet
succeeds "$BOCHNER" convert half --out converted --dtype bfloat16 --quiet
near "in bfloat16" "$(evaluate converted)" "$loss" 0.01
succeeds "$BOCHNER" lora unmerge half --out unmerged --quiet
succeeds "$BOCHNER" train --init unmerged --data text.txt --out adapter --lora 2 --steps 1 --valid-fraction 0 $few
succeeds "$BOCHNER" lora merge adapter --out merged --quiet
near "merged" "$(evaluate merged)" "$(evaluate adapter)" 1e-5
succeeds "$BOCHNER" inspect base-80 --data text.txt --windows 1 --parts statistics,errors,behavior --html page.html --quiet
[ "$(grep -o '<h3>Layer [0-9]*</h3>' page.html | sort -u | wc -l)" -eq 80 ] || complain "the page lacks layers"

# As many heads as in the largest models: 128 with 8 of keys.
succeeds "$BOCHNER" train --data text.txt --out heads --attention softmax --layers 2 --width 256 --heads 128 --key-heads 8 --context 16 \
    --steps 1 --valid-fraction 0 --batch 1 --quiet
succeeds "$BOCHNER" linearize heads --data text.txt $small --out many-heads
succeeds "$BOCHNER" info many-heads
grep -q "128 heads of dimension 2, 8 key heads" out || complain "the heads are not those of the teacher: $(cat out)"
near "many heads" "$(evaluate many-heads)" "$(evaluate heads)" 0.5
succeeds "$BOCHNER" generate many-heads --prompt "the " --tokens 5 --greedy --quiet
succeeds "$BOCHNER" inspect heads --data text.txt --windows 1 --parts errors --json --quiet

# Only the model limits the number of layers.
fails 1 "layers must be at most 4096, found 4097" "$BOCHNER" train --data text.txt --out never --layers 4097 --width 8 --heads 1 --steps 1 --quiet
[ -e never ] && complain "something was written: $(find never)"
finish
