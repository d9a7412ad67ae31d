# bochner train --lora --attention: a model with softmax attention gets another attention, whose parameters are trained
# in full beside the adapters. The directory of the run has the base. And train --whiten.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 1200; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] ".|" } }' >text.txt
small="--layers 2 --width 16 --heads 2 --context 32 --batch 8"
run="--data text.txt --separator | --valid-fraction 0.1 --eval-tokens 2000 --quiet"
succeeds "$BOCHNER" train $run --out base --attention softmax $small --vocab 270 --steps 60 --lr 0.05 --other-lr 0.02
adapt="--init base --lora 2 --optim adamw --lr 0.02 --steps 6 --checkpoint-every 2 --keep 9 --batch 8"

# ---- every kind trains, resumes, is loaded and merged --------------------------------------------------------------
# adapted NAME OPTIONS...: the loss of the adapter is that of the merged model, whose base is in the directory
adapted() {
    name=$1
    shift
    succeeds "$BOCHNER" train $run $adapt --out $name "$@"
    grep -q "\"base_model_name_or_path\": \"$(realpath $name/base)\"" $name/adapter_config.json ||
        complain "$name: the base is $(grep base_model $name/adapter_config.json)"
    succeeds "$BOCHNER" eval $name --data text.txt --tokens 500 --json
    loss=$(field out loss)
    succeeds "$BOCHNER" generate $name --prompt "the " --tokens 5 --quiet
    succeeds "$BOCHNER" lora merge $name --out $name-merged
    succeeds "$BOCHNER" eval $name-merged --data text.txt --tokens 500 --json
    [ "$(field out loss)" = "$loss" ] || complain "$name: merged $(field out loss), adapted $loss"
    succeeds "$BOCHNER" lora unmerge $name-merged --out $name-base
    cmp -s $name-base/model.safetensors $name/base/model.safetensors || complain "$name: unmerging gave other bits"
}
# resumes NAME: a run that is stopped after two steps ends with the same bits
resumes() {
    cp $1/adapter_model.safetensors $1/base/model.safetensors .
    rm -rf $1/checkpoints/step-6 $1/checkpoints/step-4
    (mkdir -p elsewhere && cd elsewhere && "$BOCHNER" train --resume --out ../$1 --quiet) >out 2>err ||
        complain "resuming $1: $(cat err)"
    cmp -s $1/adapter_model.safetensors adapter_model.safetensors || complain "$1: resumed to other bits"
    cmp -s $1/base/model.safetensors model.safetensors || complain "$1: the base changed"
}
adapted dark --attention dark --features 16 --gate decay --gate-first 4 --gate-last 4
grep -q '"modules_to_save": \["g_proj", "m"\]' dark/adapter_config.json || complain "$(cat dark/adapter_config.json)"
resumes dark
adapted white --attention dark --features 16 --whiten
resumes white
adapted hybrid --attention hybrid --features 16 --window 4 --whiten --lora-init weight
resumes hybrid
grep -q '"modules_to_save": \[.*"m"' hybrid/adapter_config.json ||
    complain "hybrid --whiten has no M: $(cat hybrid/adapter_config.json)"
adapted learned --attention hedgehog --lora-targets q_proj,v_proj
adapted local --attention softmax --window 8
grep -q modules_to_save local/adapter_config.json && complain "a window has no parameters: $(cat local/adapter_config.json)"

# The new attention starts with the weights of --init, and all options of attention apply.
succeeds "$BOCHNER" train $run --init base --lora 2 --attention dark --features 24 --gate fixed --steps 1 --lr 1e-9 \
    --other-lr 1e-9 --out still
succeeds "$BOCHNER" info still
grep -q "^Attention  *dark, fixed gate, 24 features; linearized from softmax" out || complain "info: $(cat out)"
grep -q "^Adapter  *rank 2, base $(realpath still/base)" out || complain "info: $(cat out)"
succeeds "$BOCHNER" eval still/base --data text.txt --tokens 500 --json
loss=$(field out loss)
succeeds "$BOCHNER" eval still --data text.txt --tokens 500 --json
expect "nothing was learned" "$(awk "BEGIN { d = $loss - $(field out loss); print d < 0 ? -d : d }")" "<" 1e-4

