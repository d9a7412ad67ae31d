# bochner train --task: classification, pairs and translation are trained from lines; runs resume; errors in the lines
# are reported with file and line, and no files remain.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); for (i = 0; i < 200; i++) { good = rand() < 0.5; n = 2 + int(6 * rand()); s = ""
    for (k = 0; k < n; k++) s = s substr("abcdef", 1 + int(6 * rand()), 1)
    print (good ? "good" : "bad") "\t" s (good ? "x" : "y") } }' >labels.tsv
awk 'BEGIN { srand(4); for (i = 0; i < 200; i++) { a = int(2 * rand()); b = int(2 * rand())
    print (a == b ? "same" : "other") "\t" (a ? "aaa" : "bbbb") "\t" (b ? "aa" : "bbb") } }' >match.tsv
awk 'BEGIN { srand(5); for (i = 0; i < 200; i++) { n = 1 + int(3 * rand()); s = ""; t = ""
    for (k = 0; k < n; k++) { c = 1 + int(3 * rand()); s = s substr("abc", c, 1); t = t substr("ABC", c, 1) }
    print s "\t" t } }' >translate.tsv
small="--layers 1 --width 16 --heads 2 --features 16 --batch 2 --pack 64 --optim adamw --lr 0.02 --threads 2"

# The first use: the data is described, the model learns, and the directory contains a model.
succeeds "$BOCHNER" train --task classify --data labels.tsv --out labels $small --steps 60 --eval-every 30 --json
for words in "180 examples for training, 20 for validation" "Classes     bad" "longest text" "packs of 64 tokens" "% full" "Step     60/60"; do
    grep -q -- "$words" err || complain "the notes lack '$words': $(cat err)"
done
expect "accuracy" "$(field out valid_accuracy)" ">" 0.9
expect "classes" "$(field out classes)" == 2
expect "test examples" "$(field out test_examples)" == 20
for file in config.json model.safetensors tokenizer.json metrics.jsonl train.json best/model.safetensors; do
    [ -s "labels/$file" ] || complain "labels/$file is missing"
done
grep -q '"valid_accuracy"' labels/metrics.jsonl || complain "metrics.jsonl has no accuracy: $(tail -1 labels/metrics.jsonl)"
succeeds "$BOCHNER" train --task match --data match.tsv --out match $small --steps 60 --pooling max
grep -q "accuracy .*%" out || complain "the final report has no accuracy: $(cat out)"
grep -q "^Next: bochner predict match/best" err || complain "the next command is not printed: $(cat err)"
succeeds "$BOCHNER" train --task translate --data translate.tsv --out translate $small --encoder-layers 2 --steps 60 --smoothing 0
grep -q "perplexity" out || complain "the final report has no perplexity: $(cat out)"
grep -q "^Next: bochner generate translate/best" err || complain "the next command is not printed: $(cat err)"
succeeds "$BOCHNER" train --task translate --data translate.tsv --out summary --layers 1 --width 16 --heads 2 --batch 2 --mixer gru --cross summary --steps 3 --vocab 300 --quiet

# One thread and two threads give the same bits; a run that is stopped resumes to the same bits.
succeeds "$BOCHNER" train --task classify --data labels.tsv --out again $small --steps 60 --eval-every 30 --threads 1 --quiet
cmp -s labels/model.safetensors again/model.safetensors || complain "another number of threads gives another model"
succeeds "$BOCHNER" train --resume --out labels --quiet
cmp -s labels/model.safetensors again/model.safetensors || complain "resuming a run that is done changes it"
head -100 labels.tsv >other.tsv
fails 1 "texts" "$BOCHNER" train --resume --out labels --data other.tsv --quiet
fails 1 "pack|expected 64|found 80" "$BOCHNER" train --resume --out labels --pack 80 --quiet
fails 1 "different pooling|max" "$BOCHNER" train --resume --out labels --pooling max --quiet
sed 's/^good/fine/' labels.tsv >renamed.tsv
fails 1 "different texts" "$BOCHNER" train --resume --out labels --data renamed.tsv --quiet

# Ridge attention without a causal mask, every text one pool: the loss falls, for any number of threads; --forward makes
# it causal. A translator has it in the encoder, in the decoder and between them.
plain="--layers 1 --width 16 --heads 2 --batch 2 --pack 64 --optim adamw --lr 0.02 --attention ridge"
for threads in 1 2; do
    succeeds "$BOCHNER" train --task classify --data labels.tsv --out ridge$threads $plain --steps 60 --eval-every 20 --threads $threads --json
    expect "accuracy of ridge attention" "$(field out valid_accuracy)" ">" 0.9
done
cmp -s ridge1/model.safetensors ridge2/model.safetensors || complain "another number of threads gives another model of ridge attention"
sed -n 's/.*"steps": 60, "loss": \([0-9.e+-]*\).*/\1/p' ridge1/metrics.jsonl >losses
expect "the loss of ridge attention" "$(tail -n 1 losses)" "<" "$(awk 'NR == 1 { print $1 / 2 }' losses)"
succeeds "$BOCHNER" eval ridge1 --data labels.tsv
succeeds "$BOCHNER" train --task classify --data labels.tsv --out ridge-forward $plain --steps 2 --forward --quiet
cmp -s ridge1/config.json ridge-forward/config.json && complain "--forward changes nothing"
succeeds "$BOCHNER" train --task translate --data translate.tsv --out ridge-translate $plain --steps 20 --cross-attention ridge
succeeds "$BOCHNER" generate ridge-translate --prompt abc --quiet
fails 1 "no gate" "$BOCHNER" train --task translate --data translate.tsv --out no $plain --cross-attention gated-ridge

