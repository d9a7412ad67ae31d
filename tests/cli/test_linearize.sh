# bochner linearize: reports, results, interruption in every stage, directories that must not change, and bad input.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
words() {
    awk -v list="$1" -v n="$2" 'BEGIN { srand(3); m = split(list, a, ",");
        for (i = 0; i < n; i++) print "the " a[1 + int(m * rand())] " sleeps." }'
}
words cat,dog,hen,cow 1500 >text.txt
succeeds "$BOCHNER" train --data text.txt --out base --attention softmax --layers 3 --width 16 --heads 2 --context 32 --batch 8 \
    --steps 60 --lr 0.05 --other-lr 0.02 --valid-fraction 0.1 --eval-tokens 1000 --quiet
cp -r base kept
small="--attention dark --features 16 --batch 4 --lora 2 --eval-tokens 1000 --calibrate-tokens 256"
steps="--transfer-steps 3 --steps 3"
linearize="$BOCHNER linearize base --data text.txt $small"

# The text report, progress and the directory.
succeeds $linearize $steps --out plain
for word in "Student  *dark, decay gate, 16 features attention; 3 steps of transfer and 3 of finetuning" \
    "Perplexity  teacher [0-9.]*, student [0-9.]* (x [0-9.]*), on " "Agreement   [0-9.]*% of the most likely tokens" \
    "Layers  .*: [0-9.e-]* [0-9.e-]* [0-9.e-]*$" "Model       plain" "Context  *teacher: decoding, state" "^131,072 "; do
    grep -q "$word" out || complain "the report lacks '$word': $(cat out)"
done
for word in "^Teacher     base: " "^Text        .* held out" "^Calibration 6 heads: " "^Transfer " "^Finetuning "; do
    grep -q "$word" err || complain "the progress lacks '$word': $(cat err)"
done
diff -r base kept >/dev/null || complain "the teacher was changed"
for file in config.json model.safetensors tokenizer.json linearize.json adapter/adapter_model.safetensors \
    transfer/metrics.jsonl finetune/metrics.jsonl; do
    [ -s plain/$file ] || complain "plain/$file is missing"
done
# The state of the student does not grow with the context; the state of the teacher does.
awk '/^1,024 |^16,384 |^131,072 / { print $NF, $(NF - 1), $5, $4 }' out >states
[ "$(cut -d' ' -f1,2 states | sort -u | wc -l)" -eq 1 ] || complain "the state of the student grows: $(cat out)"
[ "$(cut -d' ' -f3,4 states | sort -u | wc -l)" -eq 3 ] || complain "the state of the teacher does not grow: $(cat out)"

# The result is a model for all commands; adapters stored separately can be removed.
succeeds "$BOCHNER" generate plain --prompt "the " --tokens 10 --greedy --quiet
succeeds "$BOCHNER" eval plain --data text.txt --last 0.1 --json
loss=$(field out loss)
succeeds "$BOCHNER" info plain
grep -q "dark" out || complain "info does not name the attention: $(cat out)"
succeeds "$BOCHNER" lora unmerge plain --out unmerged
succeeds "$BOCHNER" eval unmerged --data text.txt --last 0.1 --json
cmp -s unmerged/model.safetensors plain/transfer/model.safetensors || complain "unmerging does not give the model after the transfer"

# JSON only on standard output; the same seed gives the same numbers, for any number of threads.
succeeds $linearize $steps --out json --json --threads 1
succeeds "$BOCHNER" linearize base --data text.txt $steps --batch 2 --lora 2 --calibrate-tokens 64 --out usual --no-timing --json --quiet
[ "$(field out attention)" = hybrid ] && [ "$(field out window)" = 64 ] && [ "$(field out features)" = 256 ] || complain "defaults: $(cat out)"
[ "$("$BOCHNER" eval json --data text.txt --last 0.1 --json | awk '/"loss"/')" = "$("$BOCHNER" eval plain --data text.txt --last 0.1 --json | awk '/"loss"/')" ] ||
    complain "the same seed gives another student"
