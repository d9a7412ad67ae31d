# Names are unique and consistent: identifiers use the words of the field (names.py), a struct, enum or union with a bo_, cli_
# or lab_ name is defined in one place, functions named bo_plan_* belong to src/plan, files that comments mention exist, and
# spelling is American. Names in files of earlier versions keep their spelling, on lines listed in `allowed`.
set -eu
cd "$BOCHNER_SOURCE"
failed=0

find src lab bench cli include tests examples python -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.[ch]pp' -o -name '*.py' |
    LC_ALL=C sort | xargs python3 tests/house/names.py docs/reference/glossary.md || failed=1

find src lab bench cli include -name '*.[ch]' | LC_ALL=C sort | xargs awk '
    match($0, /^(typedef )?(struct|enum|union) (bo|cli|lab)_[a-z0-9_]+ \{/) {
        name = $0; sub(/ \{.*/, "", name); sub(/.* /, "", name)
        if (name in where) { print name ": " where[name] " and " FILENAME ":" FNR; twice = 1 }
        where[name] = FILENAME ":" FNR
    }
    END { exit twice }' >"$BOCHNER_BUILD/names.out" ||
    { echo "type names with two definitions:" >&2; cat "$BOCHNER_BUILD/names.out" >&2; failed=1; }

find src lab bench cli -name '*.[ch]' ! -path 'src/plan/*' | LC_ALL=C sort |
    xargs grep -nE '^[a-z].*[ *]bo_plan_[a-z0-9_]+\(' >"$BOCHNER_BUILD/names.out" &&
    { echo "functions named bo_plan_* outside src/plan:" >&2; cat "$BOCHNER_BUILD/names.out" >&2; failed=1; }

# Names in comments that look like C files: at least two letters, so that struct members (w.c) do not count.
find . -path ./build -prune -o -path ./.git -prune -o -name '*.[ch]' -print | sed 's,.*/,,' | LC_ALL=C sort -u >"$BOCHNER_BUILD/files.out"
find src lab bench cli -name '*.[ch]' | LC_ALL=C sort | xargs awk -v files="$BOCHNER_BUILD/files.out" '
    BEGIN { while ((getline name < files) > 0) known[name] = 1; known["llama2.c"] = 1 } # a program, not a file
    FNR == 1 { inside = 0 }
    {
        line = $0; text = ""
        while (line != "") {
            if (!inside) {
                at = index(line, "/*")
                if (at == 0) break
                line = substr(line, at + 2); inside = 1
            }
            at = index(line, "*/")
            if (at == 0) { text = text " " line; break }
            text = text " " substr(line, 1, at - 1); line = substr(line, at + 2); inside = 0
        }
        while (match(text, /[a-z0-9_<\/-]*[a-z0-9_][a-z0-9_]\.[ch]([^a-z0-9_.(\[]|\.?$|\.[^a-z])/)) {
            name = substr(text, RSTART, RLENGTH); text = substr(text, RSTART + RLENGTH)
            system_header = name ~ /^</ && name !~ /^<bochner/
            sub(/\.[ch].*$/, substr(name, match(name, /\.[ch]/), 2), name); sub(/.*[\/<]/, "", name)
            if (!system_header && !(name in known)) { print FILENAME ":" FNR ": " name; stale = 1 }
        }
    }
    END { exit stale }' >"$BOCHNER_BUILD/names.out" ||
    { echo "comments that name files which do not exist:" >&2; cat "$BOCHNER_BUILD/names.out" >&2; failed=1; }

# Names of a weight, of a stream of random numbers and of an attribute of HTML; the others are read by compatibility code.
allowed='--normaliser|"\.neighbours"|rf-equivalence\.neighbours|rope-neighbours"|aria-labelledby|"normaliser"|machine\.centre'
stems='normal|optim|parametr|initial|recogn|organ|minim|maxim|regular|summar|vector|token|linear|factor|quant|serial'
stems="$stems|standard|orthogonal|penal|general|symmetr|final|special|random|synchron"
british="($stems)is(e|es|ed|er|ers|ing|ation|ations)([^a-z]|$)|behaviour|colour|neighbour|centre|favour|labell|modell"
british="$british|cancelled|honour|learnt|licence|analyse[^s]|towards"
find README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md Makefile CMakeLists.txt src lab bench cli include tests docs cmake scripts examples -type f |
    grep -vE '^tests/(data|fuzz/corpus)/|^tests/house/(test_names.sh|codespell.txt)|\.(svg|pyc|safetensors)$' | LC_ALL=C sort | xargs grep -nEi "$british" | grep -vE -e "$allowed" >"$BOCHNER_BUILD/spelling.out" || true
[ -s "$BOCHNER_BUILD/spelling.out" ] &&
    { echo "British spelling:" >&2; head -20 "$BOCHNER_BUILD/spelling.out" >&2; failed=1; }
exit $failed
