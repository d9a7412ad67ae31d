# Runs a test of the server: sh run.sh SUBJECT [pypi | clients]. Status 77: skipped.
#
# tests/serve/SUBJECT.py uses the standard library alone, or also the packages that the test python.pypi or serve.long_pypi has
# installed into this directory of the build directory.
set -eu
subject=$1
skip() { echo "skipped: $1" && exit 77; }
case ${2:-system} in
system)
    python=python3
    [ -x /usr/bin/python3 ] && python=/usr/bin/python3
    command -v "$python" >/dev/null || skip "$python is not installed"
    ;;
pypi | clients)
    python=$BOCHNER_BUILD/$2/bin/python
    [ -x "$python" ] || skip "$python is not installed"
    ;;
esac
export PYTHONDONTWRITEBYTECODE=1 PYTHONUTF8=1
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy || true
cd "$BOCHNER_SOURCE/tests/serve"
exec "$python" -m unittest "$subject"
