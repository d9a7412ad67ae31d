# Checks that dependencies between folders follow layers.txt, by reading the #includes. First checks that violations are
# detected, on a small tree with planted faults.
set -eu
here=$BOCHNER_SOURCE/tests/house

cd "$here/fixtures"
if find src cli -name '*.[ch]' | LC_ALL=C sort | xargs awk -f "$here/layers.awk" "$here/layers.txt" >"$BOCHNER_BUILD/layers.out"; then
    echo "the planted faults of tests/house/fixtures were not noticed" >&2
    exit 1
fi
diff expected.txt "$BOCHNER_BUILD/layers.out" || { echo "tests/house/fixtures: not the faults expected" >&2; exit 1; }

cd "$BOCHNER_SOURCE"
find src cli lab bench include -name '*.[ch]' | LC_ALL=C sort | xargs awk -f "$here/layers.awk" "$here/layers.txt"