# The run needs its options, but no longer --init.
fails 1 "cannot be resumed with a different features" "$BOCHNER" train --resume --out dark --features 32 --quiet
fails 1 "cannot be resumed with a different attention" "$BOCHNER" train --resume --out dark --attention favor --quiet
fails 1 "cannot be resumed with a different gate" "$BOCHNER" train --resume --out dark --gate none --quiet
fails 1 "cannot be resumed with a different whiten" "$BOCHNER" train --resume --out dark --whiten --quiet
fails 1 "resume" "$BOCHNER" train $run $adapt --out dark --attention favor --features 8
mv base gone
resumes dark
succeeds "$BOCHNER" eval white --data text.txt --tokens 500
mv gone base
mv dark/base gone
fails 1 "dark/base is missing" "$BOCHNER" eval dark --data text.txt
mv gone dark/base

# ---- special tokens of the base ------------------------------------------------------------------------------------
# The directory of an adapter has no tokenizer_config.json, which names the token at the end of a document; a resumed
# run still reads the same tokens.
cp -r base special
echo '{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "z"}' >special/tokenizer_config.json
for more in "" "--attention dark --features 8"; do
    rm -rf told
    succeeds "$BOCHNER" train $run --init special --lora 2 --steps 4 --checkpoint-every 2 --keep 9 --out told $more
    rm -rf told/checkpoints/step-4
    succeeds "$BOCHNER" train --resume --out told --quiet
done

# ---- whitening without adapters ------------------------------------------------------------------------------------
plain="$small --attention dark --features 16 --steps 4 --checkpoint-every 2 --keep 9"
for more in "" "--init base"; do
    rm -rf with without
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" train $run $plain $more --out with --whiten
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" train $run $plain $more --out without
    cmp -s with/model.safetensors without/model.safetensors && complain "--whiten changes nothing: $more"
    cp with/model.safetensors kept
    rm -rf with/checkpoints/step-4
    succeeds "$BOCHNER" train --resume --out with --quiet
    cmp -s with/model.safetensors kept || complain "--whiten: resumed to other bits: $more"
    fails 1 "cannot be resumed with a different whiten" "$BOCHNER" train --resume --out without --whiten --quiet
done
succeeds "$BOCHNER" train $run $small --attention hybrid --features 16 --window 4 --whiten --steps 2 --out hybrid-new
grep -q '"rank": 8' hybrid-new/config.json || complain "hybrid --whiten: $(grep rank hybrid-new/config.json)"

# ---- refusals ------------------------------------------------------------------------------------------------------
t="$BOCHNER train $run --out never --steps 2"
a="$t --init base --lora 2"
fails 2 "--whiten applies to the kinds dark, hybrid" $t --attention rfa --whiten
fails 2 "--whiten applies to the kind hybrid" $t --attention hybrid --map hedgehog --whiten
fails 2 "--whiten needs --mixer attention" $t --mixer lstm --whiten
fails 2 "--whiten needs --attention" $t --init base --whiten
fails 2 "--whiten needs --attention" $a --whiten
fails 1 "whiten: not possible|drawn from data" $t --attention dark --proposal oprf --whiten
printf 'good\tax\nbad\tby\n' >labels.tsv
l="$BOCHNER train --task classify --data labels.tsv --out never --steps 2 --quiet"
fails 2 "--whiten needs a language model" $l --attention dark --whiten
fails 2 "--lora with --attention needs a language model" $l --init base --lora 2 --attention dark
fails 2 "--features needs --attention" $a --features 8
fails 2 "--width" $a --attention dark --width 32
fails 2 "frequencies|leave out --redraw" $a --attention dark --redraw 2
fails 2 "frequencies that are drawn from data|oprf" $a --attention favor++
fails 1 "17|expected at most 16" $t --init base --attention dark --lora 17
fails 1 "--lora replaces softmax attention only|linearized" $t --init dark-merged --lora 2 --attention rfa
fails 1 "--lora replaces softmax attention only|have dark attention" $t --init without --lora 2 --attention rfa
[ -e never ] && complain "something was written"
finish
