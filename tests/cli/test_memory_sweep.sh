# Under any limit of the address space a command ends with a result or with "out of memory": it neither crashes nor hangs.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
house 200 1 >train.csv

# ends LIMIT COMMAND...: under `ulimit -v LIMIT` the command succeeds, or fails with status 1 and a message; it neither
# crashes nor hangs.
ends() {
    limit=$1
    shift
    (ulimit -v "$limit" && exec timeout -k 1 60 "$@") >out 2>err </dev/null
    status=$?
    case $status in
    0) return 0 ;;
    1) grep -qi "memory\|thread" err && return 1 ;;
    esac
    complain "exit status $status under ulimit -v $limit: $*: $(tail -c 300 err)"
    return 1
}

# sweep COMMAND...: from the smallest limit under which the program loads, in steps up to the first success.
sweep() {
    for more in $steps; do
        rm -rf s.run
        ends $((least + more)) "$@" && return
        left=$(find . -name '*.part')
        [ -z "$left" ] || complain "ulimit -v $((least + more)): left $left: $*"
    done
    complain "no success up to ulimit -v $((least + more)): $*: $(tail -c 200 err)"
}

if [ -z "$SANITIZE" ]; then
    least=8000
    until (ulimit -v $least && exec timeout -k 1 10 "$BOCHNER" version) >out 2>err; do least=$((least + 1000)); done
    steps="0 3000 9000 20000 50000 120000 300000 600000"
    [ "${BOCHNER_LONG:-}" = 1 ] && steps="$(awk 'BEGIN { for (k = 0; k < 600000; k += 3000) print k }')"
    tiny="--layers 1 --width 16 --heads 2 --context 16 --batch 2"
    printf 'the cat sat on the mat and the dog sat on the log\n%.0s' 1 2 3 4 5 6 7 8 9 10 >text.txt
    succeeds "$BOCHNER" fit train.csv --features 64 --gamma 1 --lambda 1 --out swept.model
    succeeds "$BOCHNER" train --data text.txt --out swept $tiny --steps 2 --quiet
    sweep "$BOCHNER" fit train.csv --features 64 --out s.model --holdout 0.2 --plot s.svg --json
    sweep "$BOCHNER" fit train.csv --features 64 --stream --gamma 1 --lambda 1 --out s.model
    sweep "$BOCHNER" fit train.csv --features 256 --solver cg --gamma 1 --lambda 1 --out s.model
    sweep "$BOCHNER" predict swept.model train.csv --std --out s.csv
    sweep "$BOCHNER" features train.csv --features 64 --out s.npy --error
    sweep "$BOCHNER" features train.csv --features 512 --out t.npy # a large block is allocated while the file is open
    sweep "$BOCHNER" info swept.model
    sweep "$BOCHNER" attention --q s.npy --k s.npy --v s.npy --kind favor --compare --out o.npy
    sweep "$BOCHNER" train --data text.txt --out s.run $tiny --steps 2 --quiet
    sweep "$BOCHNER" eval swept --data text.txt
    sweep "$BOCHNER" generate swept --prompt the --tokens 4
    sweep "$BOCHNER" tokenizer train text.txt --vocab 270 --out s.tokenizer
    sweep "$BOCHNER" lab run scaled-dot --quick --out lab
fi

finish
