# Attention under limits of the address space, from the smallest under which the program starts to one under which it
# succeeds: every kind ends with its output, or with a message about memory and exit status 1, and leaves no output then.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/cli/arrays.sh"
[ -z "$SANITIZE" ] || finish # sanitizers reserve terabytes
ldd "$BOCHNER" | grep -q openblas && finish # it retries a failed allocation forever

piece normal "60, 16" 0 >Q.npy
piece gates "60," 0 >G.npy
piece gates "60, 16" 0 >G16.npy
succeeds "$BOCHNER" attention --help-all
kinds=$(tr -s ' \n' '  ' <out | sed 's/.*--kind KIND kind of attention: //; s/ --causal .*//; s/,//g')

least=6144 # KiB
while ! (ulimit -v $least && "$BOCHNER" --version) >out 2>err; do
    least=$((least + 256))
    [ $least -lt 400000 ] || finish # an emulator reserves gigabytes
done
for kind in $kinds "favor --sampling optimal"; do
    gate=
    case $kind in rfa-gate | gated-*) gate="--gate G.npy" ;; gla) gate="--gate G16.npy" ;; esac
    limit=$least
    while :; do
        rm -f O.npy
        # shellcheck disable=SC2086
        (ulimit -v $limit && exec timeout -s KILL 20 "$BOCHNER" attention --q Q.npy --k Q.npy --v Q.npy --kind $kind $gate \
            --causal --out O.npy) >out 2>err
        status=$?
        [ $status -eq 0 ] && break
        if [ $status -ne 1 ] || [ -e O.npy ] || ! grep -q "out of memory\|but the limit is" err; then
            complain "$kind within $limit KiB: exit status $status: $(head -c 300 err)"
            break
        fi
        limit=$((limit + 384))
        [ $limit -lt 400000 ] || { complain "$kind does not succeed within $limit KiB"; break; }
    done
    [ -s O.npy ] || complain "$kind: no output"
done
[ "$limit" -gt "$least" ] || complain "no limit was too small"
finish
