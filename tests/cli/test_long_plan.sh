# bochner plan: a calibration is measured once and then read, plans keep their budgets, and the printed command works.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); for (i = 0; i < 4000; i++) print "line " i " says " int(9 * rand()) "." }' >text.txt

succeeds "$BOCHNER" plan --threads 1 --minutes 1 --quick --calibration machine.json --quiet
grep -q '^Host' out || complain "no line on the host: $(cat out)"
grep -q '^\*' out || complain "nothing is chosen: $(cat out)"
[ -s err ] && complain "--quiet is not: $(cat err)"
[ -s machine.json ] || complain "no calibration was written"

# The measurement is not repeated: the same file, the same plan.
cp machine.json before.json
succeeds "$BOCHNER" plan --threads 1 --params 1e5 --calibration machine.json --json
cp out first.json
succeeds "$BOCHNER" plan --threads 1 --params 1e5 --calibration machine.json --json
cmp -s out first.json || complain "two plans from one calibration differ"
cmp -s machine.json before.json || complain "a calibration that was there has changed"
grep -q '"step_seconds"' out || complain "no step time in JSON"
grep -q '"command": "bochner train --data text.txt' out || complain "no command in JSON"

# The command works as printed.
succeeds "$BOCHNER" plan --threads 1 --tokens 6e4 --context 32 --calibration machine.json --data text.txt --out 'a model'
tail -1 out >command
grep -q "^bochner train --data text.txt --out 'a model' --layers" command || complain "an odd command: $(cat command)"
PATH=$(dirname "$BOCHNER"):$PATH
sh command >trained 2>&1 || complain "the command fails: $(cat command): $(cat trained)"
[ -s 'a model/model.safetensors' ] || complain "the command left no model"

# File names are quoted for the shell; a billion parameters are planned as fast as a hundred thousand.
succeeds "$BOCHNER" plan --threads 1 --minutes 1 --calibration machine.json --data "it's \$HOME; a;b" --out '~'
eval "set -- $(tail -1 out)"
[ "$4" = "it's \$HOME; a;b" ] && [ "$6" = '~' ] || complain "a shell reads $4 and $6 in $(tail -1 out)"
succeeds timeout 60 "$BOCHNER" plan --threads 1 --params 1e9 --memory 1000G --calibration machine.json --quiet
fails 1 "too short|at least" "$BOCHNER" plan --threads 1 --minutes 0.001 --calibration machine.json
fails 1 "memory|at least" "$BOCHNER" plan --threads 1 --minutes 1 --memory 1M --calibration machine.json
fails 1 "no candidate model has about 10 parameters" "$BOCHNER" plan --threads 1 --params 10 --calibration machine.json
fails 1 "measured with --attention rfa-gate, expected softmax" "$BOCHNER" plan --threads 1 --minutes 1 --attention softmax --calibration machine.json
fails 1 "threads" "$BOCHNER" plan --threads 3 --minutes 1 --calibration machine.json
echo '{}' >empty.json
fails 1 "empty.json|format" "$BOCHNER" plan --threads 1 --minutes 1 --calibration empty.json
fails 1 "no directory nowhere" "$BOCHNER" plan --threads 1 --minutes 1 --quick --calibration nowhere/machine.json
fails 1 "/dev/zero: not a regular file (it is a device)" timeout 20 "$BOCHNER" plan --threads 1 --minutes 1 --calibration /dev/zero
fails 2 "no budget|--minutes" "$BOCHNER" plan
fails 2 "--minutes or --tokens" "$BOCHNER" plan --threads 1 --minutes 1 --tokens 1e6
fails 2 "options only|found 'text.txt'" "$BOCHNER" plan text.txt --minutes 1
fails 2 "--attention|did you mean softmax" "$BOCHNER" plan --threads 1 --minutes 1 --attention softmix
finish
