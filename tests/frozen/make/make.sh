# Makes tests/frozen/d78e7484: sh make.sh TREE OUT, where TREE is a built checkout of that commit and OUT is new. The runs
# are made in /tmp/frozen, which their files name. Later versions read the files and never make them again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
tree=$(realpath "$1")
out=$(realpath -m "$2")
BOCHNER=$tree/build/bochner
BOCHNER_ISA=ref
LC_ALL=C
export BOCHNER_ISA LC_ALL
work=/tmp/frozen
mkdir "$work" # fails if it exists
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2046
cc -std=c11 -O1 -D_GNU_SOURCE -DBO_EXPERIMENTAL -I"$tree/include" -I"$tree/src" -I"$tree" -I"$tree/tests" -I"$here/.." \
    "$here/make.c" "$tree/build/libbochner.a" -o "$work/make" $(pkg-config --libs cmocka libcjson libpcre2-8 libutf8proc zlib) -lm
mkdir "$work/d78e7484"
cd "$work/d78e7484"
../make "$tree/tests/data/families" "$here/characters.json"

# ---- networks: predictions of the program ------------------------------------------------------------------------------

awk 'BEGIN { for (i = 0; i < 8; i++) { print i "," (i + 1) % 8; if (i % 3) print i "," (i + 3) % 8 } }' >networks/edges.csv
for directory in networks/*/; do
    name=$(basename "$directory")
    case $name in
    graph | message) set -- networks/nodes8.npy --graph networks/edges.csv ;;
    conv | groups | patches) set -- networks/rows32.npy ;;
    *) if grep -q '"sequence"' "$directory/network.json"; then set -- networks/rows24.npy; else set -- networks/rows8.npy; fi ;;
    esac
    [ "$name" = reconstructs ] || set -- "$@" --proba
    "$BOCHNER" predict "$directory" "$@" --threads 1 --quiet --out "networks/$name.npy"
    "$BOCHNER" predict "$directory" "$@" --threads 2 --quiet --out two.npy
    cmp "networks/$name.npy" two.npy
done
rm two.npy

# ---- a model, its adapter, its linearization, and saved states ---------------------------------------------------------

mkdir pretrained
cd pretrained
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 60; i++) { k = 1 + int(4 * rand()); printf "<user>the %s?\n<bot>the %s %s.\n", a[k], a[k], d[1 + k % 3] } }' >text.txt
awk 'BEGIN { srand(5); for (i = 0; i < 60; i++) print "a ship of " int(100 * rand()) " tons" }' >words.txt
cat >chat.jinja <<'JINJA'
{% for m in messages %}
<{{ 'bot' if m.role == 'assistant' else m.role }}>{{ m.content }}
{{- '\n' }}
{%- endfor %}
{{- '<bot>' if add_generation_prompt }}
JINJA
"$BOCHNER" train --data text.txt --out base --attention softmax --layers 2 --width 8 --heads 2 --context 24 --batch 8 \
    --lr 0.05 --other-lr 0.02 --steps 150 --valid-fraction 0 --quiet >/dev/null
"$BOCHNER" train --data words.txt --init base --lora 2 --lora-init weight --steps 6 --lr 0.02 --other-lr 0.02 \
    --valid-fraction 0 --batch 2 --out adapter --quiet >/dev/null
"$BOCHNER" linearize base --data text.txt --attention dark --features 8 --window 6 --keep-softmax 1 --batch 2 --context 16 \
    --transfer-steps 3 --steps 3 --lora 2 --calibrate-tokens 256 --eval-tokens 200 --no-timing --out linear --quiet >/dev/null
for file in base linear; do
    rm -rf $file/checkpoints $file/train.json $file/metrics.jsonl $file/.lock $file/linearize.json $file/transfer $file/finetune
done
for file in adapter linear/adapter; do
    rm -rf $file/checkpoints $file/train.json $file/metrics.jsonl $file/.lock
done
"$BOCHNER" lora merge adapter --out merged --quiet >/dev/null
"$BOCHNER" lora unmerge linear --out without --quiet >/dev/null
for name in merged without; do sh "$here/../digest.sh" $name/model.safetensors $name >>digests.txt; done
rm -rf merged without
# Eight ids as an array of NumPy.
{
    printf '\223NUMPY\1\0\166\0%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (8,), }"
    printf 'the cow '
} >ids.npy
for name in base adapter linear; do
    "$BOCHNER" eval $name --ids ids.npy --logits-out $name.npy --threads 1 --quiet >/dev/null
    "$BOCHNER" eval $name --ids ids.npy --logits-out two.npy --threads 2 --quiet >/dev/null
    cmp $name.npy two.npy
done
for storage in bfloat16 int8 int4; do
    "$BOCHNER" eval base --ids ids.npy --weights $storage --logits-out $storage.npy --quiet >/dev/null
done
rm two.npy
for name in base linear; do
    "$BOCHNER" generate $name --prompt '<user>the cat?' --tokens 4 --greedy --save-state $name.state --quiet >/dev/null
    "$BOCHNER" generate $name --load-state $name.state --tokens 12 --greedy --quiet >$name.txt
done
"$BOCHNER" generate base --prompt '<user>' --tokens 6 --seed 5 --top-k 8 --save-state sampled.state --quiet >/dev/null
"$BOCHNER" generate base --load-state sampled.state --tokens 12 --seed 5 --top-k 8 --quiet >sampled.txt
chat="$BOCHNER chat base --template chat.jinja --greedy --tokens 12 --context 99 --quiet --state"
printf 'the cat?\n' | $chat talk.chat >/dev/null
cp talk.chat copy
printf 'the hen?\n' | $chat copy >talk.txt
rm copy text.txt words.txt
cd ..
# ---- runs that are continued -------------------------------------------------------------------------------------------

mkdir runs
cd runs
cp "$here/characters.json" .
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 60; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
printf 'good\tax\nbad\tby\ngood\tbbx\nbad\taay\n' >labels.tsv
printf 'ab\tba\nabc\tcba\nb\tb\nca\tac\n' >pairs.tsv
printf 'yes\tab\tba\nno\tabc\ta\nyes\tb\tb\nno\tca\tdd\n' >matches.tsv
awk 'BEGIN { srand(2); print "a,b,kind"; split("red,green,blue", names, ",");
    for (i = 0; i < 48; i++) { k = i % 3; printf "%.4f,%.4f,%s\n", cos(2 * k) + 0.2 * rand(), sin(2 * k) + 0.2 * rand(), names[k + 1] } }' >table.csv
cat >network.json <<'JSON'
{"input": {"kind": "array"},
 "layers": [{"name": "hidden", "type": "linear", "width": 6}, {"type": "batchnorm"}, {"type": "tanh"},
            {"type": "dropout", "rate": 0.2}, {"type": "linear", "width": "classes"}],
 "loss": "cross-entropy"}
JSON

# run NAME OPTIONS...: eight steps; then the directory becomes what it was after the checkpoint of step 4.
run() {
    name=$1
    shift
    "$BOCHNER" train "$@" --out "$name" --steps 8 --checkpoint-every 4 --threads 1 --seed 3 --quiet >/dev/null
    "$BOCHNER" train "$@" --out other --steps 8 --checkpoint-every 4 --threads 2 --seed 3 --quiet >/dev/null
    last=$name/checkpoints/step-8
    for file in "$last"/*.safetensors; do
        cmp "$file" "other/checkpoints/step-8/$(basename "$file")"
        sh "$here/../digest.sh" "$file" "$name/$(basename "$file")" >>digests.txt
    done
    for file in "$name"/checkpoints/step-4/*; do
        copy=$name/$(basename "$file")
        if [ -e "$copy" ]; then cp "$file" "$copy"; fi
    done
    grep -v '"step": [5-8],' "$name/metrics.jsonl" >kept
    mv kept "$name/metrics.jsonl"
    rm -rf "$last" "$name/best" "$name/.lock" other
}
small="--layers 1 --width 4 --heads 2 --features 4"
# shellcheck disable=SC2086
{
    run language --data text.txt $small --context 16 --batch 4 --attention rfa-gate --dropout 0.1 --average 0.9 --valid-fraction 0
    run stateful --tokenizer characters.json --data text.txt $small --context 8 --batch 2 --attention favor --optim adamw --stateful --redraw 3 --valid-fraction 0
    run classify --tokenizer characters.json --task classify --data labels.tsv $small --batch 1 --pack 8 --optim adamw --valid-fraction 0
    run translate --tokenizer characters.json --task translate --data pairs.tsv $small --batch 1 --pack 16 --valid-fraction 0
    run adapter --init ../pretrained/base --lora 2 --data text.txt --context 16 --batch 2 --valid-fraction 0
    run network --model network.json --data table.csv --target kind --batch 8
}
# The predictions of the finished run.
"$BOCHNER" train --model network.json --data table.csv --target kind --batch 8 --out other --steps 8 --seed 3 --quiet >/dev/null
"$BOCHNER" predict other table.csv --proba --quiet --out network.npy
rm -rf other
cd ..

# ---- short runs with many options ---------------------------------------------------------------------------------------

mkdir "$work/short"
cd "$work/short"
cp -r ../d78e7484/runs/*.* ../d78e7484/pretrained/base .
while read -r options; do
    for threads in 1 2; do
        # shellcheck disable=SC2086
        "$BOCHNER" train $options --steps 2 --valid-fraction 0 --seed 9 --threads $threads --quiet --out $threads >/dev/null
    done
    weights=model.safetensors
    if [ -e 1/adapter_model.safetensors ]; then weights=adapter_model.safetensors; fi
    cmp 1/$weights 2/$weights
    sh "$here/../digest.sh" 1/$weights "$options" >>../d78e7484/options.txt
    rm -r 1 2
done <"$here/options.txt"

cp -r "$work/d78e7484" "$out"
