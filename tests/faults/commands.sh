# The commands for the tests of this directory; CALLS as in faults.sh.
. "$BOCHNER_SOURCE/tests/faults/faults.sh"

# rarely ARGUMENTS...: as faults, but only in the long test.
rarely() {
    [ "$CALLS" != all ] || faults "$@"
}
fit="fit house.csv --gamma 0.3 --lambda 0.1 --threads 2 --quiet"
train="train --data text.txt $small"

# Tables.
before "$BOCHNER" $fit --features 8 --out out.model # the old file
before "$BOCHNER" $fit --features 16 --out house.model
cp start/house.csv start/out.csv
faults files "$BOCHNER" $fit --features 16 --out out.model
rarely files "$BOCHNER" $fit --features 16 --stream --out out.model
rarely files "$BOCHNER" fit shapes.csv --features 16 --holdout 0.2 --threads 2 --quiet --out out.model
faults files "$BOCHNER" predict house.model house.csv --out out.csv --threads 2 --quiet
rarely files "$BOCHNER" predict house.model house.csv --std --threads 2 --quiet
rarely files "$BOCHNER" features house.csv --features 16 --out out.npy --threads 2 --quiet
before "$BOCHNER" features house.csv --features 16 --out q.npy --quiet
rarely files "$BOCHNER" attention --q q.npy --k q.npy --v q.npy --kind favor --out out.npy --threads 2 --quiet
rarely files "$BOCHNER" data listops --count 20 --min-tokens 10 --max-tokens 40 --out out.tsv --quiet

# Language models: a new run, the second half of a run, and a model.
faults run "$BOCHNER" $train --out run
before "$BOCHNER" $train --out model
cp -r start fresh
mkdir start/run
cp -r start/model/. start/run
rm -r start/run/checkpoints/step-4
faults run "$BOCHNER" $train --resume --out run
rm -rf start
mv fresh start
rarely files "$BOCHNER" eval model --data text.txt --threads 1 --quiet
faults files "$BOCHNER" generate model --prompt the --tokens 5 --save-state out.state --threads 2 --quiet
before "$BOCHNER" generate model --prompt the --tokens 5 --save-state old.state --quiet
rarely files "$BOCHNER" generate model --load-state old.state --tokens 5 --threads 2 --quiet
printf 'the cat' >in
rarely files "$BOCHNER" generate model --prompt - --tokens 5 --threads 2 --quiet
rarely files "$BOCHNER" tokenizer encode model
: >in
rarely files "$BOCHNER" tokenizer train text.txt --vocab 270 --out out.json --quiet
rarely files "$BOCHNER" compare model model --json
rarely files "$BOCHNER" info model
(. "$BOCHNER_SOURCE/tests/foreign.sh" && tiny_gguf start/model.gguf)
rarely files "$BOCHNER" convert model.gguf --out converted --quiet
if [ "$CALLS" = all ]; then
    before "$BOCHNER" train --data text.txt --init model --lora 2 --steps 2 --batch 2 --out adapter --threads 2 --quiet
    rarely files "$BOCHNER" lora merge adapter --out merged --quiet
    (cd start && "$BOCHNER" plan --minutes 1 --quick --calibration host.json --quiet >/dev/null) || complain "no calibration"
    before "$BOCHNER" train --task classify --data labeled.tsv $small --out classes
fi
rarely files "$BOCHNER" predict classes labeled.tsv --labeled --threads 2 --quiet
rarely files "$BOCHNER" eval classes --data labeled.tsv --threads 2 --quiet
rarely files "$BOCHNER" plan --params 1e5 --calibration host.json --threads 2 --quiet
rarely files "$BOCHNER" info house.model
rarely files "$BOCHNER" lab run gd-best-rate --quick --seeds 1 --out lab --threads 1 --quiet
echo "$cases faults, $failures complaints"
finish
