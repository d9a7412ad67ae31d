# Signals, closed pipes and closed standard streams: each ends a command quickly, with its status, and leaves no partial
# file.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
case ${SANITIZE:-} in '') soon=5 ;; *) soon=40 ;; esac # seconds
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); for (i = 0; i < 800; i++) print "the " a[1 + int(4 * rand())] " eats." }' >text.txt
awk 'BEGIN { srand(1); for (i = 0; i < 20000; i++) { for (j = 0; j < 20; j++) printf "%.4f,", rand(); print rand() } }' >long.csv
house 200 5 >house.csv
small="--data text.txt --layers 1 --width 16 --heads 2 --context 32 --batch 4 --features 16 --threads 1"
succeeds "$BOCHNER" train $small --out model --steps 3 --quiet
succeeds "$BOCHNER" fit house.csv --features 32 --gamma 0.3 --lambda 0.1 --out house.model --quiet

# wait_for TEXT FILE JOB: until the file contains the text.
wait_for() {
    tries=0
    until grep -q "$1" "$2" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -gt 300 ] && return 1
        kill -0 "$3" 2>/dev/null || return 1
        sleep 0.05
    done
}

# stopped SIGNAL STATUS TEXT COMMAND...: the command is stopped after it printed "Plan" or a first step.
stopped() {
    signal=$1 expected=$2 words=$3
    shift 3
    attended "$@" >out 2>err &
    job=$!
    wait_for "^Plan\|^Step\|^standard" err $job || complain "SIG$signal: nothing to stop: $*: $(head -c 300 err)"
    sleep 0.1
    kill -"$signal" $job 2>/dev/null || complain "SIG$signal: ended before it could be stopped: $*"
    kill -"$signal" $job 2>/dev/null # as timeout does
    start=$(date +%s)
    wait $job 2>/dev/null
    status=$?
    [ $status -eq "$expected" ] || complain "SIG$signal: exit status $status instead of $expected: $*: $(tail -c 300 err)"
    [ $(($(date +%s) - start)) -le $soon ] || complain "SIG$signal: took $(($(date +%s) - start)) s: $*"
    grep -q "$words" err || complain "SIG$signal: no message '$words': $*: $(tail -c 300 err)"
    find . -name '*part*' | grep . && complain "SIG$signal: left part of a file: $*"
}
fit="$BOCHNER fit long.csv --features 4000 --threads 1 --task regression --out stopped.model"
stopped HUP 129 "nothing was written" $fit
stopped INT 130 "nothing was written" $fit
stopped XCPU 152 "nothing was written" $fit
stopped TERM 143 "nothing was written" $fit --stream --gamma 0.1 --lambda 1
[ -e stopped.model ] && complain "a stopped fit left a model"
train="$BOCHNER train $small --steps 1000000 --eval-every 50"
for signal in HUP:129 INT:130 TERM:143 XCPU:152; do
    rm -rf run
    stopped "${signal%:*}" "${signal#*:}" "stopped after step .*; a checkpoint was written" $train --out run
    [ -n "$(ls run/checkpoints 2>/dev/null)" ] || complain "SIG${signal%:*} left no checkpoint"
done
stopped HUP 129 "stopped" "$BOCHNER" mup transfer --data text.txt --widths 32,64 --context 32 --batch 4 --steps 40 --threads 1

# Signals that were ignored stay ignored: SIGHUP by nohup, SIGINT in background jobs of a script.
for signal in HUP INT; do
    : >err # without the plan of the job before, which would be taken for that of this one
    (
        trap '' $signal
        exec $fit --features 512 --gamma 0.1 --lambda 1 >out 2>err
    ) &
    job=$!
    wait_for "^Plan" err $job
    kill -$signal $job 2>/dev/null
    wait $job || complain "an ignored SIG$signal ends a fit with status $?"
    rm -f stopped.model
done

mkfifo pipe
# A command that waits for input stops too.
sleep 60 >pipe &
writer=$!
"$BOCHNER" predict house.model pipe --quiet >out 2>err &
job=$!
sleep 0.2
kill -TERM $job
wait $job 2>/dev/null
status=$?
[ $status -eq 143 ] && grep -q "stopped on request; nothing was written" err || complain "a waiting command: exit status $status: $(cat err)"

kill $writer

