# BOCHNER_TRACE: a valid JSON file with the phases of each command, also after Ctrl-C; and the message if it cannot be
# written.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# has FILE NAME...: the file contains spans of these names, and starts and ends as JSON does.
has() {
    file=$1
    shift
    [ "$(head -c 1 "$file")" = '{' ] && [ "$(tail -n 1 "$file")" = ']}' ] || complain "$file is not whole"
    if command -v python3 >/dev/null; then
        python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$file" || complain "$file is not valid JSON"
    fi
    for name in "$@"; do grep -q "\"name\":\"$name\"" "$file" || complain "$file has no span '$name'"; done
}

awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); for (i = 0; i < 800; i++) print "the " a[1 + int(4 * rand())] " eats." }' >text.txt
house 120 1 >house.csv
small="--layers 2 --width 16 --heads 2 --context 32 --batch 4 --features 16 --steps 10"

succeeds env BOCHNER_TRACE=train.json "$BOCHNER" train --data text.txt --out model $small --threads 2
grep -q 'Trace  *train.json' err || complain "the path of the trace is not printed: $(cat err)"
has train.json tokenize "prepare training" step batch "optimizer step" evaluation checkpoint forward backward \
    "layer 0 attention" "layer 1 mlp" linear "linear backward" "attention backward" main
succeeds env BOCHNER_TRACE=generate.json "$BOCHNER" generate model --prompt "the " --tokens 5 --quiet
[ ! -s err ] || complain "--quiet is not: $(cat err)"
has generate.json "load model" "read tokens" sample attention
succeeds env BOCHNER_TRACE=fit.json "$BOCHNER" fit house.csv --target price --features 64 --out house.model
has fit.json "load table" fit search Gram Cholesky solve
succeeds env BOCHNER_TRACE=predict.json "$BOCHNER" predict house.model house.csv --out predictions.csv
has predict.json "load machine" predict
succeeds "$BOCHNER" info model # without the variable there is no message and no file
! grep -q Trace err || complain "a trace that was not requested"

succeeds "$BOCHNER" help
grep -q BOCHNER_TRACE out || complain "bochner help does not list BOCHNER_TRACE"

fails 1 "cannot write the trace|no/such/trace.json|BOCHNER_TRACE|No such file" \
    env BOCHNER_TRACE=no/such/trace.json "$BOCHNER" info model
mkdir directory
fails 1 "cannot write the trace directory|directory" env BOCHNER_TRACE=directory "$BOCHNER" info model

# After Ctrl-C the file is complete and contains the steps up to that point.
attended BOCHNER_TRACE=stopped.json "$BOCHNER" train --data text.txt --out stopped $small --steps 1000000 --quiet >out 2>err &
run=$!
for _ in $(seq 200); do
    [ -d stopped/checkpoints ] || grep -q '"step"' stopped.json 2>/dev/null && break
    sleep 0.1
done
kill -INT $run
wait $run
expect "exit status after Ctrl-C" $? == 130
has stopped.json step "optimizer step" checkpoint
finish
