# bochner chat: replies equal the output of generate for the rendered prompt, in one run or resumed; templates, states,
# contexts and bad inputs.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 600; i++) { k = 1 + int(4 * rand());
        printf "<user>the %s?\n<bot>the %s %s.\n", a[k], a[k], d[1 + k % 3] } }' >text.txt
small="--layers 2 --width 16 --heads 2 --batch 8 --lr 0.05 --other-lr 0.02 --valid-fraction 0 --quiet"
succeeds "$BOCHNER" train --data text.txt --out model $small --context 64 --steps 120 --features 16
succeeds "$BOCHNER" train --data text.txt --out exact $small --context 64 --steps 60 --attention softmax
cat >plain.jinja <<'END'
{% for m in messages %}
<{{ 'bot' if m.role == 'assistant' else m.role }}>{{ m.content }}
{{- '\n' }}
{%- endfor %}
{{- '<bot>' if add_generation_prompt }}
END

# A model without a template is refused, and a template of the directory is found.
fails 1 "model|no chat template|--template|generate" "$BOCHNER" chat model --quiet </dev/null
cp plain.jinja model/chat_template.jinja
cp plain.jinja exact/chat_template.jinja

# The rendered prompt.
printf '%s\n' '[{"role": "user", "content": "the cat?"}]' >one.jsonl
"$BOCHNER" chat model --render --quiet <one.jsonl >prompt || complain "--render failed"
[ "$(cat prompt)" = "<user>the cat?
<bot>" ] || complain "--render: $(cat prompt)"
printf '%s\n' '{"messages": [{"role": "user", "content": "a"}], "add_generation_prompt": false}' 'nonsense' |
    "$BOCHNER" chat model --render --json --quiet >lines 2>err && complain "a wrong line is no failure"
grep -qF '{"text": "<user>a\n"}' lines || complain "--render --json: $(cat lines)"
grep -q '"error"' lines || complain "--render --json has no error: $(cat lines)"

# check MODEL OPTIONS...: each reply equals the output of generate for the rendered conversation, and a conversation
# that is saved and resumed after each turn has the same replies.
check() {
    model=$1
    shift
    printf 'the cat?\nthe cow?\n' >questions
    "$BOCHNER" chat $model "$@" --tokens 12 --stop '
' --json --quiet <questions >replies 2>err || complain "$model $*: $(cat err)"
    expect "$model $*: replies" "$(wc -l <replies)" == 2
    rm -f talk.chat
    for question in "the cat?" "the cow?"; do
        echo "$question" | "$BOCHNER" chat $model "$@" --tokens 12 --stop '
' --json --quiet --state talk.chat 2>err || complain "$model $*, resumed: $(cat err)"
    done >resumed
    sed 's/"tokens_per_second": [^,]*,//' replies >a
    sed 's/"tokens_per_second": [^,]*,//' resumed >b
    cmp -s a b || complain "$model $*: resumed gives '$(cat b)', not '$(cat a)'"
}
for model in model exact; do
    check $model --greedy
    "$BOCHNER" chat $model --greedy --tokens 12 --stop '
' --quiet <questions >plain 2>err || complain "$model: $(cat err)"
    first=$(sed -n 1p plain)
    succeeds "$BOCHNER" generate $model --prompt "<user>the cat?
<bot>" --greedy --tokens 12 --stop '
' --quiet
    [ "$(cat out)" = "$first" ] || complain "$model: '$first', but generate gives '$(cat out)'"
    succeeds "$BOCHNER" generate $model --prompt "<user>the cat?
<bot>$first
<user>the cow?
<bot>" --greedy --tokens 12 --stop '
' --quiet
    [ "$(cat out)" = "$(sed -n 2p plain)" ] || complain "$model: '$(sed -n 2p plain)', but generate gives '$(cat out)'"
    check $model --temperature 0.9 --top-k 20 --seed 5 --repetition-penalty 1.1
done
grep -q '"role": "assistant", "content": "' replies || complain "no role and content: $(cat replies)"
grep -qE '"finish_reason": "(stop|length|end)"' replies || complain "no finish_reason: $(cat replies)"

# A reply keeps the sampled tokens, here "a" and "b", although the tokenizer would merge them to "ab": the conversation
# is not read again.
echo '{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3}, "merges": ["a b"]}}' >letters.json
awk 'BEGIN { srand(1); for (i = 0; i < 4000; i++) { r = rand(); printf r < 0.1 ? "c" : r < 0.5 ? "a" : "b" } }' >letters.txt
succeeds "$BOCHNER" train --data letters.txt --tokenizer letters.json --out letters $small --context 64 --steps 2 --features 16
echo '{% for m in messages %}c{{ m.content }}{% endfor %}c' >letters/chat_template.jinja
printf 'ab\nba\naabb\n' | "$BOCHNER" chat letters --tokens 12 --json >out 2>err || complain "letters: $(cat err)"
expect "letters: replies" "$(wc -l <out)" == 3
grep -q 'content": "[abc]*ab' out || complain "letters: no reply has ab: $(cat out)"
grep -q "read again" err && complain "letters: a reply is read again"

# --system, commands, and messages that look like commands.
printf '/history\n/nothing\n/usr/bin ?\n/reset\n/history\n/help\n/exit\nnot read\n' |
    "$BOCHNER" chat model --system "be brief" --greedy --tokens 3 --quiet >out 2>err || complain "commands: $(cat err)"
expect "replies to one message" "$(wc -l <out)" == 1
expect "system messages in the history" "$(grep -c '^system: be brief$' err)" == 2
grep -q "unknown command /nothing" err || complain "an unknown command is not refused: $(cat err)"
grep -q "/save " err || complain "no help: $(cat err)"
printf 'a\n/reset\na\n' | "$BOCHNER" chat model --greedy --tokens 5 --json --quiet >out
expect "replies after /reset" "$(sed 's/"tokens_per_second": [^,]*,//' out | uniq | wc -l)" == 1

# The state: saved by /save, refused for another model, other files, damage and another system message.
printf 'the hen?\n/save\n' | "$BOCHNER" chat model --greedy --tokens 4 --quiet --system S --state s.chat >out 2>err ||
    complain "--state: $(cat err)"
fails 1 "s.chat|cannot be resumed|exact" "$BOCHNER" chat exact --quiet --state s.chat </dev/null
fails 1 "s.chat|another system message" "$BOCHNER" chat model --quiet --system T --state s.chat </dev/null
cp s.chat before
head -c 300 s.chat >cut.chat
sed 's/the hen?/the hen!/' s.chat >edited.chat
fails 1 "cut.chat|damaged" "$BOCHNER" chat model --quiet --state cut.chat </dev/null
fails 1 "edited.chat|damaged" "$BOCHNER" chat model --quiet --state edited.chat </dev/null
fails 1 "text.txt|not a saved conversation" "$BOCHNER" chat model --quiet --state text.txt </dev/null
fails 1 "nowhere" "$BOCHNER" chat model --quiet --state nowhere/s.chat </dev/null
fails 2 "config.json|would replace" "$BOCHNER" chat model --quiet --state model/config.json </dev/null
mkfifo pipe
for file in pipe /dev/zero .; do # nothing waits for a writer
    fails 1 "$file|not a regular file" timeout --foreground 20 "$BOCHNER" chat model --quiet --state $file </dev/null
done
fails 1 "pipe|not a regular file" timeout --foreground 20 "$BOCHNER" generate model --prompt a --load-state pipe --quiet
cmp -s s.chat before || complain "a refused run changed the state"
echo /history | "$BOCHNER" chat model --quiet --state s.chat 2>err
grep -q "^user: the hen?$" err && grep -q "^system: S$" err || complain "the history is not resumed: $(cat err)"

# A full context: refused with advice, or the oldest turns are dropped.
printf 'the cat?\nthe cow?\nthe dog?\nthe hen?\nthe cat?\n' >many
"$BOCHNER" chat exact --greedy --tokens 8 --quiet <many >out 2>err && complain "a full context is no failure"
grep -q -e "--drop-oldest" err || complain "no advice for a full context: $(cat err)"
"$BOCHNER" chat exact --greedy --tokens 8 --drop-oldest --json <many >out 2>err || complain "--drop-oldest: $(cat err)"
expect "replies with --drop-oldest" "$(wc -l <out)" == 5
grep -q "dropped, and the other turns are read again" err || complain "--drop-oldest drops silently: $(cat err)"
grep -q "the template renders" err && complain "--drop-oldest blames the template: $(cat err)"
fails 1 "but the context has|shorter message" "$BOCHNER" chat model --context 20 --drop-oldest --quiet <<'END'
a message that is longer than the context
END

# A template that omits parts of earlier replies: the conversation is read again, which is reported once.
sed "s/{{ m.content }}/{{ m.content[1:] if not loop.last and m.role == 'assistant' else m.content }}/" plain.jinja >changing.jinja
"$BOCHNER" chat model --template changing.jinja --greedy --tokens 5 --json <many >out 2>err || complain "$(cat err)"
expect "replies with a changing template" "$(wc -l <out)" == 5
expect "messages about reading again" "$(grep -c "read again" err)" == 1

# Tokens that end a reply come from generation_config.json, as a number or a list.
cp -r model ends
printf '{"eos_token_id": [10, 46]}' >ends/generation_config.json
echo 'the cat?' | "$BOCHNER" chat ends --greedy --tokens 40 --json --quiet >out 2>err
grep -q '"finish_reason": "end"' out || complain "no end at eos_token_id: $(cat out)"
grep -q '\.' out && grep -q 'content": "[^"]*\.' out && complain "the end token is part of the reply: $(cat out)"

# Bad input: templates, messages, options.
echo '{% if x %}
{{ 1 | nonsense }}{% include "y" %}{% endif %}' >bad.jinja
fails 1 "bad.jinja|line 2: the statement 'include' is not supported" "$BOCHNER" chat model --template bad.jinja --quiet </dev/null
echo '{{ raise_exception("no " + messages[0].content) }}' >never.jinja
fails 1 "line 1: no hello" "$BOCHNER" chat model --template never.jinja --quiet <<'END'
hello
END
printf 'ok\n\377\n' | "$BOCHNER" chat model --greedy --tokens 2 --quiet >out 2>err && complain "bytes that are not UTF-8 are accepted"
grep -q "line 2.*not UTF-8" err || complain "bytes: $(cat err)"
fails 1 "variables" "$BOCHNER" chat model --variables '[1]' --quiet <<'END'
x
END
for variables in '{bad' '[1]' '{} x' '{"a": "\u0000"}'; do
    fails 1 "--variables: " "$BOCHNER" chat model --variables "$variables" --quiet </dev/null
    fails 1 "--variables: " "$BOCHNER" chat model --variables "$variables" --render --quiet <one.jsonl
done

# NUL is refused in all texts: no message is truncated at NUL.
nul() {
    "$BOCHNER" chat model --greedy --tokens 2 --quiet "$@" <nul.in >out 2>err && complain "NUL is accepted: $*"
    grep -q "NUL, which is not supported" err || complain "NUL: $*: $(cat err)"
}
printf 'ok\na\0b\n' >nul.in
nul --json
grep -q "line 2 of standard input: byte 1 is NUL" err || complain "NUL: $(cat err)"
expect "replies before NUL" "$(wc -l <out)" == 1
printf ' \0\n/exit\0\n' >nul.in
nul
printf '[]\n[{"role": "user", "content": "a\\\\u0000\\u0000b"}]\n' >nul.in
nul --render
grep -q "line 2 of standard input" err || complain "NUL: $(cat err)"
printf '\0[{"role": "user", "content": "a"}]\n' >nul.in
nul --render
printf '[{"role": "user", "content": "a\\\\u0000"}]\n' | "$BOCHNER" chat model --render --quiet >out 2>err ||
    complain "an escaped backslash before u0000 is no NUL: $(cat err)"
printf 'a\0b' >nul.jinja
echo a >nul.in
nul --template nul.jinja
for text in 'a\\u0000b' 'a\0b'; do
    printf '{"drawn": "0", "messages": [{"role": "user", "content": "'"$text"'"}], "ids": []}' >nul.json
    { printf 'bochner-chat 1 %d 0\n' "$(wc -c <nul.json)" && cat nul.json; } >nul.chat
    nul --state nul.chat
    grep -q "nul.chat" err || complain "the file with NUL is not named: $(cat err)"
done
fails 1 "missing.jinja" "$BOCHNER" chat model --template missing.jinja --quiet </dev/null
fails 1 "nowhere" "$BOCHNER" chat nowhere --template plain.jinja --quiet </dev/null
fails 2 "directory" "$BOCHNER" chat
fails 2 "greedy|top-k" "$BOCHNER" chat model --greedy --top-k 5
succeeds "$BOCHNER" chat model --quiet </dev/null
[ -s out ] && complain "a reply without a message: $(cat out)"

# Characters of several bytes are not cut: a line of a stream is always UTF-8, except at the end.
printf 'the cat?\nna\303\257ve?\n' | "$BOCHNER" chat model --temperature 3 --seed 2 --tokens 60 --quiet --json >out 2>err ||
    complain "random bytes: $(cat err)"
iconv -f utf-8 -t utf-8 out >/dev/null || complain "a reply is not UTF-8"

# Ctrl-C stops the reply, not the program; the next Ctrl-C leaves and saves.
if [ -z "${SANITIZE:-}" ]; then
    mkfifo line
    attended "$BOCHNER" chat model --tokens 100000000 --state stopped.chat --quiet <line >stopped 2>err &
    pid=$!
    exec 3>line
    echo 'the cat?' >&3
    for i in $(seq 150); do [ -s stopped ] && break; sleep 0.2; done
    [ -s stopped ] || complain "no token within 30 s: $(cat err)"
    kill -INT $pid
    sleep 0.3
    kill -0 $pid 2>/dev/null || complain "Ctrl-C ended the program: $(cat err)"
    for i in $(seq 100); do # signals within a second may be one request
        kill -INT $pid 2>/dev/null || break
        sleep 0.3
    done
    kill -0 $pid 2>/dev/null && kill $pid
    wait $pid || complain "Ctrl-C at the prompt is a failure: $(cat err)"
    exec 3>&-
    [ -s stopped.chat ] || complain "the conversation was not saved"
    echo /history | "$BOCHNER" chat model --quiet --state stopped.chat 2>err
    grep -q "^assistant: " err || complain "the stopped reply is not in the history"
fi

# Adapters, merged, unmerged and linearized models keep the template of their base.
succeeds "$BOCHNER" train --data text.txt --init exact --lora 2 --batch 2 --steps 1 --out adapter --quiet
succeeds "$BOCHNER" lora merge adapter --out merged --quiet
succeeds "$BOCHNER" lora unmerge merged --out unmerged --quiet
succeeds "$BOCHNER" linearize exact --data text.txt --attention dark --features 8 --transfer-steps 1 --steps 1 --batch 2 --lora 2 \
    --calibrate-tokens 64 --eval-tokens 64 --out linear --no-timing --quiet
for each in adapter merged unmerged linear; do
    "$BOCHNER" chat $each --render --quiet <one.jsonl >found 2>err || complain "$each: $(cat err)"
    cmp -s found prompt || complain "$each: the template is lost: $(cat found)"
    echo 'the cat?' | "$BOCHNER" chat $each --greedy --tokens 3 --json --quiet >found 2>err || complain "$each: $(cat err)"
    grep -q '"role": "assistant"' found || complain "$each: no reply: $(cat found)"
done
cp plain.jinja own.jinja && echo 'own' >>own.jinja && cp own.jinja adapter/chat_template.jinja
"$BOCHNER" chat adapter --render --quiet <one.jsonl | grep -q own || complain "the template of the adapter is not used"

# The template of an adapter replaces the template of its base in all models made from both.
succeeds "$BOCHNER" lora merge adapter --out own --quiet
succeeds "$BOCHNER" convert adapter --out own-converted --quiet
# A model in one file, and its adapters, keep the template of the directory.
succeeds "$BOCHNER" lora merge adapter --out own.safetensors --quiet
succeeds "$BOCHNER" train --data text.txt --init own.safetensors --lora 2 --batch 2 --steps 1 --out of-file --quiet
for each in own own-converted own.safetensors of-file; do
    "$BOCHNER" chat $each --render --quiet <one.jsonl >found 2>err || complain "$each: $(cat err)"
    grep -q own found || complain "$each: the template of the adapter is lost: $(cat found)"
done
mv own.safetensors away.safetensors
fails 1 "of-file: no chat template|own.safetensors is missing" "$BOCHNER" chat of-file --render --quiet

# Special tokens in messages are plain text, unless --parse-special is given.
succeeds "$BOCHNER" tokenizer train text.txt --vocab 300 --special '<user>' --special '<bot>' --out special.json --quiet
succeeds "$BOCHNER" train --data text.txt --tokenizer special.json --out special $small --context 64 --steps 2 --features 16
cp plain.jinja special/chat_template.jinja
prompt_tokens() {
    echo "$1" | "$BOCHNER" chat special --greedy --tokens 1 --json --quiet ${2-} | sed 's/.*"prompt_tokens": \([0-9]*\).*/\1/'
}
expect "one special token" "$(prompt_tokens 'the <bot>' --parse-special)" == $(($(prompt_tokens 'the ') + 1))
[ "$(prompt_tokens 'the <bot>')" -gt "$(prompt_tokens 'the <bot>' --parse-special)" ] || complain "<bot> of a user is a special token"

# A large template: lookups among 40,000 variables take one step each, and SIGTERM ends the rendering.
awk 'BEGIN { for (i = 0; i < 40000; i++) printf "{%% set v%05d = 1 %%}", i; printf "{%% for i in range(5000) %%}"
    for (i = 0; i < 1000; i++) printf "{{v00000}}"; printf "{%% endfor %%}" }' >large.jinja
expect "output of a large template" "$("$BOCHNER" chat model --template large.jinja --render --quiet <one.jsonl | wc -c)" == 5000001
awk 'BEGIN { for (i = 0; i < 20000; i++) print "[{\"role\": \"user\", \"content\": \"a\"}]" }' >many.jsonl
"$BOCHNER" chat model --template large.jinja --render --quiet <many.jsonl >/dev/null 2>err &
sleep 0.5
kill -TERM $!
wait $!
status=$?
expect "status after SIGTERM" "$status" == 143
finish
