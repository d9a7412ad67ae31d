# The comparison of verdicts with a stored list, on made-up results (test_long_all.sh compares those of the lab).
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/lab/timed.sh"
. "$BOCHNER_SOURCE/tests/lab/verdicts.sh"

# claim NAME VERDICT RULE BOUND VALUES
claim() {
    printf '{"name": "%s", "verdict": "%s", "rule": "%s", %s, "mean": 1, "values": [%s]}' "$@"
}
{
    printf '{"experiments": [{"name": "made", "held": 1, "seconds": 1, "claims": ['
    claim first held "at least" '"bound": 1' "1, 2, 3"
    printf ', '
    claim second inconclusive between '"bound": -0.6, "upper": -0.4' "-0.5, -0.7, -0.41"
    printf ', '
    claim third failed "each at most" '"bound": 1e-05' "2e-05, 1, 3"
    printf ', '
    claim fourth inconclusive "at most" '"bound": 0' "-1, null, -2"
    printf ']}, {"name": "ssm", "held": 1, "claims": ['
    claim by-length failed "at most" '"bound": 0' "1, 1, 1"
    printf ']}]}\n'
} | sed 's/{"name"/\n&/g' | awk -f "$BOCHNER_SOURCE/tests/lab/verdicts.awk" >found
printf '%s\n' "made first held all" "made second inconclusive some" "made third failed none" "made fourth inconclusive some" \
    "ssm by-length failed none" >expected
cmp -s found expected || complain "verdicts: $(cat found)"

# reports LIST WORDS: the comparison with the list, one claim per line, reports the words, or nothing.
reports() {
    printf '%s\n' "$1" >list
    (
        failures=0
        compare_verdicts found list
        exit "$failures"
    ) 2>messages
    count=$?
    if [ -z "$2" ]; then
        [ $count -eq 0 ] || complain "reported without a reason: $(cat messages)"
    else
        [ $count -eq 1 ] || complain "$count messages instead of one: $(cat messages)"
        grep -qF -e "$2" messages || complain "the message lacks '$2': $(cat messages)"
    fi
}
reports "# a comment
made first held
made second varies
made third failed
made fourth varies" ""
reports "made first meets
made second varies
made third misses
made fourth varies
other claim held" ""
reports "made first failed
made second varies
made third failed
made fourth varies" "made: claim first: expected failed, found held"
reports "made first held
made second meets
made third failed
made fourth varies" "made: claim second: expected all seeds on the claimed side of the bound, found some"
reports "made first held
made second varies
made third failed
made fourth misses" "made: claim fourth: expected no seed on the claimed side of the bound, found some"
reports "made first held
made second varies
made fourth varies" "made: claim third is not in tests/lab/verdicts.txt"
reports "made first held
made second varies
made third failed
made fourth varies
made fifth held" "made: claim fifth of tests/lab/verdicts.txt is gone"
finish
