# scripts/cuda-bundle packs every test with the label cuda, except those in Python, in at most 30 MB, and the archive runs its tests without
# the source tree, the build directory and the libraries of packages. The emulator is its GPU here.
set -eu
[ -z "$SANITIZE" ] || { echo "a build with sanitizers"; exit 77; }
[ -e "$BOCHNER_BUILD/tests/libbochner_cuda_emulated.so" ] || { echo "the emulator was not built"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; cat "$work/out" >&2; exit 1; }
cd "$work"

"$BOCHNER_SOURCE/scripts/cuda-bundle" "$BOCHNER_BUILD" >out
archive=$BOCHNER_BUILD/cuda-bundle.tar.xz
[ "$(wc -c <"$archive")" -le 30000000 ] || fail "the bundle has $(wc -c <"$archive") bytes"
python3 -m tarfile -e "$archive" .
cd bochner-cuda-tests

ctest --test-dir "$BOCHNER_BUILD" -N -L '^cuda$' -LE '^python$' | sed -n 's/^ *Test *#[0-9]*: //p' | sort >"$work/expected"
[ -s "$work/expected" ] || fail "ctest lists no test with the label cuda"
./run-tests --list | sort >"$work/out"
cmp -s "$work/expected" "$work/out" || fail "the bundle has other tests than ctest: $(diff "$work/expected" "$work/out")"
grep -rnF -e "$BOCHNER_BUILD" -e "$BOCHNER_SOURCE" tests.json run-tests source >"$work/out" && fail "the bundle refers to directories of this host"

# Beside the C library, every shared library comes from the bundle.
for program in bochner tests/*; do ldd "$program"; done >"$work/out"
grep ' => ' "$work/out" | grep -vE "^[[:space:]]*lib(c|m|dl|rt|pthread)\.so| => $work/bochner-cuda-tests/" >"$work/others" &&
    fail "shared libraries of this host: $(cat "$work/others")"
grep -q "libmicrohttpd.* => $work/bochner-cuda-tests/" "$work/out" || fail "libmicrohttpd is not from the bundle"

# run STATUS VARIABLE ARGUMENTS...: run-tests with this exit status, and one variable in addition to PATH.
run() {
    expected=$1 variable=$2
    shift 2
    status=0
    env -i PATH="$PATH" "$variable" ./run-tests --jobs 2 "$@" >"$work/out" 2>&1 || status=$?
    [ $status -eq "$expected" ] || fail "run-tests $*: exit status $status instead of $expected"
}
emulator=BOCHNER_CUDA=$BOCHNER_BUILD/tests/libbochner_cuda_emulated.so
run 0 "$emulator" -R '^cuda\.(devices|serve)$|^model\.compose@cuda$'
[ "$(grep -c '^passed ' "$work/out")" = 3 ] || fail "tests of the bundle"
grep -q '^3 passed, 0 failed, 0 skipped, ' "$work/out" || fail "no closing line"

# A test that fails, one that is skipped, one that takes too long, and no device.
sed -i 's/"@BUNDLE@\/source\/tests\/cuda\/test_serve.sh"/"@BUNDLE@\/serve"/' tests.json
echo 'echo wrong; exit 3' >serve
run 1 "$emulator" -R '^cuda\.(devices|serve)$'
grep -q '^failed .* cuda.serve: exit status 3$' "$work/out" && grep -q '^    wrong$' "$work/out" || fail "no failure is reported"
grep -q '^1 passed, 1 failed, 0 skipped, ' "$work/out" || fail "the failure is not counted"
echo 'echo no python; exit 77' >serve
run 0 "$emulator" -R '^cuda\.serve$'
grep -q '^skipped .* cuda.serve: no python$' "$work/out" && grep -q '^0 passed, 0 failed, 1 skipped, ' "$work/out" || fail "a skipped test"
echo 'sleep 100' >serve
run 1 "$emulator" -R '^cuda\.serve$' --timeout 0.5
grep -q '^failed .* cuda.serve: killed after 0.5 s$' "$work/out" || fail "a test that does not end"
run 2 BOCHNER_CUDA="$work/absent.so" -R '^cuda\.serve$'
grep -q 'no GPU: .*absent.so does not exist' "$work/out" || fail "a plugin that does not exist"

# compute-sanitizer, here a script: a clean program, one with errors, one that is left out, and one that was checked before.
mkdir bin
cat >bin/compute-sanitizer <<'END'
#!/bin/sh
tool=$2
while [ "${1#-}" != "$1" ]; do shift 2; done
"$@" || exit
case $tool$1 in
racecheck*/test_cuda_devices)
    echo '========= Error: Race reported between Write access at void bo::a<float>(int)+0x40 and Read access at other(int)+0x60 [4 hazards]'
    echo '========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)' ;;
racecheck*) echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)' ;;
*) echo '========= ERROR SUMMARY: 0 errors' ;;
esac
END
chmod +x bin/compute-sanitizer
PATH=$PWD/bin:$PATH
run 1 "$emulator" -R '^cuda\.(devices|recording|serve)$' --sanitize memcheck,racecheck --skip 'recording memcheck' --results "$work/table"
grep -qxF '| cuda.devices | clean | 1: bo::a, other |' "$work/out" || fail "errors of a tool"
grep -qxF '| cuda.recording | left out | clean |' "$work/out" || fail "a test that is left out"
grep -q 'cuda.serve' "$work/out" && fail "a script under a tool"
run 1 "$emulator" -R '^cuda\.devices$' --sanitize memcheck,racecheck --results "$work/table"
grep -q ' s  cuda' "$work/out" && fail "results that are repeated"
run 2 "$emulator" -R '^cuda\.devices$' --sanitize memory

run 2 "$emulator" -R nothing
grep -q "no test matches 'nothing'" "$work/out" || fail "no test"
exit 0
