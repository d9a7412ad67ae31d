# Runs a test of the server: sh run.sh SUBJECT [clients]. Status 77: skipped.
#
# tests/serve/SUBJECT.py uses the standard library alone; with `clients`, also the packages that the test serve.clients has
# installed into the build folder.
set -eu
subject=$1
skip() { echo "skipped: $1" && exit 77; }
case ${2:-system} in
system)
    python=python3
    [ -x /usr/bin/python3 ] && python=/usr/bin/python3
    command -v "$python" >/dev/null || skip "$python is not installed"
    ;;
clients)
    python=$BOCHNER_BUILD/clients/bin/python
    [ -x "$python" ] || skip "$python is not installed"
    ;;
esac
export PYTHONDONTWRITEBYTECODE=1 PYTHONUTF8=1
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy || true
cd "$BOCHNER_SOURCE/tests/serve"
exec "$python" -m unittest "$subject"
