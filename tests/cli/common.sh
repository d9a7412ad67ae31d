# Shared by the scripts beside it: a folder of their own, data from awk, and what a command must do.
set -u
LC_ALL=C
export LC_ALL
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

complain() {
    echo "FAILED: $*" >&2
    failures=$((failures + 1))
}

# succeeds COMMAND...: exit status 0; what it printed is in out and err.
succeeds() {
    "$@" >out 2>err
    status=$?
    [ $status -eq 0 ] && return 0
    complain "exit status $status: $*"
    sed 's/^/    /' err >&2
    return 1
}

# fails STATUS WORDS COMMAND...: that exit status, every one of the words (separated by |) on standard error, nothing on
# standard output.
fails() {
    expected=$1
    words=$2
    shift 2
    "$@" >out 2>err
    status=$?
    [ $status -eq "$expected" ] || complain "exit status $status instead of $expected: $*: $(head -c 300 err)"
    [ -s out ] && complain "printed on standard output though it failed: $*"
    while [ -n "$words" ]; do
        word=${words%%|*}
        case $words in
        *"|"*) words=${words#*|} ;;
        *) words= ;;
        esac
        grep -qiF -e "$word" err || complain "the message lacks '$word': $*: $(head -c 300 err)"
    done
}

# field FILE NAME: the number or text of a field of the JSON the program prints, one field a line.
field() {
    awk -v name="\"$2\":" '{ at = index($0, name) } at { v = substr($0, at + length(name)); sub(/^ +/, "", v); sub(/,$/, "", v);
        gsub(/"/, "", v); print v; exit }' "$1"
}

# compare A OPERATOR B: a comparison of numbers.
compare() {
    awk -v a="$1" -v b="$3" "BEGIN { exit !(a + 0 $2 b + 0) }" </dev/null
}

expect() { # expect WHAT A OPERATOR B
    compare "$2" "$3" "$4" || complain "$1: $2 is not $3 $4"
}

# house ROWS SEED: a table with a header; price is a smooth function of three columns, and noise of deviation about 2.
house() {
    awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); print "rooms,area,age,price"; for (i = 0; i < n; i++) {
        r = 1 + int(6 * rand()); a = 40 + 120 * rand(); g = 60 * rand();
        p = 50 + 20 * r + 1.5 * a - 0.5 * g + 10 * sin(a / 20) + 4 * (rand() + rand() + rand() - 1.5);
        printf "%d,%.3f,%.2f,%.4f\n", r, a, g, p } }'
}

# shapes ROWS SEED: two columns and a class in words; three rings that no line separates.
shapes() {
    awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); split("inner,middle,outer ring", name, ","); print "x,y,where";
        for (i = 0; i < n; i++) { k = i % 3; radius = k + 0.3 * rand(); t = 6.2831853 * rand();
        printf "%.4f,%.4f,%s\n", radius * cos(t), radius * sin(t), name[k + 1] } }'
}

finish() {
    [ "$failures" -eq 0 ] || { echo "$failures checks failed" >&2; exit 1; }
    exit 0
}
