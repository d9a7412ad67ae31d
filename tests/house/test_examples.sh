# The programs of examples/ have at most 100 lines, compile against the public headers without warnings as C11 and as C++20, link
# only libbochner and libm, and succeed. `generate` gets a small model.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
cd "$work"
case $CC in
*clang*) cxx=$(command -v "${CC%%-*}++" || command -v clang++ || :) ;;
*) cxx=$(command -v g++ || :) ;;
esac
[ -n "$cxx" ] || echo "no C++ compiler: the examples are compiled as C only"

# build COMPILER STANDARD LANGUAGE PROGRAM OUT
build() {
    # shellcheck disable=SC2086
    "$1" -std="$2" -x "$3" -Wall -Wextra -Wpedantic -Wshadow -Werror -Wno-missing-field-initializers ${SANITIZE:+-fsanitize=$SANITIZE} \
        -I"$BOCHNER_SOURCE/include" "$4" -x none -L"$BOCHNER_BUILD" -lbochner -lm -Wl,-rpath,"$BOCHNER_BUILD" -o "$5"
}

awk 'BEGIN { for (i = 0; i < 200; i++) print "In the beginning was line " i "." }' >text.txt
"$BOCHNER" train --data text.txt --out model --layers 1 --width 32 --heads 2 --context 64 --steps 5 --quiet >train.log 2>&1 ||
    { cat train.log >&2; exit 1; }
for program in "$BOCHNER_SOURCE"/examples/*/main.c; do
    directory=$(dirname "$program")
    name=$(basename "$directory")
    lines=$(wc -l <"$program")
    [ "$lines" -le 100 ] || { echo "examples/$name has $lines lines, expected at most 100" >&2; failed=1; }
    [ -e "$directory/CMakeLists.txt" ] || { echo "examples/$name has no CMakeLists.txt" >&2; failed=1; }
    grep -q "\[\`$name\`\]($name/main.c)" "$BOCHNER_SOURCE/examples/README.md" || { echo "examples/README.md lacks $name" >&2; failed=1; }
    build "$CC" c11 c "$program" "$name" || { failed=1; continue; }
    "./$name" >"$name.out" 2>&1 || { echo "examples/$name failed:" >&2; cat "$name.out" >&2; failed=1; }
    tail -n 1 "$name.out"
    [ -n "$cxx" ] || continue
    build "$cxx" c++20 c++ "$program" "$name++" || { failed=1; continue; }
    "./$name++" >"$name++.out" 2>&1 || { echo "examples/$name failed as C++:" >&2; cat "$name++.out" >&2; failed=1; }
    diff "$name.out" "$name++.out" >&2 || { echo "examples/$name writes something else as C++" >&2; failed=1; }
done
exit $failed
