# bochner generate: streaming, stopping, states.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 1500; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
small="--layers 2 --width 16 --heads 2 --context 32 --batch 8 --steps 150 --lr 0.05 --other-lr 0.02 --valid-fraction 0 --quiet"
succeeds "$BOCHNER" train --data text.txt --out gate $small --features 16
succeeds "$BOCHNER" train --data text.txt --out exact $small --attention softmax

for model in gate exact; do
    succeeds "$BOCHNER" generate $model --prompt "the cat" --tokens 60 --greedy --quiet
    cp out greedy
    expect "$model: bytes of 60 tokens and a line's end" "$(wc -c <greedy)" == 61
    grep -q "the " greedy || complain "$model: learned nothing: $(cat greedy)"
    succeeds "$BOCHNER" generate $model --prompt "the cat" --tokens 60 --greedy --quiet --threads 1
    cmp -s out greedy || complain "$model: other threads, another text"
    succeeds "$BOCHNER" generate $model --prompt "the cat" --tokens 60 --greedy --json
    expect "$model: tokens" "$(field out tokens)" == 60
    expect "$model: tokens of the prompt" "$(field out prompt_tokens)" == 7
    expect "$model: rate" "$(field out tokens_per_second)" ">" 0
    [ "$(field out finish_reason)" = length ] || complain "$model: ended for $(field out finish_reason)"

    # Generation in two parts with a saved state in between gives the same text, with random sampling too.
    for how in --greedy "--temperature 0.9 --top-k 20 --top-p 0.95 --seed 5"; do
        succeeds "$BOCHNER" generate $model --prompt "the cow" --tokens 50 $how --quiet
        head -c 50 out >whole
        succeeds "$BOCHNER" generate $model --prompt "the cow" --tokens 20 $how --quiet --save-state here.state
        head -c 20 out >parts
        succeeds "$BOCHNER" generate $model --load-state here.state --tokens 30 $how --quiet
        head -c 30 out >>parts
        cmp -s whole parts || complain "$model $how: '$(cat whole)' is not '$(cat parts)'"
    done
done

# A state belongs to one model and its weights.
fails 1 "here.state" "$BOCHNER" generate gate --load-state here.state --tokens 3 --quiet
succeeds "$BOCHNER" generate gate --prompt "the cat" --tokens 3 --quiet --save-state gate.state
succeeds "$BOCHNER" train --data text.txt --out more $small --init gate --steps 2
fails 1 "gate.state|other weights" "$BOCHNER" generate more --load-state gate.state --tokens 3 --quiet
fails 1 "gate.state|stored as float32|--weights float32|int8" "$BOCHNER" generate gate --weights int8 --load-state gate.state --tokens 3 --quiet
succeeds "$BOCHNER" generate gate --weights int8 --prompt "the cat" --tokens 3 --quiet --save-state int8.state
fails 1 "int8.state|stored as int8|--weights int8|float32" "$BOCHNER" generate gate --load-state int8.state --tokens 3 --quiet
succeeds "$BOCHNER" generate gate --weights int8 --load-state int8.state --tokens 3 --quiet

# --save-state replaces an existing state or creates a file; it does not replace the model under any name, or any other
# file.
ln -s gate/tokenizer.json link.json
echo "a text of mine" >mine.txt
: >empty.state
cp -r gate before
for file in gate/model.safetensors ./gate/config.json gate/../gate/tokenizer.json link.json; do
    fails 2 "$file|would replace" "$BOCHNER" generate gate --prompt x --tokens 3 --save-state $file
done
fails 1 "mine.txt|not a saved state" "$BOCHNER" generate gate --prompt x --tokens 3 --save-state mine.txt
fails 1 "train.json|not a saved state" "$BOCHNER" generate gate --prompt x --tokens 3 --save-state gate/train.json
diff -r gate before || complain "the model was changed"
[ "$(cat mine.txt)" = "a text of mine" ] || complain "a file that is no state was replaced"
succeeds "$BOCHNER" generate gate --load-state gate.state --tokens 3 --quiet --save-state gate.state
succeeds "$BOCHNER" generate gate --prompt x --tokens 3 --quiet --save-state empty.state
succeeds "$BOCHNER" generate gate --load-state empty.state --tokens 3 --quiet

