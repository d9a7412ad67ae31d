# A model with two kinds of attention, softmax in layer 0 and another kind in the other layers, runs everywhere: eval,
# generate, chat, info, compare, lora, convert and train.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 1200; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
run="--data text.txt --valid-fraction 0.1 --eval-tokens 500 --quiet"
succeeds "$BOCHNER" train $run --out soft --attention softmax --layers 3 --width 16 --heads 2 --context 32 --batch 8 --steps 40
for kind in "dark --features 16" "hybrid --features 16 --window 4"; do
    name=${kind%% *}
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" linearize soft --data text.txt --attention $kind --keep-softmax 0 --transfer-steps 2 --steps 2 \
        --lora 2 --no-timing --quiet --out $name
    # The attention of each kind of layer, as text and as numbers.
    succeeds "$BOCHNER" info $name
    grep -q "^Attention  *$name.*, 16 features.*; softmax in layer 0" out || complain "$name: info: $(cat out)"
    grep -q "^State  *layers 1-2: .* each, fixed size; layer 0: .*, grows with the text" out || complain "$name: info: $(cat out)"
    succeeds "$BOCHNER" info $name --json
    [ "$(field out attention)" = $name ] || complain "$name: attention $(field out attention)"
    [ "$(field out kept_layers)" = 0 ] || complain "$name: kept_layers $(field out kept_layers)"
    [ "$(field out kept_attention)" = softmax ] || complain "$name: kept_attention $(field out kept_attention)"
    # a header of at most 64 bytes per layer and 512 per session is not in the state of the layers
    sed 's/.*"layer_kinds"/"layer_kinds"/' out | tr '{' '\n' | awk -F'[:,]' '/"layers": "1-2"/ { n = 2 } /"layers": "0"/ { n = 1 }
        n { for (i = 1; i < NF; i++) if ($i ~ /state_bytes/) sum += n * $(i + 1); n = 0 } END { print sum }' >sum
    expect "$name: state of the layers" "$(cat sum)" ">" 1000
    expect "$name: state of the layers" "$(cat sum)" "<=" "$(field out state_bytes)"
    expect "$name: state of the layers" "$(cat sum)" ">" "$(($(field out state_bytes) - 1024))"

    # The warning about long contexts names the layers that keep all keys.
    succeeds "$BOCHNER" eval $name --data text.txt --tokens 500 --json
    loss=$(field out loss)
    succeeds "$BOCHNER" eval $name --data text.txt --tokens 500 --context 64
    grep -q "warning: 64 tokens.*: softmax attention to this many keys and such distances (RoPE)" err || complain "$name: $(cat err)"
    succeeds "$BOCHNER" eval $name --data text.txt --tokens 200 --weights int8

    # In two parts, with the saved state in between.
    succeeds "$BOCHNER" generate $name --prompt "the cow" --tokens 20 --greedy --quiet
    head -c 20 out >whole
    succeeds "$BOCHNER" generate $name --prompt "the cow" --tokens 8 --greedy --quiet --save-state here.state
    head -c 8 out >parts
    succeeds "$BOCHNER" generate $name --load-state here.state --tokens 12 --greedy --quiet
    head -c 12 out >>parts
    cmp -s whole parts || complain "$name: '$(cat whole)' is not '$(cat parts)'"
    succeeds "$BOCHNER" generate $name --prompt "the cow" --tokens 30 --quiet
    grep -q "softmax attention to this many keys" err || complain "$name: generate: $(cat err)"
    printf '{%% for m in messages %%}{{ m.content }} {%% endfor %%}' >template.jinja
    for turn in one two; do
        echo "$turn" | "$BOCHNER" chat $name --template template.jinja --tokens 4 --state $name.chat --quiet >out 2>err ||
            complain "$name: chat: $(cat err)"
    done

    # Copies have the same loss.
    succeeds "$BOCHNER" convert $name --out $name-copy
    succeeds "$BOCHNER" lora merge $name/finetune --out $name-merged
    for copy in copy merged; do
        succeeds "$BOCHNER" eval $name-$copy --data text.txt --tokens 500 --json
        [ "$(field out loss)" = "$loss" ] || complain "$name-$copy: loss $(field out loss), expected $loss"
    done

    # Training goes on, with adapters too, and keeps both kinds unless --attention names one.
    succeeds "$BOCHNER" train $run --init $name --steps 2 --out $name-on
    succeeds "$BOCHNER" info $name-on
    grep -q "; softmax in layer 0" out || complain "$name: trained further: $(cat out)"
    succeeds "$BOCHNER" train $run --init $name --lora 2 --steps 2 --out $name-lora
    succeeds "$BOCHNER" eval $name-lora --data text.txt --tokens 100
    succeeds "$BOCHNER" compare $name-on $name-lora
    grep -q "^$name-on  *$name[a-z, ]* and softmax " out || complain "$name: compare: $(cat out)"
    succeeds "$BOCHNER" train $run --init $name --attention rfa --features 8 --steps 2 --out $name-rfa
    succeeds "$BOCHNER" info $name-rfa
    grep -q "^Attention  *rfa, 8 features$" out || complain "$name: one attention: $(cat out)"
    succeeds "$BOCHNER" train $run --init $name --mixer gru --steps 2 --out $name-gru
done

# Models of other tasks have the layers of --init, but not the replaced attention.
printf 'good\tax\nbad\tby\n' >labels.tsv
l="$BOCHNER train --task classify --data labels.tsv --valid-fraction 0 --steps 2 --quiet"
succeeds $l --init dark --out mixed-labels
succeeds "$BOCHNER" info mixed-labels
grep -q "^Attention  *softmax; dark.*, 16 features in layers 1-2$" out || complain "info: $(cat out)"
succeeds $l --init dark --attention dark --features 8 --out labels
succeeds "$BOCHNER" linearize soft --data text.txt --attention dark --features 16 --transfer-steps 1 --steps 1 --lora 2 --no-timing --quiet --out all
succeeds "$BOCHNER" info all
grep -q "^Attention  *dark.*; linearized from softmax$" out || complain "info: $(cat out)"
grep -q "^State " out && complain "one kind of layer: $(cat out)"
succeeds $l --init all --out all-labels
# No layer keeps all keys.
succeeds "$BOCHNER" eval all --data text.txt --tokens 200 --context 64
grep -q "^Context .* the state of dark" err || complain "fixed size: $(cat err)"
finish
