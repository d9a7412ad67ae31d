# A tokenizer from text to ids and back, its statistics, JSON lines and gzip, and usage errors.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("the quick brown fox jumps over a lazy dog and naïve cafés — 東京 don'"'"'t", w, " ");
    for (i = 0; i < 20000; i++) printf "%s%s", w[1 + int(13 * rand() * rand())], i % 17 ? " " : ".\n" }' >text.txt

succeeds "$BOCHNER" tokenizer train text.txt --vocab 300 --out tokenizer.json
grep -q "Vocabulary  300 tokens: 256 bytes, 43 merges, 1 special" out || complain "the report: $(cat out)"
grep -q '"<|endoftext|>": 0' tokenizer.json || complain "no special token in the file"
succeeds "$BOCHNER" tokenizer train text.txt --vocab 300 --out again.json --threads 1 --json
cmp -s tokenizer.json again.json || complain "the number of threads changes the tokenizer"
[ "$(field out vocab)" = 300 ] || complain "--json: $(cat out)"
expect "bytes a token" "$(awk "BEGIN { print $(field out bytes) / $(field out tokens) }")" '>' 3

# Text is restored byte for byte, for any bytes; a JSON list of ids is accepted too.
"$BOCHNER" tokenizer encode tokenizer.json <text.txt >ids && "$BOCHNER" tokenizer decode tokenizer.json <ids | cmp - text.txt ||
    complain "text did not come back"
head -c 5000 "$BOCHNER" >binary
"$BOCHNER" tokenizer encode tokenizer.json --json <binary >ids.json && "$BOCHNER" tokenizer decode tokenizer.json <ids.json |
    cmp - binary || complain "bytes did not come back"
printf 'the the' | "$BOCHNER" tokenizer encode tokenizer.json --json >out
grep -qE '^  "ids": \[[0-9]+, [0-9]+\]$' out || complain "the list: $(cat out)"
printf 'a<|endoftext|>' | "$BOCHNER" tokenizer encode tokenizer.json >out
[ "$(awk '{ print NF, $NF }' out)" = "2 0" ] || complain "the special token: $(cat out)"
printf 'a<|endoftext|>' | "$BOCHNER" tokenizer encode tokenizer.json --plain >out
[ "$(awk '{ print (NF > 5) }' out)" = 1 ] || complain "--plain: $(cat out)"
[ -z "$("$BOCHNER" tokenizer encode tokenizer.json </dev/null)" ] || complain "nothing has ids"
mkdir model && cp tokenizer.json model
echo 'over a dog' | "$BOCHNER" tokenizer encode model | "$BOCHNER" tokenizer decode model --json >out
[ "$(field out text)" = 'over a dog\n' ] || complain "decode --json: $(cat out)"

# The reference tokenizer and its first case.
printf ' leading and trailing ' | "$BOCHNER" tokenizer encode "$BOCHNER_SOURCE/tests/data/gpt2-tiny" >out
[ "$(cat out)" = "980 341 299 297 257 359 418 299 221" ] || complain "the reference's ids: $(cat out)"

# The template is added unless --no-template is given; decode omits it with --skip-special. JSON lines, with NUL.
cat >framed.json <<'EOF'
{"added_tokens": [{"id": 0, "content": "<s>", "special": true}], "decoder": {"type": "Fuse"},
 "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
   "special_tokens": {"<s>": {"ids": [0]}}},
 "model": {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "b": 2}, "merges": []}}
EOF
[ "$(printf 'ab' | "$BOCHNER" tokenizer encode framed.json | tee ids)" = "0 1 2" ] || complain "no template: $(cat ids)"
[ "$(printf 'ab' | "$BOCHNER" tokenizer encode framed.json --no-template)" = "1 2" ] || complain "--no-template"
[ "$("$BOCHNER" tokenizer decode framed.json <ids)" = '<s>ab' ] || complain "decoded without the template"
[ "$("$BOCHNER" tokenizer decode framed.json --skip-special <ids)" = ab ] || complain "--skip-special"
printf '"the a\\u0000\\ud83d\\ude00"\n{"text": "dog"}\n""\n' | "$BOCHNER" tokenizer encode tokenizer.json --lines >ids.jsonl
[ "$(wc -l <ids.jsonl)" = 3 ] && grep -qx '{"ids": \[\]}' ids.jsonl || complain "lines of ids: $(cat ids.jsonl)"
"$BOCHNER" tokenizer decode tokenizer.json --lines <ids.jsonl >out
printf '{"text": "the a\\u0000😀"}\n{"text": "dog"}\n{"text": ""}\n' | cmp - out || complain "lines of text: $(cat out)"
fails 1 "standard input, line 1|JSON string" sh -c 'echo b | "$BOCHNER" tokenizer encode tokenizer.json --lines'

# JSON lines and gzip train the same tokenizer as text.
awk '{ gsub(/"/, "\\\""); printf "%s%s", (NR > 1) ? "\\n" : "{\"text\": \"", $0 } END { print "\"}" }' text.txt >text.jsonl
gzip -k text.txt
for file in text.jsonl text.txt.gz; do
    succeeds "$BOCHNER" tokenizer train $file --vocab 300 --out other.json
    cmp -s tokenizer.json other.json || complain "$file teaches something else"
done
succeeds "$BOCHNER" tokenizer train text.txt --vocab 290 --no-special --pattern '[^\n]+' --min-frequency 5 --out other.json
grep -q '"Regex"' other.json || complain "the pattern is not in the file"
succeeds "$BOCHNER" tokenizer train text.txt --vocab 60000 --out other.json
grep -q "train on more text" err || complain "a vocabulary that was not filled: $(cat err)"

# Usage errors and invalid files.
fails 2 "train, encode or decode" "$BOCHNER" tokenizer
fails 2 "did you mean encode" "$BOCHNER" tokenizer encod tokenizer.json
fails 2 "give one or more files" "$BOCHNER" tokenizer train --out x.json
fails 2 "--out" "$BOCHNER" tokenizer train text.txt
fails 2 "would replace" "$BOCHNER" tokenizer train text.txt --out text.txt
fails 2 "--vocab|256" "$BOCHNER" tokenizer train text.txt --vocab 12 --out x.json
fails 2 "tokenizer.json or a model directory" "$BOCHNER" tokenizer encode
fails 2 "standard input" "$BOCHNER" tokenizer encode tokenizer.json text.txt
fails 1 "nowhere.txt" "$BOCHNER" tokenizer train nowhere.txt --out x.json
: >empty.txt
fails 1 "empty.txt|no text" "$BOCHNER" tokenizer train empty.txt --out x.json
echo '{"body": "x"}' >bad.jsonl
fails 1 "bad.jsonl, line 1|text" "$BOCHNER" tokenizer train bad.jsonl --out x.json
fails 1 "regular expression|(" "$BOCHNER" tokenizer train text.txt --pattern '(' --out x.json
[ -e x.json ] && complain "a failed command left a file"
echo '{}' >empty.json
fails 1 "empty.json|model" "$BOCHNER" tokenizer encode empty.json
mkdir nothing
fails 1 "neither" "$BOCHNER" tokenizer encode nothing
echo "1 2 300" >ids
fails 1 "word 3|300|299" sh -c '"$BOCHNER" tokenizer decode tokenizer.json <ids'
echo "1 two" >ids
fails 1 "word 2|two" sh -c '"$BOCHNER" tokenizer decode tokenizer.json <ids'
echo "1 -2" >ids
fails 1 "word 2|-2" sh -c '"$BOCHNER" tokenizer decode tokenizer.json <ids'
finish
