# The man page and --help tell the same: every option of every command stands in the page, and the page has no other.
set -eu
page=$BOCHNER_BUILD/bochner.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$BOCHNER" --help | awk '/^Commands/ { on = 1; next } on && /^  [a-z]/ { print $1; next } on { exit }' >"$work/commands"
grep -qx fit "$work/commands" || { echo "bochner --help lists no commands" >&2; exit 1; }
for command in $(cat "$work/commands"); do
    grep -q "^\\.SS .*bochner $command\\|^\\.B bochner $command\\|^\\.BR* .*$command" "$page" ||
        { echo "the man page does not have the command $command" >&2; exit 1; }
    "$BOCHNER" "$command" --help 2>&1
done | grep -o -e '--[a-z][a-z0-9-]*' | sort -u >"$work/help"
sed 's/\\-/-/g' "$page" | grep -o -e '--[a-z][a-z0-9-]*' | sort -u >"$work/page"
missing=$(comm -23 "$work/help" "$work/page" | tr '\n' ' ')
extra=$(comm -13 "$work/help" "$work/page" | grep -vx -e --version | tr '\n' ' ')
[ -z "$missing" ] || echo "the man page lacks $missing" >&2
[ -z "$extra" ] || echo "the man page has options that no command knows: $extra" >&2
[ -z "$missing$extra" ]
