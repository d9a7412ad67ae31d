# compare_verdicts FOUND LIST: compares the output of verdicts.awk with the stored list. Every claim must be in the list;
# `make verdicts` refreshes it after claims were added, removed or renamed.
compare_verdicts() {
    while read -r experiment claim verdict side; do
        is_timed "$experiment" "$claim" && continue
        expected=$(awk -v e="$experiment" -v c="$claim" '$1 == e && $2 == c { print $3 }' "$2")
        case $expected in
        held | failed) [ "$verdict" = "$expected" ] || complain "$experiment: claim $claim: expected $expected, found $verdict" ;;
        meets) [ "$side" = all ] || complain "$experiment: claim $claim: expected all seeds on the claimed side of the bound, found $side" ;;
        misses) [ "$side" = none ] || complain "$experiment: claim $claim: expected no seed on the claimed side of the bound, found $side" ;;
        varies | time) ;;
        *) complain "$experiment: claim $claim is not in tests/lab/verdicts.txt (make verdicts refreshes the list)" ;;
        esac
    done <"$1"
    awk 'FILENAME == ARGV[1] { found[$1 " " $2] = 1; ran[$1] = 1; next }
        /^#/ || !($1 in ran) || (($1 " " $2) in found) { next } { print $1, $2 }' "$1" "$2" >gone
    while read -r experiment claim; do
        complain "$experiment: claim $claim of tests/lab/verdicts.txt is gone (make verdicts refreshes the list)"
    done <gone
}
