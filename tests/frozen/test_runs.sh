# Runs that an earlier version began continue from their checkpoints, with data elsewhere, and end with the weights, the state
# of the optimizer and the states of sequences that the earlier version computed without an interruption.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
[ -z "${SANITIZE:-}" ] || exit 77 # the plain kernels, whose speed every run measures, take minutes
BOCHNER_ISA=ref
export BOCHNER_ISA
files=$BOCHNER_SOURCE/tests/frozen/d78e7484/runs
digest=$BOCHNER_SOURCE/tests/frozen/digest.sh
cp -r "$files"/* "$BOCHNER_SOURCE/tests/frozen/d78e7484/pretrained/base" .
chmod -R u+w .
for config in adapter/adapter_config.json adapter/checkpoints/step-4/adapter_config.json; do
    sed -i "s|\"base_model_name_or_path\": \"[^\"]*\"|\"base_model_name_or_path\": \"$PWD/base\"|" $config
done
threads=1

# resumes NAME OPTIONS...
resumes() {
    name=$1
    shift
    threads=$((3 - threads))
    succeeds "$BOCHNER" train --resume --out "$name" "$@" --threads $threads --quiet || return
    for file in "$name"/checkpoints/step-8/*.safetensors; do sh "$digest" "$file" "$name/$(basename "$file")"; done >found
    for file in "$name"/*.safetensors; do sh "$digest" "$file" "$file"; done >>found
    grep " $name/" digests.txt >expected
    grep " $name/.*model" digests.txt >>expected
    cmp -s expected found || complain "$name ends with other bits: $(diff expected found)"
    [ "$(wc -l <"$name/metrics.jsonl")" -ge 4 ] || complain "$name: the metrics are $(cat "$name/metrics.jsonl")"
}
resumes language --data text.txt
resumes stateful --data text.txt --tokenizer characters.json
resumes classify --data labels.tsv --tokenizer characters.json
resumes translate --data pairs.tsv --tokenizer characters.json
resumes adapter --data text.txt --init base
resumes network --data table.csv --model network.json
succeeds "$BOCHNER" predict network table.csv --proba --quiet --out found.npy
cmp -s found.npy network.npy || complain "the network predicts something else: $(cmp found.npy network.npy 2>&1)"
finish
