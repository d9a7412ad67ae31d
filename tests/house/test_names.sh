# One name, one thing: a struct, enum or union with a bo_, cli_ or lab_ name is defined in one place, and words are spelled
# as American English spells them. Names in files of earlier versions keep their spelling, on lines listed in `allowed`.
set -eu
cd "$BOCHNER_SOURCE"
failed=0

find src lab bench cli include -name '*.[ch]' | LC_ALL=C sort | xargs awk '
    match($0, /^(typedef )?(struct|enum|union) (bo|cli|lab)_[a-z0-9_]+ \{/) {
        name = $0; sub(/ \{.*/, "", name); sub(/.* /, "", name)
        if (name in where) { print name ": " where[name] " and " FILENAME ":" FNR; twice = 1 }
        where[name] = FILENAME ":" FNR
    }
    END { exit twice }' >"$BOCHNER_BUILD/names.out" ||
    { echo "type names with two definitions:" >&2; cat "$BOCHNER_BUILD/names.out" >&2; failed=1; }

# The first is a weight name, the second a stream of random numbers, the others are read by compatibility code.
allowed='--normaliser|"\.neighbours"|rf-equivalence\.neighbours|rope-neighbours"|"normaliser"|"machine\.centre"'
stems='normal|optim|parametr|initial|recogn|organ|minim|maxim|regular|summar|vector|token|linear|factor|quant|serial'
stems="$stems|standard|orthogonal|penal|general|symmetr|final|special|random|synchron"
british="($stems)is(e|es|ed|er|ers|ing|ation|ations)([^a-z]|$)|behaviour|colour|neighbour|centre|favour|labell|modell"
british="$british|cancelled|honour|learnt|licence|analyse[^s]"
find README.md CHANGELOG.md CONTRIBUTING.md Makefile CMakeLists.txt src lab bench cli include tests docs cmake scripts examples -type f |
    grep -vE '^tests/(data|fuzz/corpus)/|^tests/house/test_names.sh|\.(svg|pyc|safetensors)$' | LC_ALL=C sort | xargs grep -nEi "$british" | grep -vE -e "$allowed" >"$BOCHNER_BUILD/spelling.out" || true
[ -s "$BOCHNER_BUILD/spelling.out" ] &&
    { echo "British spelling:" >&2; head -20 "$BOCHNER_BUILD/spelling.out" >&2; failed=1; }
exit $failed
