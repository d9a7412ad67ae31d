# Models from lists of blocks: train --blocks, resuming, initial weights, adapters, kept layers, reports; descriptions
# and models of a kind that the command does not expect.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { for (i = 0; i < 300; i++) print "the " substr("catdoghencow", 1 + 3 * (i * i % 7 % 4), 3) " sleeps." }' >text.txt
cat >list.json <<'END'
{"hidden_size": 16, "max_position_embeddings": 32, "block": {"heads": 2},
 "blocks": [{"repeat": 2, "attention": {"preset": "softmax", "window": 8}},
            {"attention": "softmax", "layers": [{"name": "up", "type": "linear", "width": 24}, {"type": "gelu"}, {"type": "linear", "width": "input"}]}]}
END
train="--steps 2 --batch 2 --quiet"
start() { # start OUT OPTIONS...
    out=$1
    shift
    succeeds "$BOCHNER" train --data text.txt --out "$out" $train "$@"
}

# The list once, or repeated; sizes of the file, or of options.
start once --blocks list.json
start many --blocks list.json --layers 7 --width 8 --context 16 --dropout 0.1 --untied
for model in once many; do
    succeeds "$BOCHNER" info $model
    cp out $model.info
    succeeds "$BOCHNER" info $model --json
    cp out $model.json
done
for words in "3 layers, width 16" "block-0, layers 0-1: softmax, window 8; MLP relu2" "block-1, layer 2: softmax; MLP layers;"; do
    grep -q "$words" once.info || complain "info lacks '$words': $(cat once.info)"
done
for words in "7 layers, width 8" "block-0, layers 0-1,3-4,6: softmax, window 8" "block-1, layers 2,5: softmax; MLP layers"; do
    grep -q "$words" many.info || complain "info lacks '$words': $(cat many.info)"
done
grep -q '"blocks": \[{"layers": "0-1,3-4,6",.*"mlp": "relu2".*{"layers": "2,5",.*"mlp": "layers", "hidden": 0}\]' many.json || complain "info --json: $(cat many.json)"

# config.json of a model describes it, with the same initial weights.
start again --blocks once/config.json
cmp -s once/model.safetensors again/model.safetensors || complain "config.json does not describe the model"
# Options of layers contradict the file; others apply.
for option in "--heads 4" "--attention softmax" "--mlp gelu" "--hidden 8" "--norm layer" "--preset small" "--mixer ssm" "--bias" \
    "--positions none" "--rope-base 500" "--features 8" "--kernel 4" "--sigma 2" "--encoder-attention softmax"; do
    fails 2 "${option%% *} and --blocks both describe layers" "$BOCHNER" train --data text.txt --blocks list.json --out no $option
done
fails 2 "--blocks is an option of text models" "$BOCHNER" train --model list.json --blocks list.json --data text.txt --out no
succeeds "$BOCHNER" train --data text.txt --blocks list.json --out wide $train --mup --base-width 8
grep -q '"parametrization": "mup"' wide/config.json || complain "the model is not parametrized"
fails 1 "nowhere.json" "$BOCHNER" train --data text.txt --blocks nowhere.json --out no
sed 's/"width": "input"/"width": 9/' list.json >narrow.json
fails 1 "layer 2: layers: layer 3 (linear): its output is 9, expected the 16 numbers" "$BOCHNER" train --data text.txt --blocks narrow.json --out no $train
sed 's/"heads": 2/"head": 2/' list.json >bad.json
fails 1 'bad.json: block 0 of "blocks": "block": unknown member "head"' "$BOCHNER" train --data text.txt --blocks bad.json --out no

