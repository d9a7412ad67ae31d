# The programs of examples/ have at most 100 lines, compile against the public headers without warnings, link nothing but
# libbochner and libm, and succeed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
flags=${SANITIZE:+-fsanitize=$SANITIZE}
cd "$work"
for program in "$BOCHNER_SOURCE"/examples/*/main.c; do
    folder=$(dirname "$program")
    name=$(basename "$folder")
    lines=$(wc -l <"$program")
    [ "$lines" -le 100 ] || { echo "examples/$name has $lines lines" >&2; failed=1; }
    [ -e "$folder/CMakeLists.txt" ] || { echo "examples/$name has no CMakeLists.txt" >&2; failed=1; }
    grep -q "\`$name/\`" "$BOCHNER_SOURCE/examples/README.md" || { echo "examples/README.md lacks $name" >&2; failed=1; }
    # shellcheck disable=SC2086
    "$CC" -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Werror $flags -I"$BOCHNER_SOURCE/include" "$program" -L"$BOCHNER_BUILD" \
        -lbochner -lm -Wl,-rpath,"$BOCHNER_BUILD" -o "$name" || { failed=1; continue; }
    "./$name" >"$name.out" || { echo "examples/$name failed:" >&2; cat "$name.out" >&2; failed=1; }
    tail -1 "$name.out"
done
exit $failed
