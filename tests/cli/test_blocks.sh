# bochner train --blocks: the files of examples/blocks, additional options, resuming, block-N, and bad descriptions.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
small="--batch 2 --context 32 --steps 3 --quiet"
awk 'BEGIN { for (i = 0; i < 400; i++) print "In the beginning was line " i "." }' >text.txt
for file in "$BOCHNER_SOURCE"/examples/blocks/*.json; do
    name=$(basename "$file" .json)
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" train --data text.txt --blocks "$file" --out "$name" $small
    succeeds "$BOCHNER" info "$name"
    grep -q "block-1, layer" out || complain "info $name lists no blocks: $(cat out)"
    succeeds "$BOCHNER" generate "$name" --prompt In --tokens 4
done

# config.json of a model is a description of it.
# shellcheck disable=SC2086
succeeds "$BOCHNER" train --data text.txt --blocks hybrid/config.json --out again $small
cmp hybrid/model.safetensors again/model.safetensors || complain "config.json describes another model"

# Options of the model apply; options of a layer are refused.
# shellcheck disable=SC2086
succeeds "$BOCHNER" train --data text.txt --blocks "$BOCHNER_SOURCE/examples/blocks/hybrid.json" --layers 3 --width 64 --out narrow $small
succeeds "$BOCHNER" info narrow --json
[ "$(field out layers)" = 3 ] || complain "$(field out layers) layers"
fails 2 "--heads and --blocks both describe layers" "$BOCHNER" train --data text.txt --blocks "$BOCHNER_SOURCE/examples/blocks/hybrid.json" --heads 2 --out no

# Blocks by name.
# shellcheck disable=SC2086
succeeds "$BOCHNER" train --data text.txt --init hybrid --lora 2 --lora-targets block-1.q_proj --out adapter $small
grep -q '"model.layers.3.self_attn.q_proj", "model.layers.7.self_attn.q_proj"]' adapter/adapter_config.json ||
    complain "other targets: $(grep target_modules adapter/adapter_config.json)"
fails 1 "block-2: the model has 2 blocks" "$BOCHNER" train --data text.txt --init hybrid --lora 2 --lora-targets block-2 --out no --steps 1

# wrong WORDS DESCRIPTION
wrong() {
    printf '%s\n' "$2" >wrong.json
    fails 1 "$1" "$BOCHNER" train --data text.txt --blocks wrong.json --out no --steps 1
}
wrong '"blocks" should be a list of 1 to 4096 blocks' '{}'
wrong 'describes a network, a list of layers; expected "blocks" (train --model)' '{"layers": [{"type": "gelu"}], "loss": "mse"}'
wrong 'unknown member "hidden"' '{"hidden": 4, "blocks": [{"heads": 2}]}'
wrong 'block 1 of "blocks": "heads" is missing' '{"blocks": [{"heads": 2}, {}]}'
wrong 'block 0 of "blocks": "attention" should be the name of a preset, found "sofmax"' '{"blocks": [{"heads": 2, "attention": "sofmax"}]}'
wrong 'reads descriptions of format' '{"bochner_format": 99, "blocks": [{"heads": 2}]}'
wrong 'is for the task translate, found language' '{"blocks": [{"heads": 2}], "encoder_blocks": [{"heads": 2}]}'
wrong 'it mixes rows by batch-norm' '{"blocks": [{"heads": 2, "layers": [{"type": "batchnorm"}]}]}'
wrong 'conv does not accept rows' '{"blocks": [{"heads": 2, "layers": [{"type": "conv", "channels": 8, "kernel": 3}]}]}'
wrong 'its output is 7, expected the 128 numbers' '{"blocks": [{"heads": 2, "layers": [{"type": "linear", "width": 7}]}]}'
fails 1 'describes a text model, a list of blocks; expected "layers" (train --blocks)' \
    "$BOCHNER" train --model "$BOCHNER_SOURCE/examples/blocks/hybrid.json" --data text.txt --out no --steps 1
finish