# A stopped run and one that is killed continue to the same weights, from any directory; other blocks are refused.
run="--data text.txt --blocks list.json --steps 24 --batch 2 --checkpoint-every 4 --quiet"
succeeds "$BOCHNER" train $run --out whole
succeeds "$BOCHNER" train $run --out cut
rm -rf cut/checkpoints/step-24
mkdir -p elsewhere
(cd elsewhere && succeeds "$BOCHNER" train --resume --out ../cut --quiet) || complain "the run was not resumed"
cmp -s whole/model.safetensors cut/model.safetensors || complain "a resumed run has other weights"
"$BOCHNER" train $run --out killed >/dev/null 2>&1 &
pid=$!
for i in 1 2 3 4 5 6 7 8 9 10; do
    [ -e killed/checkpoints ] && break
    sleep 0.02
done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
[ -e killed/train.json ] && succeeds "$BOCHNER" train --resume --out killed --quiet
[ -e killed/train.json ] || succeeds "$BOCHNER" train $run --out killed
cmp -s whole/model.safetensors killed/model.safetensors || complain "a killed run has other weights"
sed 's/gelu/tanh/' list.json >other.json
fails 1 "cannot be resumed with a different model" "$BOCHNER" train --resume --out cut --blocks other.json --quiet
fails 1 "cannot be resumed with a different layers" "$BOCHNER" train --resume --out cut --layers 5 --quiet

# Initial weights: tensors with the names and shapes of another model, including lists of blocks.
succeeds "$BOCHNER" train --data text.txt --init once --blocks list.json --layers 6 --out grown --steps 2 --batch 2
grep -q "27 of 54 tensors\|[1-9][0-9]* of [1-9][0-9]* tensors loaded from once" err || complain "the weights of --init: $(cat err)"

# Other commands.
succeeds "$BOCHNER" eval once --data text.txt --last 0.1 --quiet
succeeds "$BOCHNER" generate once --prompt "the " --tokens 4 --greedy --quiet
succeeds "$BOCHNER" inspect once --data text.txt --windows 1 --parts statistics --quiet
succeeds "$BOCHNER" convert once --out half --dtype bfloat16 --quiet
succeeds "$BOCHNER" info once --graph once.dot --repeats 1
small="--attention dark --features 8 --calibrate-tokens 32 --transfer-steps 1 --steps 1 --no-timing --batch 1 --eval-tokens 64 --quiet"
succeeds "$BOCHNER" linearize once --data text.txt --out linear --keep-softmax block-0 $small --json
grep '"layer_errors"' out | grep -q 'null, null, [0-9.]*\]' || complain "linearized layers: $(grep layer_errors out)"
fails 1 "block-2: the model has 2 blocks, numbered from 0" "$BOCHNER" linearize once --data text.txt --out no --keep-softmax block-2 $small
fails 1 "at least one of 3 layers" "$BOCHNER" linearize once --data text.txt --out no --keep-softmax block-0,block-1 $small
adapt() { # adapt TARGETS NUMBER: so many layers have adapters
    rm -rf adapter
    succeeds "$BOCHNER" train --data text.txt --init many --lora 2 --lora-targets "$1" --out adapter $train
    found=$(strings adapter/adapter_model.safetensors 2>/dev/null | head -1 | grep -o 'lora_A' | wc -l)
    [ "$found" -eq "$2" ] || complain "--lora-targets $1: $found layers, expected $2"
}
adapt block-1.q_proj 2
adapt block-1 12
adapt linear.3,block-0.up_proj 7
fails 1 "block-2: the model has 2 blocks" "$BOCHNER" train --data text.txt --init many --lora 2 --lora-targets block-2 --out no $train
succeeds "$BOCHNER" lora merge adapter --out merged --quiet
succeeds "$BOCHNER" eval merged --data text.txt --last 0.1 --quiet

