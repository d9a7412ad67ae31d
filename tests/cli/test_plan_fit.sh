# bochner plan --fit: laws of small real runs, plans by them, and runs that cannot share a law.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); for (i = 0; i < 4000; i++) print "line " i " says " int(9 * rand()) "." }' >text.txt

# made NAME OPTIONS...: a run of a few steps.
made() {
    name=$1
    shift
    "$BOCHNER" train --data text.txt --out "$name" --context 16 --batch 4 --eval-tokens 2000 --threads 1 --quiet "$@" \
        >train.out 2>&1 || complain "cannot train $name: $(cat train.out)"
}
for steps in 20 40 80; do
    made "a/16-$steps" --layers 1 --width 16 --heads 1 --steps $steps --attention softmax
    made "a/32-$steps" --layers 1 --width 32 --heads 2 --steps $steps --attention softmax
    made "a/48-$steps" --layers 2 --width 48 --heads 3 --steps $steps --attention softmax
done
made large --layers 2 --width 64 --heads 4 --steps 120 --attention softmax

succeeds "$BOCHNER" plan --fit a/* --holdout large --law law.json
for word in size_power data_power operations 'a/48-80' 'Held-out runs' predicted; do
    grep -q "$word" out || complain "no $word: $(cat out)"
done
[ -s err ] && complain "warnings about runs that are in order: $(cat err)"
cp out first
succeeds "$BOCHNER" plan --fit a/* --holdout large --json
[ "$(field out origin)" = fitted ] || complain "the floor is not fitted: $(field out origin)"
compare "$(grep -c '"run"' out)" -ge 1 || complain "no runs in JSON"
succeeds "$BOCHNER" plan --fit a/* --holdout large --law law.json
cmp -s out first || complain "two fits of the same runs differ"

# A plan by the stored law; the command works as printed.
succeeds "$BOCHNER" plan --law law.json --threads 1 --minutes 0.02 --out 'a model'
grep -q '^\*' out || complain "nothing is chosen: $(cat out)"
succeeds "$BOCHNER" plan --law law.json --threads 1 --params 2e4 --tokens 7e3 --out planned
tail -1 out >command
grep -q "^bochner train --config .*train.json --out planned --layers" command || complain "an odd command: $(cat command)"
PATH=$(dirname "$BOCHNER"):$PATH
sh command >trained 2>&1 || complain "the command fails: $(cat command): $(cat trained)"
grep -q '"attention": "softmax"\|"kind": "softmax"' planned/config.json || complain "not the family of the runs"
succeeds "$BOCHNER" plan --law law.json --threads 1 --params 2e4 --tokens 7e3 --json
grep -q '"beyond"' out || complain "no factor of extrapolation"
fails 1 "threads" "$BOCHNER" plan --law law.json --threads 2 --minutes 1
fails 1 "no model of the family has" "$BOCHNER" plan --law law.json --threads 1 --params 10 --tokens 1e4
fails 1 "tokens and parameters" "$BOCHNER" plan --law law.json --threads 1 --tokens 1e4
fails 1 "too small|100 training steps" "$BOCHNER" plan --law law.json --threads 1 --params 2e4 --tokens 100

# Few runs: the report names the determined parameters.
succeeds "$BOCHNER" plan --fit a/16-*
grep -q "law is valid for this size only" out || complain "one size: $(cat out)"
succeeds "$BOCHNER" plan --fit a/16-* a/32-*
grep -q "do not determine size_power" out || complain "two sizes: $(cat out)"
fails 1 "expected at least" "$BOCHNER" plan --fit a/16-20 a/32-40
fails 1 "expected at least" "$BOCHNER" plan --fit a/16-20

# Runs that cannot share a law are named.
made ssm --layers 1 --width 32 --heads 2 --steps 20 --mixer ssm
fails 1 "a/16-20 and ssm cannot share a law" "$BOCHNER" plan --fit a/* ssm
made adamw --layers 1 --width 32 --heads 2 --steps 20 --attention softmax --optim adamw
fails 1 "adamw|--optim" "$BOCHNER" plan --fit a/* adamw
made batch --layers 1 --width 32 --heads 2 --steps 20 --attention softmax --batch 8
fails 1 "64 and 128 tokens per step" "$BOCHNER" plan --fit a/* batch
sed 's/says/said/' text.txt >other.txt
made other --layers 1 --width 32 --heads 2 --steps 20 --attention softmax --data other.txt
fails 1 "a/16-20 and other|data" "$BOCHNER" plan --fit a/* other
fails 1 "given twice" "$BOCHNER" plan --fit a/* a/16-20

# A run whose config.json has format 3 has the same model: the config.json of a frozen model with the sizes of the run.
cp -r a/16-20 former
sed -e 's/"bochner_format": 1/"bochner_format": 3/' -e 's/"hidden_size": 8/"hidden_size": 16/' -e 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' \
    -e 's/_heads": 2/_heads": 1/' -e 's/"head_dim": 4/"head_dim": 16/' -e 's/"intermediate_size": 32/"intermediate_size": 64/' \
    -e 's/": 24/": 16/' -e 's/"scale": 0.5/"scale": 0.25/' \
    -e "s/600d360f24bc3c57/$(field a/16-20/config.json tokenizer_fingerprint)/" \
    "$BOCHNER_SOURCE/tests/frozen/d78e7484/pretrained/base/config.json" >former/config.json
grep -q '"bochner_format": 4' a/16-20/config.json || complain "runs have another format: $(head -6 a/16-20/config.json)"
succeeds "$BOCHNER" plan --fit a/16-40 a/16-80 a/32-* a/48-* former
succeeds "$BOCHNER" plan --fit former a/16-40 a/16-80 a/32-* a/48-*
sed -i 's/"rope_theta": 10000/"rope_theta": 20000/' former/config.json
fails 1 'a/16-40 and former cannot share a law: layer 0: "rope_base": 10000 and "rope_base": 20000' \
    "$BOCHNER" plan --fit a/16-40 a/16-80 a/32-* a/48-* former

# Other threads: refused for times, and accepted for losses.
cp -r a/16-20 threads
sed -i 's/"threads": 1/"threads": 2/' threads/metrics.jsonl
fails 1 "threads cannot share|--loss-only" "$BOCHNER" plan --fit a/* threads
succeeds "$BOCHNER" plan --fit a/* threads --loss-only
grep -q "Time law    none" out || complain "--loss-only has times"
sed -i '$ s/"threads": 2/"threads": 1/' threads/metrics.jsonl
succeeds "$BOCHNER" plan --fit a/* threads
grep -q "threads: the number of threads" err || complain "a change of threads is not mentioned: $(cat err)"

# Incomplete, repeated, diverged and damaged metrics.
cp -r a/48-40 broken
sed -i '$ d' broken/metrics.jsonl
succeeds "$BOCHNER" plan --fit a/* broken
grep -q "broken: the run is not finished" err || complain "an incomplete run: $(cat err)"
cat a/48-40/metrics.jsonl a/48-40/metrics.jsonl >broken/metrics.jsonl
succeeds "$BOCHNER" plan --fit a/* broken
grep -q "broken: metrics.jsonl repeats steps" err || complain "a resumed run: $(cat err)"
sed 's/"loss": [0-9.e+-]*/"loss": null/' a/48-40/metrics.jsonl >broken/metrics.jsonl
succeeds "$BOCHNER" plan --fit a/* broken
grep -q "broken: the run diverged" err || complain "a diverged run: $(cat err)"
echo 'rubbish' >broken/metrics.jsonl
fails 1 "broken/metrics.jsonl|damaged" "$BOCHNER" plan --fit a/* broken
cp a/48-40/metrics.jsonl broken/metrics.jsonl
echo '{' >broken/config.json
fails 1 "broken/config.json" "$BOCHNER" plan --fit a/* broken
rm broken/metrics.jsonl
fails 1 "broken/metrics.jsonl" "$BOCHNER" plan --fit a/* broken
fails 1 "nowhere|directory" "$BOCHNER" plan --fit a/* nowhere

# Maps whose size or bandwidth follows from the width do not separate runs; other tokenizers share a law per byte.
for width in 16 32; do
    for steps in 4 8; do
        made "map/$width-$steps" --layers 1 --width $width --heads 1 --steps $steps --attention taylor --mlp random-features
        made "words/$width-$steps" --layers 1 --width $width --heads 1 --steps $steps --attention softmax --vocab $((256 + width))
    done
done
succeeds "$BOCHNER" plan --fit map/*
succeeds "$BOCHNER" plan --fit words/* --json
compare "$(grep -o '"bytes": [0-9.]*' out | head -1 | cut -d' ' -f2)" '>' 256 || complain "bytes are tokens: $(cat out)"

# Damaged laws.
fails 1 "nowhere.json" "$BOCHNER" plan --law nowhere.json --minutes 1
sed 's/"batch": 4/"batch": 5/' law.json >damaged.json
fails 1 "damaged.json|checksum" "$BOCHNER" plan --law damaged.json --minutes 1
fails 2 "no runs" "$BOCHNER" plan --fit
fails 2 "need --fit" "$BOCHNER" plan a/16-20 --minutes 1
fails 2 "no budget" "$BOCHNER" plan --law law.json
fails 2 "--holdout and --loss-only need --fit" "$BOCHNER" plan --law law.json --minutes 1 --holdout large
fails 2 "--holdout and --loss-only need --fit" "$BOCHNER" plan --minutes 1 --loss-only
fails 2 "from the runs" "$BOCHNER" plan --law law.json --minutes 1 --attention rfa
finish
