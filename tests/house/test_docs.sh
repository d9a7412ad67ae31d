# Links between the pages lead to files that exist, and whole C programs in them compile.
set -eu
cd "$BOCHNER_SOURCE"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
for page in *.md docs/*.md docs/*/*.md examples/*.md; do
    [ -e "$page" ] || continue
    folder=$(dirname "$page")
    for link in $(grep -o ']([^)]*)' "$page" | sed 's/^](//; s/[)#].*$//' | grep -v '^[a-z]*:'); do
        [ -e "$folder/$link" ] || { echo "$page: the link to $link leads nowhere" >&2; failed=1; }
    done
    awk -v out="$work/$(echo "$page" | tr / _)" '
        /^```c$/ { on = 1; n++; next } /^```/ { on = 0 } on { print > (out "." n ".c") }' "$page"
done
for program in "$work"/*.c; do
    [ -e "$program" ] && grep -q 'int main' "$program" || continue
    "$CC" -std=c11 -Wall -Wextra -Werror -fsyntax-only -Iinclude "$program" ||
        { echo "a program in ${program##*/} does not compile" >&2; failed=1; }
done
exit $failed
