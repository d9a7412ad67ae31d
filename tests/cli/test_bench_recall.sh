# bench recall: each kind of memory has the capacity that theory predicts; the bits do not depend on the number of
# threads; bad options are refused.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# number KIND FIELD [INDEX]: a field in the row of a kind, or one number of a list.
number() {
    tr -d '\n' <out | sed 's/{/\n{/g' | grep "\"kind\": \"$1\"" |
        sed "s/.*\"$2\": *//; s/^\[//; s/[]}].*//" | cut -d, -f"${3:-1}"
}

succeeds "$BOCHNER" bench recall --json --tokens 256 --sizes 32 --lanes 4 --values 64 --horizon 16 --window 8
for kind in softmax softmax-norms power window identity elu poly favor favor-norms favor++ trig trig-norms rfa rfa-norms \
    rfa-gate hybrid hybrid-trig retention gla delta gated-delta ridge; do
    grep -q "\"kind\": \"$kind\"" out || complain "no row of $kind"
done
# Points are 1, 2, 4, … 256: the first is 1, the sixth 32, the ninth 256.
expect "softmax attention recalls everything" "$(number softmax capacity)" == 256
expect "softmax attention, the oldest" "$(number softmax by_distance 9)" == 1
expect "a window recalls what it holds" "$(number window by_distance 6)" == 1
expect "and nothing else" "$(number window by_distance 9)" "<" 0.2
expect "a window of a hybrid" "$(number hybrid by_distance 3)" ">" 0.5
for kind in identity favor trig rfa delta ridge gla hybrid; do
    expect "$kind: one pair alone" "$(number $kind by_length 1)" == 1
done
# 32 dimensions or features cannot separate 256 pairs.
for kind in identity favor rfa delta ridge; do expect "$kind: capacity" "$(number $kind capacity)" "<" 200; done
# A gate keeps recent pairs and forgets old ones; without a gate all distances are equal.
expect "a gate, the newest" "$(number retention by_distance 2)" ">" "$(number identity by_distance 2)"
expect "a gate, the oldest" "$(number retention by_distance 9)" "<" 0.2
# Sines and cosines need keys of equal norm.
expect "unit norms" "$(number rfa capacity)" ">" "$(number trig-norms capacity)"
[ "$(number rfa-norms by_length 3)" = "$(number rfa by_length 3)" ] || complain "RFA makes keys unit itself, other results"
# A larger state holds more pairs.
mv out small
succeeds "$BOCHNER" bench recall --json --tokens 256 --sizes 32 --lanes 4 --values 64 --horizon 16 --window 8 --threads 1
cmp -s out small || complain "another number of threads gives other metrics"
succeeds "$BOCHNER" bench recall --json --only rfa,delta --tokens 256 --sizes 128 --lanes 6 --values 64
mv out large
for kind in rfa delta; do
    cp small out; few=$(number $kind capacity)
    cp large out; expect "$kind: four times the state" "$(number $kind capacity)" ">" "$few"
done

succeeds "$BOCHNER" bench recall --only softmax,ridge --tokens 16 --lanes 2 --sizes 8,512 --plot held.svg --plot-distance far.svg
grep -q '^| softmax |  | ' out || complain "no row of exact in the table: $(cat out)"
[ "$(grep -c '^| ridge' out)" = 1 ] || complain "ridge of 512 dimensions is not left out: $(cat out)"
if command -v gnuplot >/dev/null; then
    for plot in held far; do [ -s $plot.svg ] || complain "no plot $plot.svg: $(cat err)"; done
fi
fails 2 "no part 'deltas'|did you mean delta" "$BOCHNER" bench recall --only deltas
fails 2 "--sizes|ascending|64,16" "$BOCHNER" bench recall --sizes 64,16
fails 2 "--plot-distance|.svg" "$BOCHNER" bench recall --plot-distance far.jpeg
fails 1 "nowhere" "$BOCHNER" bench recall --plot nowhere/held.svg
finish
