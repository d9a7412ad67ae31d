# Ctrl-C, a full disk, a closed pipe: each is reported, and no partial file remains.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
house 300 31 >train.csv
awk 'BEGIN { srand(1); for (i = 0; i < 80000; i++) { for (j = 0; j < 20; j++) printf "%.4f,", rand(); print rand() } }' >long.csv

# interrupt NAME OPTIONS...: a fit is stopped while it runs.
interrupt() {
    name=$1
    shift
    attended "$BOCHNER" fit long.csv --features 6000 --threads 1 --task regression --out stopped.model "$@" >out 2>err &
    job=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        sleep 0.2
        grep -q '^Plan' err && break
    done
    sleep 0.3
    kill -INT $job 2>/dev/null || complain "$name: ended before it could be stopped: $(head -c 200 err)"
    asked=$(date +%s)
    wait $job
    status=$?
    # Uninterrupted, each of these takes minutes on one core with the search. The program checks for a stop at every
    # block of rows.
    [ "$name" = searching ] && [ $(($(date +%s) - asked)) -gt 8 ] && complain "$name: took $(($(date +%s) - asked)) s to stop"
    [ $status -eq 130 ] || complain "$name: exit status $status after Ctrl-C: $(tail -c 300 err)"
    grep -q "stopped on request; nothing was written" err || complain "$name: no message: $(tail -c 300 err)"
    [ -s out ] && complain "$name: printed results though it was stopped"
    ls | grep -q stopped && complain "$name: left $(ls | grep stopped)"
}
interrupt "in memory" --gamma 0.1 --lambda 1
interrupt "searching"
interrupt "streaming" --stream --gamma 0.1 --lambda 1

# SIGTERM is handled in the same way, with its own exit status.
"$BOCHNER" fit long.csv --features 6000 --threads 1 --task regression --out stopped.model >out 2>err &
job=$!
sleep 1
kill -TERM $job
wait $job
status=$?
[ $status -eq 143 ] || complain "exit status $status after SIGTERM: $(tail -c 300 err)"
[ -e stopped.model ] && complain "SIGTERM leaves a model"

# Attention stops too and writes nothing.
head -20000 long.csv >tokens.csv
succeeds "$BOCHNER" features tokens.csv --kernel polynomial --degree 1 --gamma 1 --out tokens.npy --quiet
attended "$BOCHNER" attention --q tokens.npy --k tokens.npy --v tokens.npy --kind softmax --threads 1 --out stopped.npy >out 2>err &
job=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    grep -q '^Plan' err && break
    sleep 0.1
done
kill -INT $job 2>/dev/null || complain "attention ended before it could be stopped"
wait $job
status=$?
[ $status -eq 130 ] || complain "attention: exit status $status after Ctrl-C: $(tail -c 300 err)"
grep -q "stopped on request; nothing was written" err || complain "attention: no message: $(tail -c 300 err)"
[ -e stopped.npy ] && complain "attention wrote its output though it was stopped"

# A limit on the size of files makes a write fail.
(
    ulimit -f 200
    "$BOCHNER" features tokens.csv --features 64 --out limit.npy --quiet >out 2>err
    echo $? >status
)
[ "$(cat status)" = 1 ] && grep -q "limit.npy" err || complain "a file beyond its limit: exit status $(cat status), $(cat err)"
ls | grep -q limit.npy && complain "a file beyond its limit leaves $(ls | grep limit.npy)"

# A full disk: /dev/full accepts no data, and a small file system runs out of space.
succeeds "$BOCHNER" fit train.csv --features 64 --gamma 0.3 --lambda 0.1 --out good.model
if [ -w /dev/full ]; then
    "$BOCHNER" predict good.model train.csv >/dev/full 2>err
    [ $? -eq 1 ] || complain "standard output on a full disk is not an error"
    grep -q "No space left" err || complain "a full disk is not named: $(cat err)"
    fails 1 "No space left" "$BOCHNER" predict good.model train.csv --out /dev/full
    "$BOCHNER" fit train.csv --features 64 --holdout 0.2 >/dev/full 2>err
    [ $? -eq 1 ] || complain "results on a full disk are not an error"
    "$BOCHNER" fit train.csv --features 64 --out /dev/full >out 2>err
    [ $? -eq 1 ] || complain "a model on a full disk is not an error"
fi
mkdir small
if [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=64k none small 2>/dev/null; then
    fails 1 "small/big.model|No space left" "$BOCHNER" fit train.csv --features 1024 --solver primal --gamma 0.3 --lambda 0.1 --out small/big.model --quiet
    fails 1 "small/z.npy|No space left" "$BOCHNER" features train.csv --features 512 --out small/z.npy --quiet
    seq 1 20000 | awk 'BEGIN { print "rooms,area,age" } { print 1 "," 50 "," 3 }' >many.csv
    fails 1 "small/p.csv|No space left" "$BOCHNER" predict good.model many.csv --out small/p.csv --quiet
    if command -v gnuplot >/dev/null; then
        head -c 65536 /dev/zero >small/full 2>/dev/null
        "$BOCHNER" fit train.csv --features 64 --gamma 0.3 --lambda 0.1 --holdout 0.2 --plot small/p.svg --quiet >out 2>err
        [ $? -eq 1 ] || complain "a plot on a full disk is not an error"
        grep -q "no plot small/p.svg: it could not be written" err || complain "a lost plot is not named: $(cat err)"
        rm small/full
    fi
    [ -z "$(ls -A small)" ] || complain "a full disk holds $(ls -A small)"
    umount small
fi

# An existing model survives a fit that fails.
cp good.model old.model
head -100 train.csv >bad.csv
echo "1,2" >>bad.csv
fails 1 "bad.csv" "$BOCHNER" fit bad.csv --out old.model
cmp -s good.model old.model || complain "a failed fit touched the old model"

# A reader that closes the pipe early.
seq 1 200000 | awk 'BEGIN { print "rooms,area,age" } { print 1 + $1 % 6 "," 50 + $1 % 100 "," 3 }' >many.csv
"$BOCHNER" predict good.model many.csv --quiet 2>err | head -2 >out
[ "$(wc -l <out)" -eq 2 ] || complain "two lines of a pipe are $(wc -l <out)"
finish