# Stop words end the text and are not printed, even if they arrive in pieces.
succeeds "$BOCHNER" generate gate --prompt "the cat" --tokens 200 --greedy --quiet --stop ".
" --stop "dog"
grep -q "dog" out && complain "a stop word was printed"
succeeds "$BOCHNER" generate gate --prompt "the cat" --tokens 200 --greedy --stop "the" --json
[ "$(field out finish_reason)" = stop ] || complain "ended for $(field out finish_reason)"
field out text | grep -q "the" && complain "the text has its stop word: $(field out text)"

# The prompt from standard input, and echoed.
printf 'the hen' | "$BOCHNER" generate gate --prompt - --tokens 10 --greedy --quiet >piped
succeeds "$BOCHNER" generate gate --prompt "the hen" --tokens 10 --greedy --quiet
cmp -s out piped || complain "a prompt from a pipe gives another text"
succeeds "$BOCHNER" generate gate --prompt "the hen" --tokens 10 --greedy --quiet --echo
[ "$(head -c 7 out)" = "the hen" ] || complain "no echo: $(cat out)"
succeeds "$BOCHNER" generate gate --prompt "the hen" --tokens 10 --greedy --quiet --echo --json
[ "$(field out text | head -c 14)" = "the hen$(head -c 7 piped)" ] || complain "no echo in JSON: $(field out text)"
succeeds "$BOCHNER" generate gate --tokens 10 --quiet
expect "bytes without a prompt" "$(wc -c <out)" ">" 5
cp out bare
succeeds "$BOCHNER" generate gate --prompt "" --tokens 10 --quiet
cmp -s out bare || complain "an empty prompt is not as none"

# A tokenizer of a few characters: an empty prompt, and characters without a token, which the message names.
echo '{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}}' >letters.json
awk 'BEGIN { srand(1); for (i = 0; i < 4000; i++) printf rand() < 0.5 ? "a" : "b" }' >letters.txt
succeeds "$BOCHNER" train --data letters.txt --tokenizer letters.json --out letters $small --steps 2
fails 1 "the prompt is empty|--prompt" "$BOCHNER" generate letters --prompt "" --tokens 3 --quiet
fails 1 "byte 2|'z'" "$BOCHNER" generate letters --prompt "abz" --tokens 3 --quiet
fails 1 "text.txt|byte 0|'t'" "$BOCHNER" train --data text.txt --tokenizer letters.json --out none $small --steps 2
fails 1 "text.txt|'t'" "$BOCHNER" eval letters --data text.txt
succeeds "$BOCHNER" train --data letters.txt --tokenizer letters.json --init gate --out other --layers 2 --batch 8 \
    --steps 2 --valid-fraction 0
grep -q "differs" err && grep -q "newly initialized" err || complain "no message about another tokenizer: $(cat err)"

# Long prompts and long texts: the state does not grow with features, and softmax attention has enough memory.
awk 'BEGIN { for (i = 0; i < 500; i++) print "the cow sleeps." }' >long.txt
"$BOCHNER" generate gate --prompt - --tokens 5 --json <long.txt >long.json 2>err || complain "a long prompt: $(cat err)"
succeeds "$BOCHNER" generate gate --prompt the --tokens 5 --json
expect "state of a long prompt" "$(field long.json state_bytes)" == "$(field out state_bytes)"
"$BOCHNER" generate exact --prompt - --tokens 5 --json <long.txt >long.json 2>err || complain "a long prompt, exact: $(cat err)"
expect "tokens of a long prompt" "$(field long.json prompt_tokens)" == 8000

fails 2 "directory" "$BOCHNER" generate
fails 2 "greedy|top-k" "$BOCHNER" generate gate --greedy --top-k 5
fails 1 "nowhere" "$BOCHNER" generate nowhere --prompt x
fails 1 "no.state" "$BOCHNER" generate gate --load-state no.state

# A model without a tokenizer generates ids instead of text.
cp -r gate mute
rm mute/tokenizer.json mute/config.json
sed 's/"tokenizer_fingerprint": *"[0-9a-f]*"/"tokenizer_fingerprint": null/' gate/config.json >mute/config.json
fails 1 "mute|tokenizer.json" "$BOCHNER" generate mute --tokens 3
fails 1 "tokenizer" "$BOCHNER" eval mute --data text.txt
finish