succeeds $linearize $steps --out json2 --json --threads 2 --quiet
if command -v python3 >/dev/null; then
    python3 - <<'P' || complain "the JSON is wrong: $(cat out)"
import json
r = json.load(open("out"))
assert r["out"] == "json2" and r["attention"] == "dark" and r["features"] == 16 and r["gate"] == "decay"
assert r["transfer_steps"] == 3 and r["finetune_steps"] == 3 and r["seconds"] > 0 and r["kept_layers"] == "" and r["window"] == 0
for side in ("teacher", "student"):
    assert r[side]["perplexity"] > 1 and [d["context"] for d in r[side]["decoding"]] == [1024, 16384, 131072]
    assert all(d["tokens_per_second"] > 0 and d["state_bytes"] > 0 for d in r[side]["decoding"])
assert abs(r["perplexity_ratio"] - r["student"]["perplexity"] / r["teacher"]["perplexity"]) < 1e-9
assert 0 < r["greedy_agreement"] <= 1 and r["divergence"] >= 0 and len(r["layer_errors"]) == 3
P
fi
cmp -s json/model.safetensors json2/model.safetensors || complain "another number of threads gives another student"

# Options of the result.
succeeds $linearize $steps --out kept-layers --keep-softmax 0,2 --no-timing --json --quiet
[ "$(field out kept_layers)" = "0,2" ] && grep -q '"layer_errors": \[null, [0-9.e-]*, null\]' out || complain "kept layers: $(cat out)"
succeeds "$BOCHNER" generate kept-layers --prompt "the " --tokens 10 --greedy --quiet
succeeds $linearize $steps --out none --keep-softmax none --no-timing --quiet
cmp -s none/model.safetensors plain/model.safetensors || complain "--keep-softmax none is not the default of a model without windows"
succeeds $linearize $steps --out window --window 8 --no-timing --json --quiet
[ "$(field out attention)" = hybrid ] && [ "$(field out window)" = 8 ] && [ "$(field out gate)" = decay ] || complain "window: $(cat out)"
succeeds $linearize $steps --out both-gates --window 8 --gate decay --sparsity 1 --no-timing --json --quiet
[ "$(field out attention)" = hybrid ] && [ "$(field out gate)" = decay ] || complain "window and gate: $(cat out)"
succeeds $linearize $steps --out gate --gate none --no-timing --json --quiet
[ "$(field out gate)" = none ] || complain "gate: $(cat out)"
succeeds $linearize $steps --out merged --merge --no-timing --quiet
[ -e merged/adapter ] && complain "--merge keeps the adapters"
cmp -s merged/model.safetensors plain/model.safetensors || complain "--merge gives another model"
succeeds $linearize --transfer-steps 3 --no-finetune --out transferred --no-timing --json --quiet
[ "$(field out finetune_steps)" = 0 ] && [ ! -e transferred/adapter ] && [ ! -e transferred/finetune ] || complain "--no-finetune: $(cat out)"
cmp -s transferred/model.safetensors plain/transfer/model.safetensors || complain "--no-finetune is not the model after the transfer"
succeeds $linearize --no-transfer --steps 3 --out finetuned --no-timing --json --quiet
[ "$(field out transfer_steps)" = 0 ] && [ "$(field out finetune_steps)" = 3 ] || complain "--no-transfer: $(cat out)"
succeeds $linearize --no-transfer --no-finetune --out calibrated --no-timing --json --quiet
expect "calibration alone" "$(field out perplexity_ratio)" ">" 0
succeeds $linearize --minutes 0.005 --no-transfer --out minutes --no-timing --json --quiet
expect "all minutes for finetuning" "$(field out finetune_steps)" ">" 0
succeeds $linearize $steps --out unheld --valid-fraction 0 --no-timing --json --quiet
grep -q perplexity out && complain "a perplexity without held-out text: $(cat out)"
succeeds $linearize $steps --out context --context 8 --no-timing --quiet
succeeds "$BOCHNER" info context
grep -q "^Context  *32 tokens" out || complain "--context changes the model: $(cat out)"

