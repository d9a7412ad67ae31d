# Runs a test of the Python package: sh run.sh SUBJECT [debian|pypi|peers]. Status 77: skipped.
#
# The package is the one that the test python.install (python.pypi) has installed into the build directory. `debian`
# (default): with the packages of the system; `pypi`: with the newest ones; `peers`: with those of `make test-peers`,
# which has PyTorch and transformers.
set -eu
subject=$1
case ${2:-debian} in
debian) python=$BOCHNER_BUILD/python/bin/python ;;
pypi) python=$BOCHNER_BUILD/pypi/bin/python ;;
peers) python=${BOCHNER_PYTHON:-$BOCHNER_BUILD/peers/bin/python} ;;
esac
skip() { echo "skipped: $1" && exit 77; }
[ -x "$python" ] || skip "$python is not installed"
"$python" -c 'import pytest' 2>/dev/null || skip "pytest is not installed (Debian: python3-pytest)"
export HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=2
if [ "${2:-}" = peers ]; then # that environment does not have the package: take it from the other one
    PYTHONPATH=$("$BOCHNER_BUILD/python/bin/python" -c 'import bochner, pathlib; print(pathlib.Path(bochner.__file__).parent.parent)')
    export PYTHONPATH
fi
case ${SANITIZE:-} in
*address*) # the interpreter itself has no sanitizer, and does not free everything at its end; the program has its own
    runtime=$("$CC" -print-file-name="libclang_rt.asan-$(uname -m).so")
    [ -e "$runtime" ] || runtime=$("$CC" -print-file-name=libasan.so):$("$CC" -print-file-name=libubsan.so)
    program=$(mktemp) && trap 'rm -f "$program"' EXIT
    printf '#!/bin/sh\nunset LD_PRELOAD\nexec "%s" "$@"\n' "$BOCHNER" >"$program" && chmod +x "$program"
    BOCHNER=$program LD_PRELOAD=$runtime ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0
    export BOCHNER LD_PRELOAD ASAN_OPTIONS
    ;;
thread) skip "the interpreter has no ThreadSanitizer" ;;
esac
cd "$BOCHNER_SOURCE/tests/python"
status=0
"$python" -m pytest -q -rs -p no:cacheprovider "test_$subject.py" || status=$?
[ $status = 5 ] && skip "no test of $subject can run with these packages" # all are skipped
exit $status
