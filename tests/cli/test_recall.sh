# scripts/recall: data, one run, its table, finished jobs are not repeated, jobs as commands; usage errors.
command -v python3 >/dev/null || exit 77
. "$BOCHNER_SOURCE/tests/cli/common.sh"
recall() {
    python3 "$BOCHNER_SOURCE/scripts/recall" --build "$(dirname "$BOCHNER")" --work W --examples 200 --tests 4 --farthest 256 \
        --steps 2 --kinds delta,gru --option "--eval-tokens 1" "$@"
}
succeeds recall --data-only
[ -s W/train-128-64.tsv ] && [ -s W/distance-256.tsv ] && [ -s W/pairs-64.tsv ] || complain "data is missing: $(ls W)"
[ ! -e W/distance-1024.tsv ] || complain "--farthest 256 made 1024"
succeeds recall --jobs
[ "$(wc -l <out)" = 4 ] || complain "expected three sizes of delta and gru: $(cat out)"
grep -q -- '--only delta/16/1$' out || complain "no job of delta: $(cat out)"
succeeds recall --only gru/0/1
succeeds recall --only delta/16/1
grep -q '"state_bytes": [1-9]' W/delta-16-1/result.json || complain "no state: $(cat W/delta-16-1/result.json)"
succeeds recall --jobs
[ "$(wc -l <out)" = 2 ] || complain "a job that is done is listed again: $(cat out)"
succeeds recall --table
[ "$(wc -l <out)" = 4 ] && grep -q '^| gru |  | [0-9,]* | ' out || complain "no table: $(cat out)"
fails 2 "no deltas|gated-delta" recall --kinds deltas
finish
