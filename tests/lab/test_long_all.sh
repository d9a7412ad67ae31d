# Runs the whole lab in quick mode within ten minutes, writes the report, and compares verdicts with the stored list.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/lab/timed.sh"
[ "${BOCHNER_LONG:-}" = 1 ] || exit 77
[ -z "$SANITIZE" ] || exit 77
start=$(date +%s)
succeeds "$BOCHNER" lab run all --quick --quiet --json
seconds=$(($(date +%s) - start))
echo "lab run all --quick: $seconds s"
expect "seconds of lab run all --quick" "$seconds" "<=" 600
sed 's/{"name"/\n&/g' out | awk -f "$BOCHNER_SOURCE/tests/lab/verdicts.awk" >verdicts
succeeds "$BOCHNER" lab report
[ -s lab-results/report.html ] || complain "no page"
"$BOCHNER" lab list --json | sed 's/{"name"/\n&/g' | sed -n 's/^{"name": "\([^"]*\)".*/\1/p' | while read -r name; do
    grep -q "<article id=\"$name\">" lab-results/report.html || echo "$name" >>absent
done
[ -e absent ] && complain "not on the page: $(tr '\n' ' ' <absent)"
. "$BOCHNER_SOURCE/tests/lab/verdicts.sh"
compare_verdicts verdicts "$BOCHNER_SOURCE/tests/lab/verdicts.txt"
finish
