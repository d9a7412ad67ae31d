# The defaults in `bochner train --help-all` equal the defaults of the library, which a run without these options
# records.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { for (i = 0; i < 400; i++) print "the cat eats the dog." }' >text.txt
"$BOCHNER" train --help-all >help

# default OPTION [NAME]: the first number of the default of the option, or of NAME in a default such as "muon: 0.02,
# adamw: 0.003".
default() {
    awk -v option="--$1" '/^  --/ { on = $1 == option } /^$/ { on = 0 } on { print }' help | tr -s '\n ' ' ' |
        sed -n 's/.*(default: \(.*\)) *$/\1/p' | sed "${2:+s/.*$2: //; }s/^[^0-9]*//; s/[^0-9.e-].*//"
}

# run DIRECTORY OPTION...: one training step; the recorded settings are in the file settings.
run() {
    directory=$1
    shift
    succeeds "$BOCHNER" train --data text.txt --out "$directory" --steps 1 --layers 1 --width 16 --heads 2 --context 16 --quiet "$@"
    cat "$directory/config.json" "$directory"/checkpoints/*/training.json >settings
}

# same FIELD OPTION [NAME]
same() {
    found=$(field settings "$1") said=$(default "$2" "${3:-}")
    [ -n "$found" ] && [ -n "$said" ] || complain "$1 is '$found', and the default of --$2 is '$said'"
    expect "$1, the default of --$2 ${3:-}" "$found" == "$said"
}

run plain
for pair in rope_base:rope-base gate_first:gate-first gate_last:gate-last dropout:dropout temperature:temperature \
    batch:batch other_rate:other-lr decay:decay clip:clip schedule_floor:floor; do
    same "${pair%:*}" "${pair#*:}"
done
sed -n '/"features": {/,$p' settings | sed 1d >rest && mv rest settings
same features features
run hybrid --attention hybrid --batch 2
same window window
run ridge --attention gated-ridge --batch 2
same tolerance tolerance
run conv --mixer conv --mup --batch 2
same base_width base-width
same kernel kernel conv
run ssm --mixer ssm --ssm closed --batch 2
same state_size state-size
same state_rank state-rank
same kernel kernel ssm
for optimizer in muon adamw sgd sign linf; do
    run "$optimizer" --optim $optimizer --batch 2
    same rate lr $optimizer
done
run muon-momentum --batch 2
same momentum momentum muon
run sgd-momentum --optim sgd --batch 2
same momentum momentum sign # "sgd and sign: 0.9"

# bochner fit
awk 'BEGIN { print "x,y"; for (i = 0; i < 30; i++) print i ","  i * i }' >table.csv
"$BOCHNER" fit --help-all >help
succeeds "$BOCHNER" fit table.csv --target y --gamma 1 --lambda 1 --json --out fitted
cp out settings
same features features

# bochner embed and drift
"$BOCHNER" embed --help-all >help
succeeds "$BOCHNER" embed table.csv --json --out embedded.csv
cp out settings
same features features
same components components
"$BOCHNER" drift --help-all >help
succeeds "$BOCHNER" drift table.csv table.csv --json
cp out settings
same features features
finish
