# Options of 64 bits survive every file: seeds and counts above 2^53 are not rounded, and runs with them can be resumed
# with the bits of an uninterrupted run.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 300; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
awk '{ print (NR % 2 ? "good" : "bad") "\t" $0 }' text.txt >labels.tsv
shapes 60 1 >shapes.csv
echo '{"input": {"kind": "array"}, "layers": [{"type": "linear", "width": 4}, {"type": "linear", "width": "classes"}], "loss": "cross-entropy"}' >net.json
small="--layers 1 --width 8 --heads 1 --context 16 --batch 2 --features 8 --threads 1 --quiet"

# resumes NAME OPTIONS...: a run that lost its last checkpoint is resumed from its directory alone.
resumes() {
    name=$1
    shift
    succeeds "$BOCHNER" train "$@" --out "$name" --steps 4 --checkpoint-every 2 --quiet --threads 1 || return
    cp -r "$name" "$name.resumed"
    rm -r "$name.resumed/checkpoints/step-4"
    succeeds "$BOCHNER" train --resume --out "$name.resumed" --quiet --threads 1
    for weights in model adapter_model; do
        [ -f "$name/$weights.safetensors" ] || continue
        cmp -s "$name/$weights.safetensors" "$name.resumed/$weights.safetensors" || complain "$name: the resumed run differs"
        rm -r "$name.resumed"
    done
}

for seed in 9007199254740993 18446744073709551615; do
    resumes "text-$seed" --data text.txt $small --seed $seed
    resumes "lora-$seed" --data text.txt --init "text-$seed" --lora 2 --seed $seed
    resumes "task-$seed" --data labels.tsv --task classify $small --seed $seed
    resumes "net-$seed" --model net.json --data shapes.csv --target where --seed $seed
    echo "{\"data\": [\"text.txt\"], \"seed\": $seed}" >options.json
    succeeds "$BOCHNER" train --config options.json $small --steps 4 --checkpoint-every 2 --out "config-$seed"
    cmp -s "text-$seed/model.safetensors" "config-$seed/model.safetensors" || complain "$seed in --config: another seed"
    succeeds "$BOCHNER" features shapes.csv --target where --features 8 --seed $seed --save map-$seed
    grep -aqF "$seed" map-$seed || complain "$seed: not the seed of the saved map"
    succeeds "$BOCHNER" fit shapes.csv --target where --features 8 --seed $seed --out machine-$seed
    succeeds "$BOCHNER" predict machine-$seed shapes.csv --out predictions-$seed.csv
    grep -aqF "$seed" machine-$seed || complain "$seed: not the seed of the machine"
    succeeds "$BOCHNER" info map-$seed --json
    [ "$(field out seed)" = $seed ] || complain "$seed: info shows $(field out seed)"
    succeeds "$BOCHNER" compare "text-$seed" "config-$seed" --json
    grep -q "\"seed\": $seed}" out || complain "$seed: not in the table of compare: $(cat out)"
done
# Neighbors of 2^53 are different seeds.
succeeds "$BOCHNER" train --data text.txt $small --steps 4 --checkpoint-every 2 --seed 9007199254740992 --out neighbor
cmp -s neighbor/model.safetensors text-9007199254740993/model.safetensors && complain "2^53 and 2^53 + 1 are the same seed"

# Counts: an interval of evaluations that never comes.
resumes count --data text.txt $small --eval-every 18446744073709551614
# File names that are not UTF-8.
latin=$(printf 't\344xt.txt')
cp text.txt "$latin"
resumes latin --data "$latin" $small
finish
