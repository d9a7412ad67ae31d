# Translators whose encoder, decoder and cross attention are of different kinds: train, eval, generate, info, a start
# from the weights of another kind, and options that do not fit.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/cli/tasks.sh"
numbers 600 1 >numbers.tsv
numbers 60 2 >test.tsv
cut -f1 test.tsv >german.txt
size="--layers 1 --width 32 --pack 512 --batch 2 --vocab 280 --steps 120"
trained translate exact numbers.tsv $size --attention rfa --features 32 --encoder-attention softmax --cross-attention softmax
trained translate linear numbers.tsv $size --attention softmax --encoder-attention rfa-gate --encoder-features 16 \
    --cross-attention rfa --cross-features 8

# parts MODEL DECODER FEATURES ENCODER FEATURES CROSS FEATURES
parts() {
    succeeds "$BOCHNER" info "$1" --json
    found="$(field out attention) $(field out features) $(field out encoder_attention) $(field out encoder_features) $(field out cross_attention) $(field out cross_features)"
    [ "$found" = "$2 $3 $4 $5 $6 $7" ] || complain "$1: parts $found, expected $2 $3 $4 $5 $6 $7"
}
parts exact rfa 32 softmax 0 softmax 0
parts linear softmax 0 rfa-gate 16 rfa 8
succeeds "$BOCHNER" info exact
grep -q 'cross-attention softmax; encoder attention softmax' out || complain "info: $(cat out)"
for model in exact linear; do
    succeeds "$BOCHNER" eval $model --data test.tsv --json
    expect "BLEU of $model" "$(field out bleu)" ">" 40
    "$BOCHNER" generate $model --beam 2 --quiet <german.txt >english || complain "generate $model"
    expect "lines of $model" "$(wc -l <english)" == 60
    succeeds "$BOCHNER" train --resume --out $model --quiet
done

# The state of a hypothesis is fixed only if decoder and cross attention are linear.
trained translate fixed numbers.tsv --layers 1 --width 32 --steps 1 --attention rfa --features 32 --encoder-attention softmax
parts fixed rfa 32 softmax 0 rfa 32
succeeds "$BOCHNER" info exact --json
grown=$(field out state_bytes)
succeeds "$BOCHNER" info fixed --json
expect "state with linear cross attention" "$(field out state_bytes)" "<" "$grown"

# Options of attention apply to each part with a suitable kind.
trained translate tempered numbers.tsv --layers 1 --width 32 --steps 1 --attention rfa --temperature 2 --encoder-attention softmax
[ "$(grep -c '"temperature": 2' tempered/config.json)" = 2 ] || complain "--temperature: $(grep temperature tempered/config.json)"
parts tempered rfa 128 softmax 0 rfa 128

# A start from the weights of another kind: --attention determines all parts, --encoder-attention only the encoder.
succeeds "$BOCHNER" train --task translate --data numbers.tsv --init exact --attention rfa --features 8 --out begun --steps 1 --pack 512 --batch 2
grep -q 'tensors loaded from exact' err || complain "--init: $(cat err)"
parts begun rfa 8 rfa 8 rfa 8
succeeds "$BOCHNER" train --task translate --data numbers.tsv --init exact --encoder-attention rfa --encoder-features 8 --out begun2 --steps 1 --quiet
parts begun2 rfa 32 rfa 8 softmax 0

# ---- refused
refused() { words=$1 && shift && fails 2 "$words" "$BOCHNER" train --data numbers.tsv --out never --steps 1 "$@"; [ -e never ] && complain "never exists: $words"; }
refused "--encoder-attention needs --task translate" --encoder-attention rfa
refused "--encoder-features needs --task translate" --task classify --encoder-features 8
refused "--cross-features needs --task translate" --task match --cross-features 8
refused "--encoder-features needs an attention with random features|softmax" --task translate --attention rfa --encoder-attention softmax --encoder-features 8
refused "--cross-features needs an attention with random features|softmax" --task translate --attention softmax --cross-features 8
refused "--encoder-attention needs --mixer attention|gru" --task translate --mixer gru --encoder-attention rfa
refused "--cross-features has no effect with --cross summary" --task translate --cross summary --cross-features 8
refused "--encoder-attention|expected one of|did you mean softmax" --task translate --encoder-attention sofmax
refused "--map: kind favor|found arccos" --task translate --attention rfa --map arccos --encoder-attention favor
refused "--temperature applies to the kinds rfa, rfa-gate" --task translate --attention softmax --encoder-attention rfa --temperature 2
refused "--encoder-features with --init needs --encoder-attention KIND" --task translate --init exact --encoder-features 8
fails 1 "cross_attention must have no gate" "$BOCHNER" train --task translate --data numbers.tsv --out never --steps 1 --cross-attention rfa-gate
finish
