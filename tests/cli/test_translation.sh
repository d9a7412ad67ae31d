# scripts/translation: runs, a stopped and continued call, the table, the plot; usage errors.
command -v python3 >/dev/null || exit 77
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/cli/tasks.sh"
mkdir data
numbers 300 1 >data/train.tsv
numbers 40 2 >data/val.tsv
numbers 40 3 >data/test.tsv
translation() { python3 "$BOCHNER_SOURCE/scripts/translation" "$@"; }
small() {
    translation --build "$(dirname "$BOCHNER")" --multi30k data --out out.d --set curve --steps 8 --every 4 --cores 2 \
        --option "--layers 1 --width 16 --heads 2 --vocab 280 --pack 128" "$@"
}
succeeds translation --list
grep -q '^curve: rfa-gate: --attention rfa-gate ' out || complain "--list: $(cat out)"
succeeds small --work W --only softmax,short --seeds 1,2 --run "short=0.5 --attention softmax; 0.5 --attention rfa --features 8" --test
grep -q '^| softmax | 2 | [0-9,]* | 8 | [0-9.]* ± ' out && grep -q '^| short | 1 | ' out || complain "table: $(cat out)"
[ "$(grep -c '^softmax,[12],[48],' out.d/curve.csv)" = 4 ] && [ "$(grep -c '^short,1,[48],' out.d/curve.csv)" = 2 ] ||
    complain "curve.csv: $(cat out.d/curve.csv)"
mv out table
succeeds translation --out out.d --set curve --table
cmp -s out table || complain "--table differs: $(cat out)"
if command -v gnuplot >/dev/null; then
    succeeds translation --out out.d --set curve --table --plot curve.svg
    grep -q '>softmax<' curve.svg || complain "the plot lacks a name"
fi

# Finished runs are not repeated, and a continued run has the points of an uninterrupted run.
cut -d, -f1-4,6- out.d/curve.csv >whole
find W -name 'val*.json' | sort | xargs ls -l --time-style=full-iso >before
succeeds small --work W --only softmax,short --seeds 1,2 --run "short=0.5 --attention softmax; 0.5 --attention rfa --features 8" --test --resume
find W -name 'val*.json' | sort | xargs ls -l --time-style=full-iso >after
cmp -s before after || complain "--resume evaluated again"
rm -r W/curve-softmax-2/stage-0/checkpoints/step-*8
mkdir W/curve-softmax-2/stage-0/checkpoints/step-4.damaged # is no checkpoint
succeeds small --work W --only softmax,short --seeds 1,2 --run "short=0.5 --attention softmax; 0.5 --attention rfa --features 8" --test --resume
cut -d, -f1-4,6- out.d/curve.csv | cmp -s - whole || complain "a continued run differs: $(cat out.d/curve.csv)"

# A signal ends the call: a stopped evaluation is not stored, and waiting runs do not start.
mkdir slow
printf '#!/bin/sh\ncase $1 in eval) exec sleep 60 ;; esac\nexec "%s" "$@"\n' "$BOCHNER" >slow/bochner
chmod +x slow/bochner
python3 "$BOCHNER_SOURCE/scripts/translation" --build slow --multi30k data --out out.d --set curve --steps 8 --every 4 \
    --cores 1 --option "--layers 1 --width 16 --heads 2 --vocab 280 --pack 128" --work V --only softmax --seeds 1,2 \
    >out 2>err &
for i in $(seq 300); do grep -qs ' eval ' V/*/log && break || sleep 0.1; done
sleep 1
kill $!
wait $! && complain "a stopped call succeeded"
! grep -q Traceback err && grep -q 'stopped before it started' err || complain "stopped: $(cat err)"
[ -z "$(find V -name 'val*.json')" ] || complain "a stopped evaluation was stored"
succeeds small --work V --only softmax --seeds 1,2 --resume

fails 2 "--run|share of the steps|found rfa" small --work W --run "x=rfa"
fails 2 "nothing is unknown|softmax" small --work W --only nothing
fails 2 "--out is missing" translation --table
fails 1 "has no train*.tsv" translation --multi30k . --work W --out out.d
finish
