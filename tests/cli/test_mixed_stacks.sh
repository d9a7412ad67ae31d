# Options of bochner train, and reports, on models whose layers differ: --rope-base, --mlp, --encoder-attention and
# --lora
# --attention with --init, --resume without the file of --blocks, and the reports of info, train and linearize on such models.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { for (i = 0; i < 400; i++) print "In the beginning was line " i "." }' >text.txt
small="--data text.txt --batch 2 --steps 1 --quiet"

# makes NAME BLOCKS: a model with these blocks
makes() {
    printf '{"hidden_size": 16, "max_position_embeddings": 32, "blocks": [%s]}\n' "$2" >"$1.json"
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" train --blocks "$1.json" --out "$1" $small
}
# bases MODEL: the bases of RoPE of its blocks
bases() {
    succeeds "$BOCHNER" info "$1" --json
    sed 's/.*"blocks"//' out | grep -o '"rope_base": [0-9]*' | tr -dc '0-9\n' | tr '\n' ' '
}
# contains TEXT: the text is in out
contains() {
    grep -qF -e "$1" out || complain "'$1' is missing: $(cat out)"
}

# ---- options of a model that exists --------------------------------------------------------------------------------
makes hybrid '{"heads": 2, "attention": "gated-delta", "positions": "none"}, {"heads": 2, "rope_base": 1000000}'
# shellcheck disable=SC2086
succeeds "$BOCHNER" train --init hybrid --rope-base 500000 --out turned $small
succeeds "$BOCHNER" info turned
contains "RoPE base 500000"
contains "positions rope"
makes windows '{"heads": 2, "attention": {"window": 8}, "rope_base": 10000}, {"heads": 2, "rope_base": 1000000}'
# shellcheck disable=SC2086
succeeds "$BOCHNER" train --init windows --rope-base 500000 --out wider $small
succeeds "$BOCHNER" info wider
contains "RoPE base 500000"
contains "RoPE base 10000"
lists='"layers": [{"name": "up", "type": "linear", "width": 24}, {"type": "gelu"}, {"name": "down", "type": "linear", "width": "input"}]'
makes layers "{\"heads\": 2, $lists}, {\"heads\": 2, \"mlp\": \"swiglu\"}"
makes alike "{\"heads\": 2, $lists}"
for model in layers alike; do
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" train --init $model --mlp gelu --out $model-gelu $small
    succeeds "$BOCHNER" info $model-gelu --json
    [ "$(field out mlp)" = gelu ] || complain "$model: the MLP is $(field out mlp)"
    grep -q '"layers": \[{"name"\|"mlp": "layers"' $model-gelu/config.json && complain "$model: layers are still there"
done

# ---- a translator -----------------------------------------------------------------------------------------------------
awk 'BEGIN { for (i = 0; i < 60; i++) print "eins " i "\tone " i }' >pairs.tsv
pairs="--data pairs.tsv --task translate --pack 128 --batch 1 --steps 1 --quiet"
printf '{"num_hidden_layers": 2, "hidden_size": 16, "blocks": [{"heads": 2, "mixer": "lstm"}, {"heads": 2}]}\n' >mixed.json
printf '{"num_hidden_layers": 2, "hidden_size": 16, "blocks": [{"heads": 2, "mixer": "lstm"}, {"heads": 2, "mixer": "gru"}]}\n' >cells.json
for model in mixed cells; do
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" train --blocks $model.json --out $model $pairs
done
# shellcheck disable=SC2086
succeeds "$BOCHNER" train --init mixed --encoder-attention favor --encoder-features 16 --out favored $pairs
succeeds "$BOCHNER" info favored
sed -n '/^Encoder/,/^Context/p' out >encoder
grep -q "layer 0: lstm" encoder || complain "the encoder has no lstm: $(cat out)"
grep -q "layer 1: favor, 16 features" encoder || complain "the encoder has no favor: $(cat out)"
# shellcheck disable=SC2086
fails 1 "--encoder-attention: no layer of the encoder has attention|lstm" \
    "$BOCHNER" train --init cells --encoder-attention favor --out no $pairs

# ---- adapters with another attention: each layer keeps its own factor -----------------------------------------------------
makes scales '{"heads": 2, "attention": {"scale": 0.5}}, {"heads": 2, "attention": {"scale": 0.25}}'
# shellcheck disable=SC2086
succeeds "$BOCHNER" train --init scales --lora 2 --attention favor --features 16 --out adapted $small --steps 2 --checkpoint-every 1
for scale in 0.5 0.25; do
    grep -q "\"scale\": *$scale" adapted/base/config.json || complain "no attention has the factor $scale"
done
succeeds "$BOCHNER" train --resume --out adapted --quiet

# ---- a run without its file of blocks -------------------------------------------------------------------------------------
# shellcheck disable=SC2086
succeeds "$BOCHNER" train --blocks hybrid.json --out stopped $small --steps 2 --checkpoint-every 1
cp stopped/model.safetensors before
mv hybrid.json gone.json
succeeds "$BOCHNER" train --resume --out stopped --quiet
cmp -s before stopped/model.safetensors || complain "resuming without the file of --blocks changed the model"

# ---- reports ----------------------------------------------------------------------------------------------------------------
makes many '{"heads": 2, "mixer": "ssm"}, {"heads": 2}, {"heads": 4}, {"heads": 2, "attention": "rfa-gate"}, {"heads": 2, "mixer": "gru"}, {"heads": 2, "mixer": "lstm"}'
succeeds "$BOCHNER" info many
contains "2 to 4 heads of dimension 4 to 8"
contains "positions rope"
contains "gru in layer 4 and 1 more kind"
grep -q "^State *layer 1: .*; layer 2: .*; layer 3: " out || complain "other states: $(cat out)"
grep -q " 0 bytes" out && complain "a layer has no state: $(cat out)"
succeeds "$BOCHNER" info many --json
kinds=$(sed 's/.*"layer_kinds"//; s/"blocks".*//' out | grep -o '"state_grows"' | wc -l)
[ "$kinds" = 6 ] || complain "$kinds kinds of layers, expected 6"
succeeds "$BOCHNER" train --blocks many.json --out again --data text.txt --batch 2 --steps 1
grep -q "2 to 4 heads" err || complain "train: $(cat err)"
# The fifth kind of layer keeps all keys.
makes late '{"heads": 2, "mixer": "ssm"}, {"heads": 2, "mixer": "conv"}, {"heads": 2, "mixer": "gru"}, {"heads": 2, "mixer": "lstm"}, {"heads": 2}'
succeeds "$BOCHNER" generate late --prompt In --tokens 2 --context 64
grep -q "attention to this many keys" err || complain "no warning of extrapolation: $(cat err)"

# ---- linearization ---------------------------------------------------------------------------------------------------------
makes widths '{"heads": 4}, {"heads": 2}'
fails 1 "the head width, but the head widths of the replaced layers are 4 to 8" \
    "$BOCHNER" linearize widths --attention dark --window 4 --data text.txt --out no
fails 1 "at most 8, found 10" "$BOCHNER" linearize widths --attention hedgehog --features 10 --data text.txt --out no
finish
