# The manual page and the lists of options in docs/reference/commands.md match the program, and the page is valid roff.
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
"$BOCHNER" help --markdown <"$BOCHNER_SOURCE/docs/reference/commands.md" >"$work/commands.md" ||
    complain "docs/reference/commands.md: the marks of its lists are wrong"
diff "$BOCHNER_SOURCE/docs/reference/commands.md" "$work/commands.md" >"$work/diff" ||
    complain "docs/reference/commands.md differs from the options of the program; make docs updates it: $(head -n 5 "$work/diff")"

# The page and the lists have every command and every option of --help-all, and no other option.
"$BOCHNER" --help | awk '/^Example/ { exit } /^  [a-z]/ { print $1 }' >"$work/commands"
grep -qx fit "$work/commands" || complain "bochner --help lists no commands"
for command in $(cat "$work/commands"); do
    grep -q "^\\.SS bochner $command" "$page" || complain "the manual page does not have the command $command"
    "$BOCHNER" "$command" --help-all 2>&1
done | grep -o -e '--[a-z][a-z0-9-]*' | sort -u >"$work/help"
sed 's/\\-/-/g' "$page" | grep -o -e '--[a-z][a-z0-9-]*' | sort -u >"$work/options"
missing=$(comm -23 "$work/help" "$work/options" | tr '\n' ' ')
extra=$(comm -13 "$work/help" "$work/options" | grep -vx -e --version -e --name -e --all | tr '\n' ' ')
[ -z "$missing" ] || complain "the manual page lacks $missing"
[ -z "$extra" ] || complain "the manual page has options that no command has: $extra"
for option in $(grep -vx -e --help -e --help-all -e --all -e --version "$work/help"); do
    grep -q "^| \`$option[\` ]" "$BOCHNER_SOURCE/docs/reference/commands.md" || complain "docs/reference/commands.md does not list $option"
done

if command -v groff >/dev/null; then
    groff -man -Tutf8 -K utf8 -ww "$page" >"$work/text" 2>"$work/warnings"
    [ -s "$work/warnings" ] && complain "the manual page is not valid roff: $(head -n 3 "$work/warnings")"
    grep -q 'number of threads' "$work/text" || complain "the manual page shows no options"
fi
exit $failed
