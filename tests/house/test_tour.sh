# docs/explanation/tour.md names a file and a function in each row of its tables: the function must be defined in that
# file. First checks that faults are detected.
set -eu
cd "$BOCHNER_SOURCE"

# A definition starts in the first column and its line does not end with a semicolon.
check() {
    sed -n 's/^| \[\([^]]*\)\](\.\.\/[^)]*) | `\([a-z0-9_]*\)` |.*/\1 \2/p' "$1" | {
        rows=0
        wrong=0
        while read -r file name; do
            rows=$((rows + 1))
            if ! grep -qE "^[a-z].*[ *]$name\(" "$file" 2>/dev/null || ! grep -E "^[a-z].*[ *]$name\(" "$file" | grep -qv ';$'; then
                echo "$1: $name is not defined in $file"
                wrong=1
            fi
        done
        [ $rows -gt 0 ] || { echo "$1: no rows"; wrong=1; }
        return $wrong
    }
}

printf '| [cli/main.c](../cli/main.c) | `no_such_function` | |\n' >"$BOCHNER_BUILD/tour.md"
if check "$BOCHNER_BUILD/tour.md" >/dev/null; then
    echo "a planted wrong row was not noticed" >&2
    exit 1
fi
check docs/explanation/tour.md >&2
