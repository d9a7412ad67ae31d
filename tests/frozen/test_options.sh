# Two steps of training with many options give the weights that an earlier version computed with the same options. Later
# versions need not keep these bits, unlike those of files: a change that means to train otherwise replaces the digests.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
[ -z "${SANITIZE:-}" ] || exit 77 # the plain kernels, whose speed every run measures, take minutes
BOCHNER_ISA=ref
export BOCHNER_ISA
files=$BOCHNER_SOURCE/tests/frozen/d78e7484
cp -r "$files"/runs/*.* "$files/pretrained/base" .

# short NUMBER DIGEST OPTIONS...: a line of options.txt; what is wrong goes to the file NUMBER.wrong.
short() {
    number=$1
    expected=$2
    shift 2
    "$BOCHNER" train "$@" --steps 2 --valid-fraction 0 --seed 9 --threads 1 --quiet --out "$number" >/dev/null 2>"$number.wrong" || return
    weights=model.safetensors
    if [ -e "$number/adapter_model.safetensors" ]; then weights=adapter_model.safetensors; fi
    found=$(sh "$BOCHNER_SOURCE/tests/frozen/digest.sh" "$number/$weights" "")
    if [ "$found" = "$expected " ]; then : >"$number.wrong"; else echo "other weights" >"$number.wrong"; fi
}

count=0
while read -r digest options; do
    count=$((count + 1))
    # shellcheck disable=SC2086
    short $count "$digest" $options &
    [ $((count % 4)) -eq 0 ] && wait # the runs wait for the disk most of the time
done <"$files/options.txt"
wait
[ $count -eq 18 ] || complain "$count lines instead of 18"
for number in $(seq $count); do
    [ -s "$number.wrong" ] && complain "$(sed -n "${number}s/^[^ ]* //p" "$files/options.txt"): $(cat "$number.wrong")"
done
finish
