# Each public header compiles alone, with and without its experimental part, as C11 and as C++, with every installed
# compiler and all warnings.
set -eu
failed=0
count=0
check() { # compiler language-flags header
    command -v "$1" >/dev/null 2>&1 || return 0
    count=$((count + 1))
    # $2 is unquoted so that it splits into flags.
    # shellcheck disable=SC2086
    printf '#include <bochner/%s>\n' "$3" |
        "$1" $2 -Wall -Wextra -Wpedantic -Wshadow -Werror -fsyntax-only -I"$BOCHNER_SOURCE/include" - ||
        { echo "$1 $2: <bochner/$3> does not compile alone" >&2; failed=1; }
}
for path in "$BOCHNER_SOURCE"/include/bochner/*.h; do
    header=${path##*/}
    for tiers in "" -DBO_EXPERIMENTAL; do
        for compiler in "$CC" gcc clang; do check "$compiler" "-std=c11 -xc -Wstrict-prototypes $tiers" "$header"; done
        for compiler in g++ clang++; do check "$compiler" "-std=c++11 -xc++ $tiers" "$header"; done
    done
done
echo "$count compilations"
exit $failed
