# bochner compare: the table, its order, warnings, JSON, the plot, directories that are not runs.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/cli/tasks.sh"
awk 'BEGIN { srand(3); for (i = 0; i < 1500; i++) print "line " i " has the number " int(9 * rand()) "." }' >text.txt
awk 'BEGIN { srand(4); for (i = 0; i < 1500; i++) print "another text with the number " int(99 * rand()) "." }' >other.txt
small="--layers 1 --width 16 --heads 2 --context 32 --batch 4 --features 16 --threads 2 --steps 20 --eval-every 5 --quiet"
plain="--layers 1 --width 16 --heads 2 --context 32 --batch 4 --threads 2 --steps 20 --eval-every 5 --quiet"
succeeds "$BOCHNER" train --data text.txt --out gate $small
succeeds "$BOCHNER" train --data text.txt --out soft $plain --attention softmax
succeeds "$BOCHNER" train --data text.txt --out slow $small --lr 0.0001 --other-lr 0.0001 --valid-fraction 0.1
succeeds "$BOCHNER" train --data other.txt --out other $small

# One row per run, the best validation loss first, with the names of the attention.
succeeds "$BOCHNER" compare slow gate/ soft
[ -s err ] && complain "a warning for comparable runs: $(cat err)"
expect "rows" "$(grep -cE '^(slow|gate|soft) ' out)" == 3
grep -q '^run .*attention .*parameters .*steps .*tokens .*valid loss .*best .*bits/byte .*tokens/s .*state .*time$' out ||
    complain "no heading: $(cat out)"
grep -q '^gate  *rfa-gate .* fixed ' out || complain "the state of rfa-gate is not fixed: $(cat out)"
grep -q '^soft  *softmax .* at 32 tokens ' out || complain "the state of softmax is not per tokens: $(cat out)"
tail -n +2 out | grep -E '^(slow|gate|soft) ' | tail -1 | grep -q '^slow ' || complain "the largest loss is not last: $(cat out)"
grep -q 'nats per token' out || complain "no unit: $(cat out)"

# JSON has the numbers of the metrics, and the state grows with --tokens for softmax only.
succeeds "$BOCHNER" compare gate soft --json --tokens 32
cp out short
succeeds "$BOCHNER" compare gate soft --json --tokens 320
tr '{' '\n' <short >short.lines
tr '{' '\n' <out >long.lines
value() { # value FILE RUN NAME
    grep "\"run\": \"$2\"" "$1" | sed "s/.*\"$3\": \([^,}]*\).*/\1/"
}
loss=$(tail -1 gate/metrics.jsonl | sed 's/.*"best_valid_loss": \([^,]*\).*/\1/')
expect "best loss" "$(value long.lines gate best_valid_loss)" == "$loss"
expect "steps" "$(value long.lines gate step)" == 20
[ "$(value long.lines gate mixer)" = '"rfa-gate"' ] || complain "mixer: $(cat out)"
[ "$(value long.lines gate finished)" = true ] || complain "not finished: $(cat out)"
expect "fixed state" "$(value long.lines gate state_bytes)" == "$(value short.lines gate state_bytes)"
expect "growing state" "$(value long.lines soft state_bytes)" ">" "$(value short.lines soft state_bytes)"

# On a narrow terminal the table keeps the most important columns.
if script -qec "stty cols 80 rows 24; '$BOCHNER' compare gate soft" /dev/null </dev/null 2>/dev/null | tr -d '\r' >seen && [ -s seen ]; then
    LC_ALL=C.UTF-8 awk 'length($0) > 80' seen >over
    [ -s over ] && complain "the table is wider than the terminal: $(cat over)"
    grep -q '^run  *attention .*best' seen && grep -q 'columns omitted' seen || complain "the table on a terminal: $(cat seen)"
fi

# The plot has all curves, over each axis.
if command -v gnuplot >/dev/null; then
    for axis in step tokens seconds; do
        succeeds "$BOCHNER" compare gate soft --plot curves.svg --by $axis
        for words in '>gate<' '>soft<' ">$axis<" '>nats per token<' '</svg>'; do
            grep -q "$words" curves.svg || complain "--by $axis: the plot lacks $words"
        done
    done
fi

# Runs that are not comparable: other text, other tokenizer, other task; runs that are not finished.
succeeds "$BOCHNER" compare gate other
grep -q 'different validation data' err || complain "no warning of other text: $(cat err)"
succeeds "$BOCHNER" train --data text.txt --out pairs $small --vocab 300
succeeds "$BOCHNER" compare gate pairs --plot bits.svg
grep -q 'different tokenizers.*bits per byte are' err || complain "no warning of other tokenizers: $(cat err)"
grep -q 'Sorted by the best bits per byte' out || complain "not sorted by bits per byte: $(cat out)"
moods 200 1 >moods.tsv
trained classify labels moods.tsv --layers 1 --width 16 --steps 10 --batch 2 --pack 256
trained classify labels2 moods.tsv --layers 1 --width 16 --steps 10 --batch 2 --pack 256 --attention softmax
succeeds "$BOCHNER" compare labels labels2
grep -q 'accuracy' out && grep -q '%' out || complain "no accuracy: $(cat out)"
grep -q 'nats per example' out || complain "no unit of labels: $(cat out)"
succeeds "$BOCHNER" compare gate labels
grep -q 'different tasks' err || complain "no warning of other tasks: $(cat err)"
house 200 1 >train.csv
echo '{"input": {"kind": "array"}, "layers": [{"type": "linear", "width": 8}, {"type": "relu"}, {"type": "linear", "width": "targets"}], "loss": "mse"}' >net.json
for seed in 1 2; do
    succeeds "$BOCHNER" train --model net.json --data train.csv --target price --out net$seed --steps 20 --quiet
