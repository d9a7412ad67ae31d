# Runs the whole lab in quick mode within ten minutes, and writes the report.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
[ "${BOCHNER_LONG:-}" = 1 ] || exit 77
[ -z "$SANITIZE" ] || exit 77
start=$(date +%s)
succeeds "$BOCHNER" lab run all --quick --quiet
seconds=$(($(date +%s) - start))
echo "lab run all --quick: $seconds s"
expect "seconds of lab run all --quick" "$seconds" "<=" 600
succeeds "$BOCHNER" lab report
[ -s lab-results/report.html ] || complain "no page"
"$BOCHNER" lab list --json | sed 's/{"name"/\n&/g' | sed -n 's/^{"name": "\([^"]*\)".*/\1/p' | while read -r name; do
    grep -q "<article id=\"$name\">" lab-results/report.html || echo "$name" >>absent
done
[ -e absent ] && complain "not on the page: $(tr '\n' ' ' <absent)"
finish