# Other tasks. The file determines the task of the run.
awk 'BEGIN { for (i = 0; i < 20; i++) print (i % 2 ? "good" : "bad") "\tthe cat " i }' >labels.tsv
awk 'BEGIN { for (i = 0; i < 20; i++) print "the cat " i "\tle chat " i }' >pairs.tsv
succeeds "$BOCHNER" train --task classify --data labels.tsv --blocks list.json --out classifier $train
succeeds "$BOCHNER" eval classifier --data labels.tsv
succeeds "$BOCHNER" predict classifier labels.tsv --labeled
sed 's/^{/{"task": "translate", "encoder_blocks": [{"heads": 4, "mlp": "gelu"}], /' list.json >translate.json
succeeds "$BOCHNER" train --task translate --data pairs.tsv --blocks translate.json --encoder-layers 2 --out translator $train
succeeds "$BOCHNER" info translator
grep -q "^Encoder  *block-0, layers 0-1: softmax; MLP gelu" out || complain "info of a translator: $(cat out)"
succeeds "$BOCHNER" info translator --json
grep -q '"encoder_blocks": \[{"layers": "0-1".*"heads": 4' out || complain "info --json of a translator: $(cat out)"
succeeds "$BOCHNER" eval translator --data pairs.tsv
fails 1 "translate.json describes a model that translates; give --task translate" "$BOCHNER" train --data text.txt --blocks translate.json --out no
fails 1 "give --task translate" "$BOCHNER" train --task classify --data labels.tsv --blocks translate.json --out no
sed 's/"task": "translate", //' translate.json >lacking.json
fails 1 '"encoder_blocks" is for the task translate, found language' "$BOCHNER" train --task translate --data pairs.tsv --blocks lacking.json --out no

# Descriptions and models of the task predict, as directories and as single files, instead of text models, and vice
# versa.
awk 'BEGIN { for (i = 0; i < 60; i++) print i % 7 "," i % 3 }' >table.csv
echo '{"input": {"kind": "array"}, "layers": [{"type": "linear", "width": "classes"}], "loss": "cross-entropy"}' >layers.json
succeeds "$BOCHNER" train --model layers.json --data table.csv --out net --steps 2 --quiet
succeeds "$BOCHNER" convert net --out net.safetensors --quiet
succeeds "$BOCHNER" convert once --out once.safetensors --quiet
former=$BOCHNER_SOURCE/tests/frozen/d78e7484/networks # network.json in place of config.json
for net in $former/linear $former/memory.safetensors; do
    fails 1 "$net holds a network, expected a text model" "$BOCHNER" generate $net
    succeeds "$BOCHNER" info $net
done
for net in net net.safetensors; do
    for command in "generate $net" "chat $net" "serve $net" "linearize $net --data text.txt --out no" "inspect $net" "lora merge $net --out no" \
        "train --init $net --data text.txt --out no"; do
        fails 1 "$net holds a network, expected a text model" "$BOCHNER" $command
    done
    succeeds "$BOCHNER" eval $net --data table.csv
    succeeds "$BOCHNER" predict $net table.csv
    succeeds "$BOCHNER" info $net
    grep -q "$net: a network with 1 layer" out || complain "info of $net: $(cat out)"
done
fails 1 "storage in fewer bits requires a text model" "$BOCHNER" convert net --out no --dtype bfloat16
fails 1 "layers.json: describes a network, a list of layers|train --model" "$BOCHNER" train --data text.txt --blocks layers.json --out no
fails 1 "net/config.json: describes a network" "$BOCHNER" train --data text.txt --blocks net/config.json --out no
fails 1 'list.json: describes a text model, a list of blocks|train --blocks' "$BOCHNER" train --data table.csv --model list.json --out no
fails 1 "once/config.json: describes a text model" "$BOCHNER" train --data table.csv --model once/config.json --out no
fails 1 'its description is the member "network"' "$BOCHNER" train --data table.csv --model net/config.json --out no
for model in once once.safetensors; do
    fails 1 "$model holds a language model; use bochner generate" "$BOCHNER" predict $model text.txt
    fails 2 "--labels applies to networks only" "$BOCHNER" eval $model --data table.csv --labels table.csv
done
[ -e no ] && complain "something was written: $(find no)"
finish