# Text written by the teacher, alone and with data.
succeeds "$BOCHNER" linearize base --teacher-text 1500 $small $steps --out written --no-timing --json --quiet
[ -s written/teacher.txt ] || complain "no text of the teacher"
cp written/teacher.txt before
succeeds "$BOCHNER" linearize --resume --out written --json --quiet
cmp -s written/teacher.txt before || complain "a resumed call writes another text"
succeeds $linearize $steps --teacher-text 500 --out both --no-timing --quiet

# A second call in the directory is refused and changes nothing; --resume repeats the report.
find plain -type f | sort | xargs cksum >before
fails 1 "plain already holds|--resume" $linearize $steps --out plain --attention rfa --quiet
fails 1 "base already holds a model" $linearize $steps --out base --quiet
fails 1 "cannot be resumed with a different attention" "$BOCHNER" linearize --resume --out plain --attention rfa --quiet
fails 1 "cannot be resumed with a different batch" "$BOCHNER" linearize --resume --out plain --batch 5 --quiet
find plain -type f | sort | xargs cksum >after
cmp -s before after || complain "a refused call changed the directory"
diff -r base kept >/dev/null || complain "the teacher was changed"
mkdir elsewhere
(cd elsewhere && "$BOCHNER" linearize --resume --out ../plain --quiet --no-timing) >out 2>err || complain "resuming elsewhere: $(cat err)"
grep -q "3 steps of transfer and 3 of finetuning" out || complain "a resumed call forgets its steps: $(cat out)"
cmp -s plain/model.safetensors none/model.safetensors || complain "resuming a complete call changes the model"

