# Networks that an earlier version saved predict with the same bits. The arrays of predictions are float64.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
BOCHNER_ISA=ref
export BOCHNER_ISA
files=$BOCHNER_SOURCE/tests/frozen/d78e7484/networks
count=0
for directory in "$files"/*/; do
    name=$(basename "$directory")
    case $name in
    graph | message) set -- "$files/nodes8.npy" --graph "$files/edges.csv" ;;
    conv | groups | patches) set -- "$files/rows32.npy" ;;
    *) if grep -q '"sequence"' "$directory/network.json"; then set -- "$files/rows24.npy"; else set -- "$files/rows8.npy"; fi ;;
    esac
    [ "$name" = reconstructs ] || set -- "$@" --proba
    succeeds "$BOCHNER" predict "$directory" "$@" --quiet --threads $((1 + count % 2)) --out found.npy
    cmp -s found.npy "$files/$name.npy" || complain "$name: other predictions: $(cmp found.npy "$files/$name.npy" 2>&1)"
    count=$((count + 1))
done
[ $count -eq 29 ] || complain "$count networks instead of 29"
finish
