# A model, its adapter and its linearization that an earlier version made compute the same bits; adapters are merged and
# removed; saved states and a conversation continue with the same text.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
BOCHNER_ISA=ref
export BOCHNER_ISA
cp -r "$BOCHNER_SOURCE/tests/frozen/d78e7484/pretrained"/* .
chmod -R u+w .
sed -i "s|\"base_model_name_or_path\": \"[^\"]*/base\"|\"base_model_name_or_path\": \"$PWD/base\"|" adapter/adapter_config.json

# same FILE EXPECTED WHAT
same() {
    cmp -s "$1" "$2" || complain "$3 differs: $(cmp "$1" "$2" 2>&1)"
}

for name in base adapter linear; do
    for threads in 1 2; do
        succeeds "$BOCHNER" eval $name --ids ids.npy --logits-out found.npy --threads $threads --quiet
        same found.npy $name.npy "$name: the array of logits"
    done
done
for storage in bfloat16 int8 int4; do
    succeeds "$BOCHNER" eval base --ids ids.npy --weights $storage --logits-out found.npy --quiet
    same found.npy $storage.npy "$storage: the array of logits"
done
succeeds "$BOCHNER" lora merge adapter --out merged --quiet
succeeds "$BOCHNER" eval merged --ids ids.npy --logits-out found.npy --quiet
same found.npy adapter.npy "the merged model"
succeeds "$BOCHNER" lora unmerge merged --out unmerged --quiet
succeeds "$BOCHNER" eval unmerged --ids ids.npy --logits-out found.npy --quiet
same found.npy base.npy "the model without its adapter"
succeeds "$BOCHNER" lora unmerge linear --out without --quiet
for name in merged without; do sh "$BOCHNER_SOURCE/tests/frozen/digest.sh" $name/model.safetensors $name; done >found
same found digests.txt "the weights of the merged model or of the linearization without its adapter"

for name in base linear; do
    succeeds "$BOCHNER" generate $name --load-state $name.state --tokens 12 --greedy --quiet
    same out $name.txt "$name: the continued text"
done
succeeds "$BOCHNER" generate base --load-state sampled.state --tokens 12 --seed 5 --top-k 8 --quiet
same out sampled.txt "the sampled text"
printf 'the hen?\n' >question
"$BOCHNER" chat base --template chat.jinja --greedy --tokens 12 --context 99 --quiet --state talk.chat <question >out 2>err ||
    complain "the conversation is not continued: $(cat err)"
same out talk.txt "the answer"
finish
