# Checks the promises of the public headers (docs/reference/api.md):
#   - libbochner.so exports exactly the functions that the headers declare, each with the symbol version of its tier;
#   - the table of docs/reference/api.md lists them;
#   - public structs of the stable tiers have the sizes and offsets of layout.txt, so that a change of the ABI shows in a diff;
#   - no header declares a function that returns a struct, or an enumerator that counts.
# `make api` refreshes the table and layout.txt.
set -eu
api=$BOCHNER_SOURCE/cmake/api.awk
page=$BOCHNER_SOURCE/docs/reference/api.md
layout=$BOCHNER_SOURCE/tests/house/layout.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
complain()
{
    echo "$1" >&2
    failed=1
}

set -- "${1:-}" "$BOCHNER_SOURCE"/include/bochner/*.h
mode=$1
shift
LC_ALL=C
export LC_ALL

awk -f "$api" -v mode=table "$@" >"$work/table"
awk -v table="$work/table" '
    /^<!-- end of the table -->$/ { while ((getline line <table) > 0) print line; inside = 0 }
    !inside { print }
    /^<!-- the table: make api -->$/ { inside = 1 }' "$page" >"$work/page"
awk -f "$api" -v mode=layout "$@" >"$work/layout.c"
"$CC" -std=c11 -I"$BOCHNER_SOURCE/include" "$work/layout.c" -o "$work/layout"
if [ "$mode" = --refresh ]; then
    cp "$work/page" "$page"
    "$work/layout" >"$layout"
fi

diff -u "$page" "$work/page" || complain "docs/reference/api.md has another table than the headers: run \`make api\`"
if [ "$(getconf LONG_BIT)" = 64 ] && [ -z "${BOCHNER_EMULATOR:-}" ]; then
    "$work/layout" >"$work/layout.txt"
    diff -u "$layout" "$work/layout.txt" ||
        complain "the layout of public structs changed (above): a field belongs where reserved members were; then run \`make api\`"
fi

if [ -z "${SANITIZE:-}" ]; then # sanitizers export additional names
    minor=$(awk '/define BO_VERSION_MAJOR/ { major = $3 } /define BO_VERSION_MINOR/ { print major "." $3 }' \
        "$BOCHNER_SOURCE/include/bochner/base.h")
    awk -f "$api" -v mode=names "$@" | awk -v minor="$minor" '
        { print $1 "@@BOCHNER_" ($2 == "experimental" ? "EXPERIMENTAL_" : "") minor }' | sort >"$work/declared"
    nm -D --defined-only --with-symbol-versions "$BOCHNER_BUILD/libbochner.so" |
        awk '$2 == "T" { print $3 }' | sort >"$work/exported"
    diff -u "$work/declared" "$work/exported" || complain "libbochner.so exports other functions than the headers declare (above)"
fi

for struct in $(sed -n 's/^typedef struct \(bo_[a-z0-9_]*\).*/\1/p' "$@"); do
    grep "| \`$struct bo_" "$work/table" >"$work/values" && complain "this function returns a struct: $(cat "$work/values")"
done
grep -nE '^ *BO_[A-Z0-9_]+_COUNT\b' "$@" >"$work/counts" && complain "public enumerators that count: $(cat "$work/counts")"
echo "$(awk -f "$api" -v mode=names "$@" | wc -l) functions"
exit $failed