# interrupt NAME FILE: Ctrl-C as soon as the file exists; then --resume gives the same bits.
long="--transfer-steps 40 --steps 40 --no-timing"
succeeds $linearize $long --out whole --quiet
interrupt() {
    attended $linearize $long --out "$1" >out 2>err &
    job=$!
    tries=0
    while [ ! -e "$2" ] && [ $tries -lt 400 ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
    kill -INT $job 2>/dev/null
    wait $job
    status=$?
    [ $status -eq 0 ] && { echo "$1 ended before it could be stopped" >&2; return; }
    [ $status -eq 130 ] || complain "$1: exit status $status after Ctrl-C: $(tail -c 300 err)"
    grep -q "stopped; to continue: bochner linearize --resume --out $1" err || complain "$1: no message: $(tail -c 300 err)"
    [ -s out ] && complain "$1: printed results though it was stopped"
    [ -e "$1/model.safetensors" ] && complain "$1: there is a model already"
    succeeds "$BOCHNER" linearize --resume --out "$1" --quiet
    cmp -s whole/model.safetensors "$1/model.safetensors" || complain "$1: another model after --resume"
}
interrupt at-start at-start/linearize.json
interrupt in-transfer in-transfer/transfer/metrics.jsonl
interrupt in-finetune in-finetune/finetune/metrics.jsonl

# kill -9 in the middle.
"$BOCHNER" linearize base --data text.txt $small $long --out killed --quiet >out 2>err &
job=$!
tries=0
while [ ! -e killed/finetune/metrics.jsonl ] && [ $tries -lt 400 ]; do
    sleep 0.02
    tries=$((tries + 1))
done
kill -9 $job 2>/dev/null
wait $job 2>/dev/null
succeeds "$BOCHNER" linearize --resume --out killed --quiet
cmp -s whole/model.safetensors killed/model.safetensors || complain "another model after kill -9"

# Usage errors.
fails 2 "--out" "$BOCHNER" linearize base --data text.txt
fails 2 "no model" "$BOCHNER" linearize --data text.txt --out never
fails 2 "--data FILE|--teacher-text" "$BOCHNER" linearize base --out never
fails 2 "there is no directory nowhere" "$BOCHNER" linearize --resume --out nowhere
fails 2 "--minutes or steps" $linearize --minutes 1 --steps 3 --out never
fails 2 "--no-transfer or --transfer-steps" $linearize --no-transfer --transfer-steps 3 --out never
fails 2 "--no-finetune or --steps" $linearize --no-finetune --steps 3 --out never
fails 2 "--attention" $linearize --attention soft --out never
fails 2 "--gate" $linearize --gate half --out never
fails 2 "--share" $linearize --share 2 --out never
fails 2 "--features" $linearize --features 0 --out never

# Bad input: nothing is written.
fails 1 "linearized already" "$BOCHNER" linearize plain --data text.txt $small $steps --out never
succeeds "$BOCHNER" train --data text.txt --out rfa --attention rfa --layers 1 --width 8 --heads 1 --features 4 --context 8 --batch 2 \
    --steps 1 --valid-fraction 0 --quiet
fails 1 "rfa attention|already has a fixed size" "$BOCHNER" linearize rfa --data text.txt $small $steps --out never
printf 'good\tax\nbad\tby\ngood\tbbx\nbad\taay\n' >labels.tsv
succeeds "$BOCHNER" train --task classify --data labels.tsv --attention softmax --layers 1 --width 8 --heads 1 --out labels --steps 1 \
    --valid-fraction 0 --quiet
fails 1 "requires a language model" "$BOCHNER" linearize labels --data text.txt $small $steps --out never
"$BOCHNER" linearize rfa --teacher-text 100000000 $small $steps --out never >out 2>err # refused before the text is written
grep -q "already has a fixed size" err || complain "a model that cannot be linearized: $(cat err)"
fails 1 "nomodel" "$BOCHNER" linearize nomodel --data text.txt $small $steps --out never
fails 1 "missing.txt" "$BOCHNER" linearize base --data missing.txt $small $steps --out never
mkdir directory
fails 1 "directory" "$BOCHNER" linearize base --data directory $small $steps --out never
head -c 30 text.txt >short.txt
fails 1 "training text has|expected at least 33" "$BOCHNER" linearize base --data short.txt $small $steps --out never
head -c 300 text.txt >short.txt
fails 1 "validation text has 30 tokens|expected at least 32" "$BOCHNER" linearize base --data short.txt $small $steps --out never
: >empty.txt
fails 1 "empty" "$BOCHNER" linearize base --data empty.txt $small $steps --out never
fails 1 "rank 17|expected at most 16" $linearize $steps --lora 17 --out never
fails 1 "x_proj" $linearize $steps --lora-targets x_proj --out never
fails 1 "expected at most 32" $linearize $steps --context 64 --out never
fails 1 "has no effect with --attention softmax" $linearize $steps --attention softmax --window 8 --out never
fails 1 "without a window has no state of fixed size" "$BOCHNER" linearize base --data text.txt $steps --attention softmax --out never
fails 1 "without a window has no state of fixed size" "$BOCHNER" linearize base --data text.txt $steps --attention power --out never
fails 1 "--window needs" $linearize $steps --attention rfa --window 8 --out never
fails 1 "an even number|found 15" $linearize $steps --attention hedgehog --features 15 --out never
fails 1 "at most 8, found 9" $linearize $steps --attention t2r --features 9 --out never
fails 1 "exactly 8 features" $linearize $steps --attention linear --features 9 --out never
fails 1 "requires gate none" "$BOCHNER" linearize base --data text.txt $steps --attention power --window 8 --gate decay --out never
fails 1 "must be below 3" $linearize $steps --keep-softmax 3 --out never
fails 1 "must list numbers and ranges" $linearize $steps --keep-softmax last --out never
fails 1 "at least one of 3 layers" $linearize $steps --keep-softmax 0-2 --out never
fails 1 "cannot be created" $linearize $steps --out nowhere/never
fails 1 "text.txt" $linearize $steps --out text.txt
[ -e never ] && complain "something was written: $(find never)"

# A full disk.
mkdir disk
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=300k none disk 2>/dev/null; then
    fails 1 "No space left" $linearize $long --out disk/linear --quiet
    mount -o remount,size=64m disk
    succeeds "$BOCHNER" linearize --resume --out disk/linear --quiet
    cmp -s whole/model.safetensors disk/linear/model.safetensors || complain "another model after a full disk"
    umount disk
fi
finish
