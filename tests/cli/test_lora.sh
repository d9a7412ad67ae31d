# bochner train --lora, lora merge and unmerge: a small adapter, its model, and the base model again.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
words() {
    awk -v list="$1" 'BEGIN { srand(3); n = split(list, a, ",");
        for (i = 0; i < 1500; i++) print "the " a[1 + int(n * rand())] " sleeps." }'
}
words cat,dog,hen,cow >text.txt
words ship,boat,raft >other.txt
small="--layers 2 --width 16 --heads 2 --context 32 --batch 8 --features 16"
run="--valid-fraction 0.1 --eval-tokens 2000 --quiet"
succeeds "$BOCHNER" train --data text.txt --out base $small --steps 120 --lr 0.05 --other-lr 0.02 $run
succeeds "$BOCHNER" eval base --data other.txt --last 0.1 --json
before=$(field out loss)

for init in zero random weight gradient; do
    succeeds "$BOCHNER" train --data other.txt --init base --lora 2 --lora-init $init --out $init --steps 60 --lr 0.02 \
        --other-lr 0.02 $run --json
    all=$(field out parameters)
    expect "$init: trained" "$(field out trained_parameters)" "<" "$((all / 3))"
    [ -e $init/model.safetensors ] && complain "$init: the base was written too"
    [ -s $init/best/adapter_model.safetensors ] || complain "$init: no best adapter"
    succeeds "$BOCHNER" eval $init --data other.txt --last 0.1 --json
    expect "$init: loss" "$(field out loss)" "<" "$before"
    adapted=$(field out loss)
    succeeds "$BOCHNER" lora merge $init --out $init-merged
    succeeds "$BOCHNER" eval $init-merged --data other.txt --last 0.1 --json
    [ "$(field out loss)" = "$adapted" ] || complain "$init: merged $(field out loss), adapted $adapted"
    succeeds "$BOCHNER" lora unmerge $init-merged --out $init-base --json
    cmp -s $init-base/model.safetensors base/model.safetensors || complain "$init: unmerging gave other bits"
    succeeds "$BOCHNER" generate $init --prompt "the " --tokens 10 --greedy --quiet
    cp out text
    succeeds "$BOCHNER" generate $init-merged --prompt "the " --tokens 10 --greedy --quiet
    cmp -s out text || complain "$init: the merged model gives another result"
done
succeeds "$BOCHNER" info zero

# The names of PEFT, and twice the rank for an adapter that did not start at zero.
head -c 4000 zero/adapter_model.safetensors >names
grep -aq '"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight":{"dtype":"F32","shape":\[2,16\]' names ||
    complain "names: $(head -c 300 names)"
grep -q '"r": 2,' zero/adapter_config.json || complain "the rank: $(cat zero/adapter_config.json)"
grep -q '"r": 4,' weight/adapter_config.json || complain "twice the rank: $(cat weight/adapter_config.json)"
grep -q "\"base_model_name_or_path\": \"$(realpath base)\"" zero/adapter_config.json || complain "the base is not named"

# A run that is stopped and resumed, also from another directory, gives the same adapter.
succeeds "$BOCHNER" train --data other.txt --init base --lora 2 --lora-init weight --out again --steps 60 --lr 0.02 \
    --other-lr 0.02 $run --checkpoint-every 20 --keep 9
cmp -s again/adapter_model.safetensors weight/adapter_model.safetensors || complain "the same run, other bits"
rm -rf again/checkpoints/step-60 again/checkpoints/step-40
mkdir -p elsewhere
(cd elsewhere && "$BOCHNER" train --resume --out ../again --quiet) >out 2>err || complain "resuming: $(cat err)"
cmp -s again/adapter_model.safetensors weight/adapter_model.safetensors || complain "resumed to other bits"
fails 1 "cannot be resumed with a different lora_rank" "$BOCHNER" train --resume --out again --lora 3 --quiet
fails 1 "cannot be resumed with a different lora_alpha" "$BOCHNER" train --resume --out again --lora-alpha 3 --quiet
fails 1 "cannot be resumed with a different model" "$BOCHNER" train --resume --out again --lora-targets q_proj --quiet