done
succeeds "$BOCHNER" compare net1 net2
grep -q 'RMSE' out && grep -q 'examples/s' out || complain "networks: $(cat out)"
cp -r gate part
sed -n 1,12p gate/metrics.jsonl >part/metrics.jsonl
printf '{"step": 13, "st' >>part/metrics.jsonl
succeeds "$BOCHNER" compare gate part
grep -q 'part is not finished: step 12 of 20' err || complain "an unfinished run is not noted: $(cat err)"
grep -q '^part .* 12\* ' out && grep -q 'not finished' out || complain "an unfinished run is not marked: $(cat out)"

# A run without validation is listed last; a run without a checkpoint has no model yet.
succeeds "$BOCHNER" train --data text.txt --out blind $small --valid-fraction 0
succeeds "$BOCHNER" compare blind gate
grep -E '^(gate|blind) ' out | tail -1 | grep -q '^blind ' || complain "a run without validation: $(cat out)"
mkdir early
cp gate/train.json gate/metrics.jsonl early
succeeds "$BOCHNER" compare early gate

# Directories that are not runs.
fails 2 "no runs" "$BOCHNER" compare
fails 2 "--plot|.svg" "$BOCHNER" compare gate --plot picture.txt
fails 2 "--by needs --plot" "$BOCHNER" compare gate --by tokens
fails 2 "--by|expected one of" "$BOCHNER" compare gate --plot a.svg --by hours
fails 1 "nowhere|no such directory" "$BOCHNER" compare nowhere gate
fails 1 "text.txt|not a directory" "$BOCHNER" compare text.txt
fails 1 "gate/best|not a training run|metrics.jsonl" "$BOCHNER" compare gate/best
mkdir young empty
cp gate/train.json young
cp gate/train.json empty
: >empty/metrics.jsonl
fails 1 "young|no metrics yet" "$BOCHNER" compare young
fails 1 "empty|no entries" "$BOCHNER" compare empty
printf 'not JSON\n[1, 2]\n{}\n' >empty/metrics.jsonl
fails 1 "empty|no entries" "$BOCHNER" compare empty
cp -r gate broken
printf 'x' >broken/model.safetensors
fails 1 "broken" "$BOCHNER" compare broken

# Files damaged or replaced by another program: pipes do not block, and invalid counts are not shown.
for file in metrics.jsonl train.json training.json; do
    cp -r gate pipe
    rm -f pipe/$file
    mkfifo pipe/$file
    timeout 20 "$BOCHNER" compare pipe >out 2>err
    [ $? -lt 2 ] || complain "compare waits for the pipe $file"
    rm -r pipe
done
cp -r gate damaged
sed 's/"data"/"date"/' gate/train.json >damaged/train.json
succeeds "$BOCHNER" compare damaged
grep -q "damaged/train.json is ignored, because it is damaged" err || complain "a damaged train.json: $(cat err)"
cp -r gate pipe
rm pipe/metrics.jsonl
mkdir pipe/metrics.jsonl
fails 1 "pipe/metrics.jsonl|not a regular file" "$BOCHNER" compare pipe
cp -r gate odd
printf '{"step": -3, "steps": 5, "tokens": -1, "valid_loss": 1e300, "best_valid_loss": 1e300, "valid_bits_per_byte": 1e300, "seconds": -1}\n' >>odd/metrics.jsonl
succeeds "$BOCHNER" compare odd
grep -q '^odd .* -\*  *-  *1e+300 ' out || complain "odd numbers: $(cat out)"
expect "columns of odd numbers" "$(awk 'length($0) > n { n = length($0) } END { print n }' out)" '<' 160
strange=$(printf 'str\033[31m\377')
cp -r gate "$strange"
succeeds "$BOCHNER" compare "$strange" --plot strange.svg
grep -q '^str?\[31m? ' out || complain "control characters in the table: $(cat out)"
[ ! -e strange.svg ] || iconv -f UTF-8 -t UTF-8 strange.svg >copy 2>err || complain "the plot is not UTF-8: $(cat err)"
quoted="'50%' {a_b} \`x\` \\n"
cp -r gate "$quoted"
succeeds "$BOCHNER" compare "$quoted" gate --plot quoted.svg
[ ! -e quoted.svg ] || grep -qF ">$quoted<" quoted.svg || complain "the run $quoted is not in the plot: $(grep '50' quoted.svg)"
fails 1 "missing/a.svg" "$BOCHNER" compare gate --plot missing/a.svg
finish
