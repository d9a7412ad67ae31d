# BLEU is that of sacreBLEU, without smoothing: both tokenizations, lower case, realistic and random corpora, short and empty
# hypotheses. sacreBLEU is installed into the build directory once. The test is skipped if it cannot be installed.
set -eu
skip() { echo "skipped: $1" && exit 77; }
command -v python3 >/dev/null || skip "python3 is not installed"
packages=$BOCHNER_BUILD/sacrebleu
if ! python3 -c 'import sacrebleu' 2>/dev/null; then
    if [ ! -e "$packages/complete" ]; then
        rm -rf "$packages"
        python3 -m pip install --quiet --disable-pip-version-check --retries 0 --timeout 10 --target "$packages" sacrebleu 2>/dev/null ||
            skip "sacreBLEU cannot be installed with pip"
        : >"$packages/complete"
    fi
    export PYTHONPATH="$packages"
    python3 -c 'import sacrebleu' 2>/dev/null || skip "the installed sacreBLEU cannot be imported"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2086
"$CC" -std=c11 -Wall -Wextra -Werror ${SANITIZE:+-fsanitize=$SANITIZE} -I"$BOCHNER_SOURCE/include" \
    "$BOCHNER_SOURCE/tests/text/print_bleu.c" -L"$BOCHNER_BUILD" -lbochner -lm -Wl,-rpath,"$BOCHNER_BUILD" -o "$work/print_bleu"
python3 "$BOCHNER_SOURCE/tests/text/sacrebleu_cases.py" "$work/print_bleu" "$BOCHNER_SOURCE"/docs/guides/*.md "$BOCHNER_SOURCE"/docs/results/*.md
