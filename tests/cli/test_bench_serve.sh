# bench serve: every part with a tiny model, its metrics, other servers by address, the server is stopped, bad options.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
"$BOCHNER" serve --help >/dev/null 2>&1 || { echo "skipped: this program has no server" && exit 77; }

yes 'the quick brown fox jumps over the lazy dog' | head -n 200 >text
succeeds "$BOCHNER" train --data text --out model --attention rfa --layers 1 --width 32 --heads 2 --context 32 --steps 1 --batch 1

# metric NAME: the value of a metric.
metric() {
    tr '{' '\n' <out | awk -v name="\"name\": \"$1\"," 'index($0, name) == 1 {
        v = substr($0, index($0, "\"value\": ") + 9); sub(/,.*/, "", v); print v; exit }'
}
# detail NAME TEXT: the detail of a metric contains the text.
detail() {
    tr '{' '\n' <out | grep -F "\"name\": \"$1\"," | grep -qF -e "$2" || complain "$1: the detail lacks '$2': $(cat out)"
}
model=model-$$ # a name by which the servers of this test are found
mv model $model

serves() { pgrep -f "serve $model --port" >/dev/null; }
if [ "$(head -c 2 "$BOCHNER")" != "#!" ]; then # under an emulator a program cannot start itself
    succeeds "$BOCHNER" bench serve $model --clients 1,3 --requests 2 --prompt-tokens 20 --tokens 8 --long 300 --conversations 20 --threads 1 \
        --slots 4 --json
    for clients in "1 client" "3 clients"; do
        expect "$clients, rate" "$(metric "$clients, rate")" '>' 0
        for what in "time to first token" "time between tokens"; do
            expect "$clients, $what" "$(metric "$clients, $what, median")" '>=' 0
            expect "$clients, $what" "$(metric "$clients, $what, 99th percentile")" '>=' "$(metric "$clients, $what, median")"
        done
    done
    detail "3 clients, rate" "6 requests: prompts of 20 tokens, 8 tokens generated"
    detail "3 clients, time to first token, median" "of 6 requests"
    detail "3 clients, time between tokens, median" "pauses"
    one=$(metric "1 client, rate") three=$(metric "3 clients, rate")
    expect "the ratio" "$(awk -v r="$(metric "3 clients, rate / 1 client")" -v a="$three" -v b="$one" 'BEGIN { d = r * b / a - 1; print d < 0 ? -d : d }')" '<' 1e-6
    grep -q "1 clients\|1 client, rate / 1" out && complain "the ratio of one client: $(cat out)"
    detail "repeated prompt, time to first token, first" "300 tokens"
    expect "the first time" "$(metric "repeated prompt, time to first token, first")" '>' 0
    expect "the time again" "$(metric "repeated prompt, time to first token, again")" '>' 0
    expect "a decoding step" "$(metric "repeated prompt, time between tokens")" '>=' 0
    expect "size of the state" "$(metric "idle conversation, state")" '>' 1
    [ -n "$(metric "idle conversation, memory of the server")" ] || complain "no memory of idle conversations: $(cat out)"
    serves && complain "the server still runs"

    # One part, in words, and with prompts of words in conversations.
    succeeds "$BOCHNER" bench serve $model --only clients --clients 2 --requests 1 --prompt-tokens 4 --tokens 4 --chat --weights int8 --threads 1
    [ "$(grep -c . out)" = 5 ] || complain "two clients are five metrics: $(cat out)"
    grep -q "^2 clients, rate  .* tokens/s .*4 tokens generated" out || complain "no rate: $(cat out)"
    fails 1 "did not start|nowhere" "$BOCHNER" bench serve nowhere

    # The server ends with a benchmark that is interrupted or killed.
    for signal in INT KILL; do
        attended "$BOCHNER" bench serve $model --requests 100000 --threads 1 >out 2>err &
        bench=$!
        for _ in $(seq 100); do serves && break || sleep 0.1; done
        kill -$signal $bench
        wait $bench 2>/dev/null
        status=$?
        [ $signal = KILL ] || [ $status = 130 ] || complain "an interrupted benchmark has the exit status $status: $(cat err)"
        for _ in $(seq 50); do serves && sleep 0.1 || break; done
        serves && complain "the server still runs after SIG$signal"
    done
fi

# A running server.
"$BOCHNER" serve $model --port 0 --threads 1 >address 2>&1 &
server=$!
for _ in $(seq 100); do grep -q 'http://[^ ]*:[0-9]' address && break || sleep 0.1; done
url=$(grep -o 'http://[0-9.:]*' address | head -n 1)
succeeds "$BOCHNER" bench serve --url "$url/v1/" --clients 2 --requests 1 --prompt-tokens 8 --tokens 4 --long 40 --prompt-text
grep -q "idle: left out" err || complain "no note on the part idle: $(cat err)"
grep -q "^repeated prompt, time to first token, again" out || complain "no repeated prompt: $(cat out)"
succeeds "$BOCHNER" bench serve --url "$url" --pid $server --only idle --prompt-tokens 8 --conversations 3
grep -q "^idle conversation, state .*as the server reports it" out || complain "no idle conversations: $(cat out)"
kill -0 $server 2>/dev/null || complain "a server that was not started by the benchmark was stopped"
kill $server
wait $server
fails 1 "refused" "$BOCHNER" bench serve --url "$url"

fails 1 "an address such as" "$BOCHNER" bench serve --url localhost:80
fails 2 "the directory of a model or --url" "$BOCHNER" bench serve
fails 2 "the directory of a model or --url" "$BOCHNER" bench serve $model --url http://127.0.0.1:1
fails 2 "one argument|again" "$BOCHNER" bench serve $model again
fails 2 "--pid" "$BOCHNER" bench serve $model --pid 1
fails 2 "no part 'client'|did you mean clients" "$BOCHNER" bench serve $model --only client
fails 2 "--clients: expected|8,1" "$BOCHNER" bench serve $model --clients 8,1
finish
