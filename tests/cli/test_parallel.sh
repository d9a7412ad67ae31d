# Ranks of mpirun: the model equals that of one process up to rounding; if a rank ends, the other ranks end and leave no
# model.
[ -n "${MPIEXEC:-}" ] || exit 77
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/cli/ranks.sh"

house 4000 21 >train.csv
house 200 22 >test.csv
options="--features 128 --gamma 0.2 --lambda 3 --quiet --threads 1"
cut -d, -f1-3 train.csv >inputs.csv
cut -d, -f4 train.csv >labels.csv
"$BOCHNER" features inputs.csv --kernel polynomial --degree 1 --gamma 1 --out inputs.npy --quiet >/dev/null
cut -d, -f1-3 test.csv >test_inputs.csv
"$BOCHNER" features test_inputs.csv --kernel polynomial --degree 1 --gamma 1 --out test_inputs.npy --quiet >/dev/null

# close A B: predictions differ by rounding, because sums have another order: at most 6e-8 (float32) times the condition
# number of the system (4000 rows / lambda 3) times the standard deviation of the prices (70).
close() {
    paste -d, "$1" "$2" | awk -F, 'NR > 1 { d = $1 - $2; if (d < 0) d = -d; if (d > 5.6e-3) bad++ } END { exit bad > 0 || NR < 100 }'
}

# shellcheck disable=SC2086
{
    succeeds "$BOCHNER" fit train.csv $options --stream --out one.model
    "$BOCHNER" predict one.model test.csv --quiet >one.csv
    succeeds "$BOCHNER" fit inputs.npy --labels labels.csv $options --stream --out one.model
    "$BOCHNER" predict one.model test_inputs.npy --quiet >one_npy.csv
    for number in 2 4; do
        rm -f ranks.model
        succeeds ranks $number "$BOCHNER" fit train.csv $options --test test.csv --out ranks.model --json
        [ "$(field out ranks)" = $number ] || complain "$number ranks call themselves $(field out ranks)"
        [ "$(field out rows)" = 4000 ] || complain "$number ranks saw $(field out rows) rows"
        [ "$(grep -c '"task"' out)" = 1 ] || complain "$number ranks printed $(grep -c '"task"' out) objects"
        "$BOCHNER" predict ranks.model test.csv --quiet >ranks.csv
        close one.csv ranks.csv || complain "$number ranks predict other numbers than one process"
        # a binary file, which allows seeking; and whole files for ranks
        succeeds ranks $number "$BOCHNER" fit inputs.npy --labels labels.csv $options --out ranks.model
        "$BOCHNER" predict ranks.model test_inputs.npy --quiet >ranks.csv
        close one_npy.csv ranks.csv || complain "$number ranks on .npy predict other numbers than one process"
    done
    for part in 1 2 3 4; do
        awk -v part=$part 'NR == 1 || NR % 4 == part - 1' train.csv >part$part.csv
    done
    succeeds ranks 2 "$BOCHNER" fit part1.csv part2.csv part3.csv part4.csv $options --out ranks.model --json
    [ "$(field out rows)" = 4000 ] || complain "four files on two ranks are $(field out rows) rows"
    "$BOCHNER" predict ranks.model test.csv --quiet >ranks.csv
    close one.csv ranks.csv || complain "four files on two ranks predict other numbers than one process"
}

# An error on any rank is reported and leaves no model.
awk -F, -v OFS=, 'NR == 3990 { $2 = "wide" } { print }' train.csv >bad.csv
rm -f ranks.model
ranks 2 "$BOCHNER" fit bad.csv --features 64 --out ranks.model >out 2>err && complain "bad input on two ranks succeeds"
grep -q "line 3990" err || complain "two ranks do not report the location: $(head -c 300 err)"
[ -e ranks.model ] && complain "bad input on two ranks left a model"
ranks 2 "$BOCHNER" fit train.csv --holdout 0.2 --out ranks.model >out 2>err && complain "--holdout on two ranks succeeds"
grep -q -e "--test FILE" err || complain "--holdout on two ranks is not explained"
[ "$(grep -c -e '--holdout is not' err)" = 1 ] || complain "two ranks explain --holdout $(grep -c -e '--holdout is not' err) times"

# A rank is killed in the middle of a long fit: many rows arrive slowly through a pipe.
awk 'BEGIN { srand(1); for (i = 0; i < 400000; i++) printf "%.4f,%.4f,%.4f\n", rand(), rand(), rand() }' >long.csv
ranks 2 "$BOCHNER" fit long.csv --features 2048 --gamma 1 --lambda 1 --threads 1 --out killed.model >out 2>err &
job=$!
victim=
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
    sleep 0.3
    victim=$(pgrep -f "fit long.csv.*killed.model" | while read -r p; do
        grep -qz '^OMPI_COMM_WORLD_RANK=1$' /proc/"$p"/environ 2>/dev/null && echo "$p"
    done | head -1)
    grep -q '^Plan' err && [ -n "$victim" ] && break
done
sleep 0.5
if [ -n "$victim" ]; then
    kill -9 "$victim"
    wait $job && complain "a killed rank goes unnoticed"
    grep -qi "another rank of the job ended\|signal 9\|killed" err || complain "a killed rank is not explained: $(head -c 500 err)"
    grep -q "another rank of the job ended" err || complain "the surviving rank prints no message: $(head -c 500 err)"
else
    wait $job
    complain "no rank was found to kill"
fi
[ -z "$(ls | grep killed)" ] || complain "a killed rank left $(ls | grep killed)"
finish
