# Runs a comparison with another program, written in Python: sh run.sh TEST.py. The interpreter is $BOCHNER_PYTHON
# (default: the one that `make test-peers` installed into the build directory, else python3).
set -eu
python=${BOCHNER_PYTHON:-$BOCHNER_BUILD/peers/bin/python}
[ -n "${BOCHNER_PYTHON:-}" ] || [ -x "$python" ] || python=python3
command -v "$python" >/dev/null || { echo "skipped: $python is not installed" && exit 77; }
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error TOKENIZERS_PARALLELISM=false PYTHONDONTWRITEBYTECODE=1
exec "$python" "$@"