# Results are named: the model of a fit whose test is stopped, and the generated text.
house 100000 6 >test.csv
"$BOCHNER" fit house.csv --features 20000 --threads 1 --gamma 0.3 --lambda 0.1 --out saved.model --test test.csv --quiet >out 2>err &
job=$!
wait_for . saved.model $job
kill -TERM $job
wait $job 2>/dev/null
grep -q "stopped on request; saved.model was written" err || complain "a stopped test: $(cat err)"
[ -e saved.model ] || complain "a stopped test lost its model"
"$BOCHNER" generate model --tokens 100000000 --quiet >out 2>err &
job=$!
wait_for . out $job
kill -TERM $job
wait $job 2>/dev/null
grep -q "stopped on request after [0-9,]* tokens$" err || complain "a stopped text: $(cat err)"

# A shell ends its loop if a process ended by SIGINT, but not if it exited with status 130.
if command -v python3 >/dev/null; then
    python3 -c 'import subprocess, sys, time, signal
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(0.5); p.send_signal(signal.SIGINT); sys.exit(0 if p.wait() == -signal.SIGINT else 1)' \
        "$BOCHNER" generate model --tokens 100000000 || complain "Ctrl-C: not ended by the signal"
fi

# A reader that closes the pipe ends the command without a message; /dev/full ends it with one.
# gone COMMAND...
gone() {
    start=$(date +%s)
    { "$@" 2>err; echo $? >status; } | head -c 1 >out
    [ "$(cat status)" = 141 ] || complain "a closed pipe: exit status $(cat status): $*"
    grep -q "standard output\|stopped" err && complain "a closed pipe: $*: $(cat err)"
    [ $(($(date +%s) - start)) -le $((3 * soon)) ] || complain "a closed pipe: took $(($(date +%s) - start)) s: $*"
    [ -w /dev/full ] || return
    "$@" >/dev/full 2>err
    [ $? -eq 1 ] || complain "a full disk: exit status $?: $*"
    [ "$(grep -c "standard output: No space left" err)" -eq 1 ] || complain "a full disk: $*: $(cat err)"
}
seq 1 300000 | awk 'BEGIN { print "rooms,area,age" } { print 1 + $1 % 6 "," 50 + $1 % 100 "," 3 }' >many.csv
awk 'BEGIN { for (i = 0; i < 200000; i++) print "the cat eats the hen and the dog." }' >lines.txt
gone "$BOCHNER" generate model --tokens 1000000000 --threads 1
gone "$BOCHNER" predict house.model many.csv --threads 1
gone "$BOCHNER" bench recall --only softmax,elu,favor,delta --tokens 512 --lanes 2 --sizes 16,32,64 --threads 1
"$BOCHNER" help train --all 2>err >/dev/full && complain "help on a full disk is not an error"
grep -q "standard output" err || complain "help on a full disk: $(cat err)"
"$BOCHNER" tokenizer encode model <lines.txt 2>err | head -c 1 >out

# Closed streams: descriptors 0, 1 and 2 are never those of another file.
rm -rf run
"$BOCHNER" train $small --out run --steps 3 <&- >out 2>&- || complain "closed standard error: exit status $?"
[ -s run/.lock ] && complain "messages were written to the lock: $(cat run/.lock)"
rm -rf run
"$BOCHNER" train $small --out run --steps 3 --quiet <&- >&- 2>err
[ $? -eq 1 ] && grep -q "standard output: Bad file descriptor" err || complain "closed standard output: $(cat err)"
"$BOCHNER" fit house.csv --features 32 --gamma 0.3 --lambda 0.1 --out closed.model --quiet <&- >&- 2>&-
for model in house closed; do succeeds "$BOCHNER" predict $model.model house.csv --out $model.out.csv --quiet; done
cmp -s house.out.csv closed.out.csv || complain "closed streams: another model"

# Standard input that cannot be read.
# unread COMMAND...
unread() {
    "$@" <. >out 2>err
    [ $? -eq 1 ] && grep -q "standard input.*Is a directory\|/dev/stdin.*Is a directory" err ||
        complain "a directory as standard input: $*: status $?: $(head -c 300 err) $(head -c 100 out)"
    "$@" <&- >out 2>err
    [ $? -eq 1 ] && grep -q "standard input.*Bad file descriptor\|/dev/stdin" err ||
        complain "a closed standard input: $*: $(head -c 300 err) $(head -c 100 out)"
}
unread "$BOCHNER" generate model --prompt - --tokens 3
unread "$BOCHNER" tokenizer encode model
unread "$BOCHNER" tokenizer train - --vocab 300 --out t.json
unread "$BOCHNER" train $small --data - --out piped --steps 2
unread "$BOCHNER" fit - --out piped.model
unread "$BOCHNER" predict house.model -
unread "$BOCHNER" eval model --data -
finish
