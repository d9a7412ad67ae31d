# Checks that dependencies between directories follow layers.txt: the #includes of the source tree, also of kernels and through other
# headers, and the symbols of the object files. First checks that violations are detected, on a small tree and a list of symbols
# with planted faults.
set -eu
here=$BOCHNER_SOURCE/tests/house

includes() { # DIRECTORY...
    find "$@" -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | LC_ALL=C sort | xargs awk -f "$here/modules.awk" -f "$here/layers.awk" "$here/layers.txt"
}
symbols() { awk -f "$here/modules.awk" -f "$here/symbols.awk" "$here/layers.txt" -; }
finds() { # EXPECTED COMMAND...: the command fails and prints this file
    expected=$1 && shift
    if "$@" >"$BOCHNER_BUILD/layers.out"; then
        echo "the planted faults of $expected were not noticed" >&2
        exit 1
    fi
    diff "$expected" "$BOCHNER_BUILD/layers.out" || { echo "$expected: not the faults expected" >&2; exit 1; }
}

cd "$here/fixtures"
finds expected.txt includes src cli lab bench
finds expected_symbols.txt symbols <symbols.txt

cd "$BOCHNER_SOURCE"
includes src cli lab bench include
cd "$BOCHNER_BUILD/CMakeFiles"
find bochner*.dir -name '*.o' | LC_ALL=C sort | while read -r object; do # those of removed files may be left
    source=${object#*.dir/}
    [ ! -e "$BOCHNER_SOURCE/${source%.o}" ] || echo "$object"
done | xargs nm -A -P | symbols
