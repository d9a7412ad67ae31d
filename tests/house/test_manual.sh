# The manual pages and the lists of options in docs/reference/commands.md match the programs, and the pages are valid roff.
set -eu
page=$BOCHNER_BUILD/bochner.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain()
{
    echo "$1" >&2
    failed=1
}

"$BOCHNER" help --man <"$BOCHNER_SOURCE/cmake/bochner.1.in" >"$work/page"
cmp -s "$work/page" "$page" || complain "$page differs from the output of bochner help --man: build again"
for name in lab bench; do
    "$BOCHNER-$name" --describe man <"$BOCHNER_SOURCE/cmake/bochner-$name.1.in" | cmp -s - "$BOCHNER_BUILD/bochner-$name.1" ||
        complain "bochner-$name.1 differs from what bochner-$name says: build again"
    grep -q "^\\.BR bochner\\\\-$name (1)" "$page" || complain "the manual page does not name bochner-$name(1)"
done
"$BOCHNER" help --markdown <"$BOCHNER_SOURCE/docs/reference/commands.md" >"$work/commands.md" ||
    complain "docs/reference/commands.md: the marks of its lists are wrong"
diff "$BOCHNER_SOURCE/docs/reference/commands.md" "$work/commands.md" >"$work/diff" ||
    complain "docs/reference/commands.md differs from the options of the program; make docs updates it: $(head -n 5 "$work/diff")"

# The pages and the lists have every command and every option of --help-all, and no other option.
"$BOCHNER" --help | awk '/^Example/ { exit } /^  [a-z]/ { print $1 }' >"$work/commands"
grep -qx fit "$work/commands" || complain "bochner --help lists no commands"
for command in $(cat "$work/commands"); do
    grep -q "^\\.SS bochner $command" "$page" || complain "the manual page does not have the command $command"
    "$BOCHNER" "$command" --help-all 2>&1
done | grep -o -e '--[a-z][a-z0-9-]*' | sort -u >"$work/help"
cat "$page" "$BOCHNER_BUILD/bochner-lab.1" "$BOCHNER_BUILD/bochner-bench.1" | sed 's/\\-/-/g' | grep -o -e '--[a-z][a-z0-9-]*' | sort -u >"$work/options"
grep -q -e --quick "$work/options" || complain "the manual pages do not list --quick of bochner lab"
missing=$(comm -23 "$work/help" "$work/options" | tr '\n' ' ')
extra=$(comm -13 "$work/help" "$work/options" | grep -vx -e --version -e --name -e --all | tr '\n' ' ')
[ -z "$missing" ] || complain "the manual pages lack $missing"
[ -z "$extra" ] || complain "the manual pages have options that no command has: $extra"
for option in $(grep -vx -e --help -e --help-all -e --all -e --version "$work/help"); do
    grep -q "^| \`$option[\` ]" "$BOCHNER_SOURCE/docs/reference/commands.md" || complain "docs/reference/commands.md does not list $option"
done

if command -v groff >/dev/null; then
    for page in bochner bochner-lab bochner-bench; do
        groff -man -Tutf8 -K utf8 -ww "$BOCHNER_BUILD/$page.1" >"$work/text" 2>"$work/warnings"
        [ -s "$work/warnings" ] && complain "$page.1 is not valid roff: $(head -n 3 "$work/warnings")"
        grep -q 'number of threads' "$work/text" || complain "$page.1 shows no options"
    done
fi
exit $failed