# --context is the length of the sequences; the model keeps its own.
head -n 1 other.txt >short.txt
for init in zero gradient; do
    r="--data short.txt --init base --lora 2 --lora-init $init --batch 2 --steps 3 --valid-fraction 0 --quiet"
    fails 1 "one sequence needs|33" "$BOCHNER" train $r --out never
    succeeds "$BOCHNER" train $r --out short-$init --context 8 --json
    [ "$(field out tokens)" = 48 ] || complain "$init: 3 x 2 x 8 tokens: $(cat out)"
done
succeeds "$BOCHNER" info short-zero
grep -q "^Context  *32 tokens" out || complain "the context of the model: $(cat out)"
fails 1 "cannot be resumed with a different window" "$BOCHNER" train --resume --out short-zero --context 4 --quiet
fails 1 "--context: with --lora, expected at most 32|found 33" "$BOCHNER" train $r --out never --context 33
# A long context is not the default.
succeeds "$BOCHNER" train --data text.txt --out long --layers 1 --width 8 --heads 1 --features 4 --context 2048 \
    --batch 1 --steps 1 --valid-fraction 0 --quiet
succeeds "$BOCHNER" train --data text.txt --init long --lora 2 --batch 1 --steps 1 --valid-fraction 0 --out long-lora \
    --quiet --json
[ "$(field out tokens)" = 1024 ] || complain "the default: 1024 tokens: $(cat out)"

# Invalid combinations.
t="$BOCHNER train --data other.txt --out never --steps 5 --quiet"
fails 2 "--lora needs" $t --lora 2
fails 2 "--lora-alpha" $t --lora-alpha 3
fails 2 "--width" $t --init base --lora 2 --width 32
fails 2 "--vocab" $t --init base --lora 2 --vocab 300
fails 1 "17|expected at most 16" $t --init base --lora 17
fails 1 "9|expected at most 8" $t --init base --lora 9 --lora-init gradient
fails 1 "'x_proj'" $t --init base --lora 2 --lora-targets q_proj,x_proj
fails 1 "merge it first" $t --init zero --lora 2
# The classification head is trained too and belongs to the run when it resumes; a language model has no such head.
printf 'good\tax\nbad\tby\ngood\tbbx\nbad\taay\n' >labels.tsv
l="--task classify --data labels.tsv --valid-fraction 0 --quiet"
fails 1 "task of base is language|--task classify --init base --freeze model" "$BOCHNER" train $l --init base --lora 2 --out never
succeeds "$BOCHNER" train $l --init base --freeze model --out says --steps 2
succeeds "$BOCHNER" train $l --init says --lora 2 --out said --steps 3
succeeds "$BOCHNER" train $l --init says --lora 2 --out truncated --context 2 --steps 2
fails 1 "expected at most" "$BOCHNER" train $l --init says --lora 2 --out never --context 4096
grep -q '"modules_to_save": \["score"\]' said/adapter_config.json || complain "the head is not kept: $(cat said/adapter_config.json)"
grep -aq '"base_model.model.score.weight"' said/adapter_model.safetensors || complain "the head is not in the adapter's file"
succeeds "$BOCHNER" train --resume --out said --steps 3 --quiet
succeeds "$BOCHNER" eval said --data labels.tsv --json
succeeds "$BOCHNER" info said
grep -q "Adapter  *rank 2, base .*says" out || complain "info does not show the adapter: $(cat out)"
succeeds "$BOCHNER" lora merge said --out said-merged
succeeds "$BOCHNER" lora unmerge said-merged --out said-base
cmp -s says/model.safetensors said-base/model.safetensors || complain "unmerging does not give the head back"
cmp -s says/model.safetensors said-merged/model.safetensors && complain "merging changes nothing"
fails 1 "says holds a model that classifies|give --task classify" $t --init says --lora 2

fails 2 "merge or unmerge" "$BOCHNER" lora
fails 2 "merge" "$BOCHNER" lora marge zero --out never
fails 2 "--out" "$BOCHNER" lora merge zero
fails 2 "holds a model" "$BOCHNER" lora merge zero --out base
fails 1 "adapter_config.json" "$BOCHNER" lora merge base --out never
fails 1 "not a merged model" "$BOCHNER" lora unmerge base --out never
mv base gone
fails 1 "base|is missing" "$BOCHNER" eval zero --data other.txt
[ -e never ] && complain "something was written"
finish