# Standard input and gzip; a test file; longer texts are truncated and counted.
succeeds "$BOCHNER" train --task classify --data - --out piped $small --steps 3 --quiet <labels.tsv
succeeds "$BOCHNER" train --task classify --data labels.tsv --valid other.tsv --out valid $small --steps 3 --context 4
grep -q "200 examples for training, 100 for validation" err || complain "--valid: $(cat err)"
grep -q "longer texts are truncated" err || complain "no message about truncated texts: $(cat err)"

# Truncated texts can be read completely with a larger --context, except with learned positions.
succeeds "$BOCHNER" eval valid --data other.tsv
grep -q "texts to 4 tokens (--context N changes the limit)" err || complain "eval of texts that are cut: $(cat err)"
succeeds "$BOCHNER" train --task classify --data labels.tsv --out learned $small --steps 3 --context 4 --positions learned --quiet
succeeds "$BOCHNER" eval learned --data other.tsv
grep -q "texts to 4 tokens (the limit of the model's learned positions)" err || complain "learned positions: $(cat err)"

# A model with a causal mask has a state and reports its size.
succeeds "$BOCHNER" train --task classify --data labels.tsv --out forward $small --steps 3 --forward --json
expect "state_bytes of --forward" "$(field out state_bytes)" '>' 0
grep -q "state per sequence" err || complain "the plan does not show the state: $(cat err)"

# Initial weights from another model: a language model, or the same task with its classes.
cut -f2 labels.tsv >text.txt
succeeds "$BOCHNER" train --data text.txt --out language --layers 1 --width 16 --heads 2 --features 16 --context 16 --attention rfa --batch 2 --steps 3 --quiet
succeeds "$BOCHNER" train --task classify --data labels.tsv --init language --out begun --batch 2 --pack 64 --steps 3
grep -q "tensors loaded from language" err || complain "--init: $(cat err)"
succeeds "$BOCHNER" train --task classify --data labels.tsv --init labels --out further --batch 2 --pack 64 --steps 3 --quiet
fails 1 "labels holds a model that classifies texts|give --task classify" "$BOCHNER" train --data text.txt --init labels --out no --steps 3
fails 1 "labels holds a model that classifies texts|give --task classify" "$BOCHNER" train --data text.txt --init labels --lora 2 --out no --steps 3

# A class whose examples are all held out.
printf 'good\ta\nbad\tb\n' >two.tsv
succeeds "$BOCHNER" train --task classify --data two.tsv --out two $small --steps 3 --valid-fraction 0.5 --quiet
grep -q "no training example has the class 'bad'\|no training example has the class 'good'" err ||
    complain "no warning about a class without training examples: $(cat err)"
awk '{ print NR "\t" $2 }' labels.tsv >lines.tsv
succeeds "$BOCHNER" train --task classify --data lines.tsv --out lines $small --steps 1 --quiet
grep -q "180 classes in 180 examples; check" err || complain "no warning about as many classes as lines: $(cat err)"

# Contradictory options.
fails 2 "--pooling|classify or match" "$BOCHNER" train --task translate --data translate.tsv --out no --pooling max
fails 2 "--pack|--task" "$BOCHNER" train --data text.txt --out no --pack 64
fails 2 "--cross|translate" "$BOCHNER" train --task classify --data labels.tsv --out no --cross summary
fails 2 "--documents|--task classify" "$BOCHNER" train --task classify --data labels.tsv --out no --documents
fails 2 "--task|did you mean classify" "$BOCHNER" train --task clasify --data labels.tsv --out no
fails 2 "summary" "$BOCHNER" train --task translate --data translate.tsv --out no --cross summary --cross-attention softmax

# wrong TEXT TASK OPTIONS...: bad.tsv is refused, and no files of the run remain.
wrong() {
    words=$1
    task=$2
    shift 2
    fails 1 "$words" "$BOCHNER" train --task "$task" --data bad.tsv --out never $small --steps 3 "$@"
    [ -e never ] && complain "a run that could not begin left its directory ($words)"
}
{ head -5 labels.tsv; echo "no tab here"; } >bad.tsv
wrong "bad.tsv, line 6|tab" classify
{ head -5 labels.tsv; printf '\tno label\n'; } >bad.tsv
wrong "bad.tsv, line 6|label" classify
{ head -5 labels.tsv; printf 'good\t\n'; } >bad.tsv
wrong "bad.tsv, line 6|empty" classify
{ head -5 labels.tsv; printf 'good\tab\377c\n'; } >bad.tsv
wrong "bad.tsv, line 6|UTF-8" classify
printf 'good\ta\ngood\tb\ngood\tc\n' >bad.tsv
wrong "good|expected two or more" classify --valid-fraction 0
printf 'same\ta\tb\nother\ta\n' >bad.tsv
wrong "bad.tsv, line 2|tab" match
printf 'a\tA\nabcdefghijkl\tB\n' >bad.tsv
wrong "bad.tsv, line 2|at most 8|12" translate --context 8
: >bad.tsv
wrong "bad.tsv" classify
fails 1 "missing.tsv" "$BOCHNER" train --task classify --data labels.tsv --valid missing.tsv --out never $small --steps 3
{ head -5 labels.tsv; printf 'new\tabc\n'; } >unseen.tsv
fails 1 "unseen.tsv, line 6|new" "$BOCHNER" train --task classify --data labels.tsv --valid unseen.tsv --out never $small --steps 3
[ -e never ] && complain "a class unseen in training: the run left its directory"
finish
