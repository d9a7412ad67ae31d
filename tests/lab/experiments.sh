# Shared by the scripts in this directory: runs the experiments of a group with one quick seed each.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# Claims that may have no number in a quick run, as experiment/claim.
may_lack=""
# Claims about every seed that are known to be false as stated in their source.
refuted="separation-rank/rounding
    unit-scale/sign-notes"
# Experiments of 6 seconds and more. make test-long runs them and compares their verdicts (test_long_all.sh).
slow="dark rfa-training rff-mlp time-law"

# group NAME PART PARTS: the names of every PARTS-th experiment of a group, starting at the PART-th.
group() {
    "$BOCHNER" lab list --json | sed 's/{"name"/\n&/g' | grep -F "\"group\": \"$1\"" |
        sed 's/^{"name": "\([^"]*\)".*/\1/' | awk -v part="$2" -v parts="$3" '(NR - part) % parts == 0'
}

is_among() {
    word=$1
    shift
    for other in "$@"; do [ "$other" = "$word" ] && return 0; done
    return 1
}

# check_claims NAME: checks in the JSON of the file out that every claim has a number, and that claims about each seed held.
check_claims() {
    sed 's/{"name"/\n&/g' out | grep '"rule"' >claims
    [ -s claims ] || complain "$1: no claims"
    while IFS= read -r line; do
        claim=$(printf '%s\n' "$line" | sed 's/^{"name": "\([^"]*\)".*/\1/')
        case $line in
        *'"values": [null'*)
            is_among "$1/$claim" $may_lack || complain "$1: claim $claim has no number" ;;
        *'"rule": "each '*)
            expected=held
            is_among "$1/$claim" $refuted && expected=failed
            case $line in *"\"verdict\": \"$expected\""*) ;; *) complain "$1: claim $claim: expected $expected: $line" ;; esac ;;
        esac
    done <claims
}

check_tables() {
    sed 's/{"name"/\n&/g' out | grep '"columns"' >tables
    grep -e '"rows": 0,' -e '"columns": 0}' tables >empty && complain "$1: an empty table: $(cat empty)"
    [ -s "lab-results/$1.json" ] || complain "$1: no file"
}

# experiments GROUP PART PARTS
experiments() {
    group "$1" "$2" "$3" >names
    [ -s names ] || complain "no experiments in the group $1"
    for name in $(cat names); do
        is_among "$name" $slow && continue
        "$BOCHNER" lab run "$name" --quick --seeds 1 --json --threads 1 >out 2>err
        status=$?
        [ $status -eq 0 ] || { complain "$name: exit status $status: $(tail -3 err)"; continue; }
        check_claims "$name"
        check_tables "$name"
    done
}
