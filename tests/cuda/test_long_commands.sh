# Commands that use models on a GPU: eval, generate, predict, linearize, states in files, and info --devices.
. "$BOCHNER_SOURCE/tests/cuda/common.sh"

# The devices, as text and as JSON; without a plugin, the reason.
succeeds "$BOCHNER" info --devices
grep -q "^cuda:0 .*, compute capability .* of memory, .* free" out || complain "info --devices: $(cat out)"
grep -q "^Plugin  *$BOCHNER_CUDA$" out || complain "info --devices does not name the plugin: $(cat out)"
succeeds "$BOCHNER" info --devices --json
[ "$(field out plugin)" = "$BOCHNER_CUDA" ] || complain "the plugin is $(field out plugin)"
BOCHNER_CUDA=$work/absent.so succeeds "$BOCHNER" info --devices
grep -q "^GPUs  *none: the CUDA plugin was not found: $work/absent.so does not exist" out || complain "no plugin: $(cat out)"
: >broken.so
BOCHNER_CUDA=$work/broken.so succeeds "$BOCHNER" info --devices --json
[ "$(field out plugin)" = null ] && grep -q "cannot be opened" out || complain "a broken plugin: $(cat out)"
fails 2 "--devices alone" "$BOCHNER" info model --devices

for kind in rfa-gate softmax; do
    [ $kind = softmax ] && features=
    succeeds "$BOCHNER" train --data text.txt --out $kind $tiny $features $run --attention $kind --steps 100
    succeeds "$BOCHNER" eval $kind --data text.txt --tokens 500 --json
    loss=$(field out loss)
    for how in "float32 0.0005" "bfloat16 0.03"; do
        set -- $how
        succeeds "$BOCHNER" eval $kind --data text.txt --tokens 500 --json --device cuda --precision $1
        [ "$(field out device) $(field out precision)" = "cuda:0 $1" ] || complain "eval: $(field out device), $(field out precision)"
        near "$kind, $1: loss" "$(field out loss)" "$loss" "$2"
    done
    for how in "bfloat16 0.02"; do
        set -- $how
        succeeds "$BOCHNER" eval $kind --data text.txt --tokens 500 --json --device cuda --precision float32 --weights $1
        near "$kind, weights $1: loss" "$(field out loss)" "$loss" "$2"
    done

    # Greedy text is the same, also from a state that the other device saved.
    greedy="--tokens 12 --greedy --quiet"
    succeeds "$BOCHNER" generate $kind --prompt "the cat sl" --tokens 24 --greedy --quiet && cp out expected
    succeeds "$BOCHNER" generate $kind --prompt "the cat sl" --tokens 24 --greedy --quiet --device cuda --precision float32
    cmp -s out expected || complain "$kind: the GPU generates '$(cat out)', the CPU '$(cat expected)'"
    for from in cpu cuda; do
        [ $from = cpu ] && to=cuda || to=cpu
        succeeds "$BOCHNER" generate $kind --prompt "the cat sl" $greedy --save-state state --device $from --precision float32 && cp out first
        succeeds "$BOCHNER" generate $kind --load-state state $greedy --device $to --precision float32
        { cat first out | tr -d '\n'; echo; } >both
        tr -d '\n' <expected | cmp -s - both || [ "$(tr -d '\n' <expected)" = "$(cat both)" ] ||
            complain "$kind: from $from to $to '$(cat both)' instead of '$(cat expected)'"
    done
done

# A model that classifies texts.
awk 'BEGIN { srand(5); for (i = 0; i < 60; i++) { k = rand() < 0.5; print (k ? "good" : "bad") "\tthis is " (k ? "fine and nice" : "poor and wrong") " " i } }' >labels.tsv
succeeds "$BOCHNER" train --task classify --data labels.tsv --out labels --layers 1 --width 16 --heads 2 --steps 10 --batch 1 --quiet
cut -f 2 labels.tsv | head -5 >texts
succeeds "$BOCHNER" predict labels texts --proba --quiet && cp out expected
succeeds "$BOCHNER" predict labels texts --proba --quiet --device cuda --precision float32
paste -d ' ' out expected | tr ',\t' '  ' | awk '{ for (i = 1; i <= NF / 2; i++) { d = $i - $(i + NF / 2); if (d > 0.001 || d < -0.001) exit 1 } }' ||
    complain "predict: $(cat out) instead of $(cat expected)"

# Softmax attention is replaced by linear attention.
for device in cpu cuda; do
    succeeds "$BOCHNER" linearize softmax --data text.txt --out linear-$device --features 8 --transfer-steps 2 --steps 2 --batch 2 \
        --no-timing --quiet --json --device $device --precision float32
    cp out linear-$device.json
done
near "linearize: perplexity" "$(field linear-cuda.json perplexity_ratio)" "$(field linear-cpu.json perplexity_ratio)" 0.001

# Kernel machines are not computed on GPUs.
house 50 1 >house.csv
succeeds "$BOCHNER" fit house.csv --target price --features 16 --out house.model --quiet
fails 2 "text models and networks only|house.model does not hold one" "$BOCHNER" predict house.model house.csv --device cuda
finish
