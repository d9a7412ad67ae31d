# Attention of arrays: comparison with a reference in awk, kinds compared with each other, errors compared with the
# output of compare, bad input.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

. "$BOCHNER_SOURCE/tests/cli/arrays.sh"

piece normal "2, 37, 5" 0 >Q.npy
piece normal "2, 37, 5" 400 >K.npy
piece normal "2, 37, 5" 800 >V.npy
piece gates "2, 37" 3 >G.npy

# ---- softmax ---------------------------------------------------------------------------------------------------------
attend --q Q.npy --k K.npy --v V.npy --kind softmax --out O.npy
oracle softmax Q.npy K.npy V.npy 2 2 37 37 5 | agrees O.npy "softmax, both ways"
grep -q "tokens per second" out || complain "no time: $(cat out)"
grep -q "O.npy: (2, 37, 5)" out || complain "no output named: $(cat out)"
grep -q "^Plan .*besides inputs and outputs" err || complain "no plan on standard error: $(cat err)"
CAUSAL=1
attend --q Q.npy --k K.npy --v V.npy --kind softmax --causal --out exact.npy --quiet
[ -s err ] && complain "--quiet prints: $(cat err)"
oracle softmax Q.npy K.npy V.npy 2 2 37 37 5 | agrees exact.npy "softmax, causal"
attend --q Q.npy --k K.npy --v V.npy --kind softmax --causal --window 7 --out O.npy
WINDOW=7
oracle softmax Q.npy K.npy V.npy 2 2 37 37 5 | agrees O.npy "softmax, window"
WINDOW=0
# Grouped heads, a batch, one head as a table, and a different number of keys.
piece normal "4, 37, 5" 1200 >Q4.npy
attend --q Q4.npy --k K.npy --v V.npy --kind softmax --causal --out O.npy --json --quiet
oracle softmax Q4.npy K.npy V.npy 4 2 37 37 5 | agrees O.npy "grouped heads"
[ "$(field out key_heads)" = 2 ] && [ "$(field out heads)" = 4 ] || complain "heads in JSON: $(cat out)"
piece normal "2, 2, 37, 5" 0 >batch.npy
attend --q batch.npy --k batch.npy --v batch.npy --kind softmax --causal --out O.npy
head -c 128 O.npy | grep -q "(2, 2, 37, 5)" || complain "the shape of a batch's output: $(head -c 128 O.npy | tail -c 118)"
oracle softmax batch.npy batch.npy batch.npy 4 4 37 37 5 | agrees O.npy "a batch of two"
piece normal "37, 5" 0 >table.npy
attend --q table.npy --k table.npy --v table.npy --kind softmax --causal --out O.npy
oracle softmax table.npy table.npy table.npy 1 1 37 37 5 | agrees O.npy "one head"
piece normal "2, 11, 5" 300 >K11.npy
piece normal "2, 11, 5" 700 >V11.npy
CAUSAL=0
attend --q Q.npy --k K11.npy --v V11.npy --kind softmax --out O.npy
oracle softmax Q.npy K11.npy V11.npy 2 2 37 11 5 | agrees O.npy "cross attention, exact"
attend --q Q.npy --k K11.npy --v V11.npy --kind linear --out O.npy
oracle elu Q.npy K11.npy V11.npy 2 2 37 11 5 | agrees O.npy "cross attention, linear"
gzip -k -f K11.npy
attend --q Q.npy --k K11.npy.gz --v - --kind linear --out O2.npy <V11.npy
cmp -s O.npy O2.npy || complain "gzip and standard input change the output"

# ---- exact features: linear attention has a reference too ------------------------------------------------------------
for causal in 0 1; do
    CAUSAL=$causal
    flag=$([ $causal = 1 ] && echo --causal)
    for map in elu taylor polynomial; do
        # shellcheck disable=SC2086
        attend --q Q4.npy --k K.npy --v V.npy --kind linear --map $map $flag --out O.npy
        oracle $map Q4.npy K.npy V.npy 4 2 37 37 5 | agrees O.npy "linear $map $flag"
    done
done
attend --q Q.npy --k K.npy --v V.npy --gate G.npy --kind linear --causal --out O.npy --json
[ "$(field out gate)" = decay ] || complain "the gate of linear is $(field out gate)"
oracle elu Q.npy K.npy V.npy 2 2 37 37 5 G.npy decay | agrees O.npy "linear, gate decay"
attend --q Q.npy --k K.npy --v V.npy --gate G.npy --gate-input convex --kind linear --causal --out O.npy
oracle elu Q.npy K.npy V.npy 2 2 37 37 5 G.npy convex | agrees O.npy "linear, gate convex"
for chunk in 1 16 64; do
    attend --q Q.npy --k K.npy --v V.npy --gate G.npy --gate-input convex --kind linear --causal --chunk $chunk --out chunk.npy
    expect "chunks of $chunk" "$(distance chunk.npy O.npy)" '<' 1e-5
done

# ---- kinds against each other ------------------------------------------------------------------------------------------
attend --q Q.npy --k K.npy --v V.npy --kind hybrid --window 37 --causal --out O.npy
expect "hybrid with a window over everything is exact" "$(distance O.npy exact.npy)" '<' 2e-5
attend --q Q.npy --k K.npy --v V.npy --kind hybrid --window 37 --mix 0.25 --causal --out O.npy
expect "mix cancels where the window is everything" "$(distance O.npy exact.npy)" '<' 2e-5
attend --q Q.npy --k K.npy --v V.npy --kind hybrid --window 4 --causal --features 1024 --out O.npy
expect "hybrid, window of 4" "$(distance O.npy exact.npy)" '<' 1
attend --q Q.npy --k K.npy --v V.npy --kind rfa --causal --out O.npy --json
[ "$(field out kernel)" = rbf ] && [ "$(field out features)" = 32 ] || complain "rfa has kernel $(field out kernel), $(field out features) features"
piece gates "2, 37" 0 >ones.npy # used with ones everywhere: log gate 0
{ head -c 128 ones.npy; head -c 296 /dev/zero; } >zeros.npy
attend --q Q.npy --k K.npy --v V.npy --log-gate zeros.npy --gate-input decay --kind rfa-gate --causal --out O2.npy
expect "rfa-gate with gates of 1" "$(distance O2.npy O.npy)" '<' 1e-5
attend --q Q.npy --k K.npy --v V.npy --gate G.npy --kind rfa-gate --causal --out O2.npy --json
[ "$(field out kind)" = rfa-gate ] && [ "$(field out gate)" = convex ] || complain "rfa-gate: $(field out kind), $(field out gate)"
compare "$(distance O2.npy O.npy)" '>' 1e-3 || complain "the gate does nothing"
attend --q Q.npy --k K.npy --v V.npy --kind favor --causal --features 64 --out favor.npy
attend --q Q.npy --k K.npy --v V.npy --kind dark --causal --features 64 --out dark.npy
expect "dark with M = 1 is favor" "$(distance dark.npy favor.npy)" '<' 1e-4
# M as a file: two identity matrices of the floats 1 (0x3f800000) and 0.
{
    piece normal "2, 5, 5" 0 | head -c 128
    # shellcheck disable=SC2059
    printf "$(awk 'BEGIN { for (h = 0; h < 2; h++) for (i = 0; i < 25; i++) printf "%s", i % 6 ? "\\000\\000\\000\\000" : "\\000\\000\\200\\077" }')"
} >identity.npy
attend --q Q.npy --k K.npy --v V.npy --kind dark --m identity.npy --causal --features 64 --out O.npy
expect "M = 1 from a file" "$(distance O.npy dark.npy)" '<' 1e-5
attend --q Q.npy --k K.npy --v V.npy --kind dark --whiten --causal --calibrate-rows 12 --features 64 --out O.npy
compare "$(distance O.npy dark.npy)" '>' 1e-3 || complain "--whiten changes nothing"
attend --q Q.npy --k K.npy --v V.npy --kind dark --rank 3 --causal --out rank.npy --json
[ "$(field out rank)" = 3 ] || complain "rank is $(field out rank)"
attend --q Q.npy --k K.npy --v V.npy --kind favor --propose --causal --calibrate-rows 12 --features 64 --out O.npy
grep -q "^Proposal" out || complain "--propose does not report: $(cat out)"
compare "$(distance O.npy favor.npy)" '>' 1e-3 || complain "--propose changes nothing"
piece normal "2, 3, 5" 50 >M.npy
attend --q Q.npy --k K.npy --v V.npy --kind dark --m M.npy --causal --out O.npy --json
[ "$(field out rank)" = 3 ] || complain "the rank of M.npy is 3, found $(field out rank)"
compare "$(distance O.npy rank.npy)" '>' 1e-3 || complain "--m changes nothing"
hybrid="--q Q.npy --k K.npy --v V.npy --kind hybrid --window 4 --features 64"
# shellcheck disable=SC2086
{
    attend $hybrid --out hybrid.npy --json
    [ -z "$(field out rank)" ] || complain "hybrid has the rank $(field out rank)"
    attend $hybrid --rank 5 --out O.npy --json
    [ "$(field out rank)" = 5 ] || complain "the rank of hybrid is $(field out rank)"
    cmp -s O.npy hybrid.npy || complain "hybrid with M = 1 differs"
    attend $hybrid --m identity.npy --out O.npy
    expect "hybrid with M = 1 from a file" "$(distance O.npy hybrid.npy)" '<' 1e-5
    attend $hybrid --m M.npy --out O.npy --json
    [ "$(field out rank)" = 3 ] || complain "the rank of hybrid is $(field out rank)"
    attend $hybrid --whiten --calibrate-rows 12 --out O.npy --json
    [ "$(field out rank)" = 5 ] || complain "the rank of hybrid with --whiten is $(field out rank)"
    compare "$(distance O.npy hybrid.npy)" '>' 1e-3 || complain "hybrid: --whiten changes nothing"
    attend $hybrid --whiten --rank 2 --calibrate-rows 12 --out O.npy
    attend $hybrid --log-gate zeros.npy --out O.npy --json
    [ "$(field out gate)" = decay ] || complain "the gate of hybrid is $(field out gate)"
    expect "hybrid with gates of 1" "$(distance O.npy hybrid.npy)" '<' 1e-5
    attend $hybrid --gate G.npy --gate-input convex --out O.npy
    compare "$(distance O.npy hybrid.npy)" '>' 1e-3 || complain "hybrid: the gate does nothing"
    attend $hybrid --decay 0.9 --out O.npy --json
    [ "$(field out gate)" = fixed ] || complain "the gate of hybrid with --decay is $(field out gate)"
    attend $hybrid --window 37 --gate G.npy --out O.npy
    expect "the window of hybrid has no gate" "$(distance O.npy exact.npy)" '<' 2e-5
}
piece normal "2, 5" 50 >S.npy
attend --q Q.npy --k K.npy --v V.npy --kind rfa --map relu --out O.npy
attend --q Q.npy --k K.npy --v V.npy --kind rfa --map relu --sigma S.npy --out O2.npy
compare "$(distance O2.npy O.npy)" '>' 1e-3 || complain "--sigma changes nothing"
# Arc-cosine features are homogeneous, so a temperature cancels; in the features of the RBF kernel it does not.
attend --q Q.npy --k K.npy --v V.npy --kind rfa --map relu --temperature 0.5 --out O2.npy
expect "temperature of arc-cosine features" "$(distance O2.npy O.npy)" '<' 1e-5
attend --q Q.npy --k K.npy --v V.npy --kind rfa --out O.npy
attend --q Q.npy --k K.npy --v V.npy --kind rfa --temperature 0.5 --out O2.npy
compare "$(distance O2.npy O.npy)" '>' 1e-3 || complain "--temperature changes nothing"
for map in positive trig hyperbolic oprf relu rbf laplacian cauchy matern52 softmax tensorsketch; do
    attend --q Q.npy --k K.npy --v V.npy --kind linear --map $map --causal --out O.npy
    numbers O.npy 1 | awk '{ if ($1 - $1 != 0) exit 1 }' || complain "linear $map: an output is not finite"
done

# ---- same seed, same bits ----------------------------------------------------------------------------------------------
attend --q Q.npy --k K.npy --v V.npy --kind favor --causal --features 64 --threads 1 --out O.npy
cmp -s O.npy favor.npy || complain "the number of threads changes the output"
attend --q Q.npy --k K.npy --v V.npy --kind favor --causal --features 64 --seed 5 --out O.npy
cmp -s O.npy favor.npy && complain "the seed does not change the output"
attend --q Q.npy --k K.npy --v V.npy --kind favor --causal --features 64 --one-draw --out O.npy --json
[ "$(field out one_draw)" = true ] || complain "--one-draw in JSON: $(field out one_draw)"

# ---- compare: its report agrees with the outputs ---------------------------------------------------------------------
attend --q Q.npy --k K.npy --v V.npy --kind favor --causal --features 64 --compare --json
measured=$(distance favor.npy exact.npy)
for against in against_softmax against_kernel; do
    awk -v a="$(field out $against)" -v b="$measured" 'BEGIN { exit !(a > 0.999 * b && a < 1.001 * b) }' ||
        complain "$against is $(field out $against), the outputs differ by $measured"
done
# One draw of 64 positive features: the kernel error varies widely around the predicted one.
expect "kernel's error / predicted" "$(awk -v a="$(field out kernel_error)" -v b="$(field out kernel_predicted)" 'BEGIN { print a / b }')" '<' 4
attend --q Q.npy --k K.npy --v V.npy --kind linear --map elu --compare --json
expect "elu against its own kernel" "$(field out against_kernel)" '<' 2e-5
attend --q Q.npy --k K.npy --v V.npy --kind softmax --causal --compare --json
expect "softmax against itself" "$(field out against_softmax)" '<' 2e-5
# Softmax compared with itself is timed once.
[ "$(field out seconds)" = "$(field out kind_seconds)" ] || complain "two times: $(grep seconds out)"
attend --q Q.npy --k K.npy --v V.npy --kind rfa --causal --compare
for words in "against softmax attention" "against the exact kernel" "kernel error, predicted" "forward pass" "memory"; do
    grep -q "$words" out || complain "--compare lacks '$words': $(cat out)"
done

# ---- plan and advice ---------------------------------------------------------------------------------------------------
attend --q Q.npy --k K.npy --v V.npy --kind favor --causal --plan
grep -q "chunks of" out && grep -q "operations" out || complain "the plan: $(cat out)"
attend --q Q.npy --k K.npy --v V.npy --kind softmax --plan --json
[ "$(field out seconds)" = "" ] && [ "$(field out tasks)" = 2 ] || complain "the plan as JSON: $(cat out)"
attend --advise --q Q.npy --k K.npy --causal --max-features 512 --target 0.3
for words in "^Measured" "entropy of softmax attention" "^Maps .*error of 0.3" "^Advice"; do
    grep -q "$words" out || complain "--advise lacks '$words': $(cat out)"
done
attend --advise --q Q.npy --k K.npy --v V.npy --max-features 64 --json
[ "$(field out target)" = 0.1 ] && [ -n "$(field out reason)" ] || complain "advice as JSON: $(cat out)"
grep -q '"max_features": \([0-9]*\), "most": \1' out || complain "the limit of features under both keys: $(cat out)"
# The suggested options can be used as printed: they include the given ones, and the error is within the variation of a
# draw.
attend --advise --q Q.npy --k K.npy --v V.npy --causal --scale 0.05 --seed 3
options=$(sed -n 's/^Options *//p' out)
attend --advise --q Q.npy --k K.npy --v V.npy --causal --scale 0.05 --seed 3 --json
[ -n "$options" ] && [ "$(field out options)" = "$options" ] || complain "options '$options', as JSON '$(field out options)'"
for words in "--causal" "--scale 0.05" "--seed 3"; do
    case "$options " in *" $words "*) ;; *) complain "the options lack $words: $options" ;; esac
done
# shellcheck disable=SC2086
attend --q Q.npy --k K.npy --v V.npy $options --out O.npy
attend --q Q.npy --k K.npy --v V.npy --kind softmax --causal --scale 0.05 --out O2.npy
expect "the advice, followed" "$(distance O.npy O2.npy)" '<' 0.15
attend --advise --q Q.npy --k K.npy --target 1e-9 --max-features 16 --json
[ "$(field out options)" = null ] || complain "options where nothing is advised: $(field out options)"
# Norms so large that all weights vanish for many queries: this is reported and counted.
attend --q Q.npy --k K.npy --v V.npy --kind favor --map oprf --features 16 --scale 3000 --out O.npy --json
zeros=$(numbers O.npy 5 | awk '$1 == 0 && $2 == 0 && $3 == 0 && $4 == 0 && $5 == 0' | wc -l)
[ "$zeros" -gt 0 ] && [ "$(field out zero_outputs)" = "$zeros" ] ||
    complain "$zeros outputs are 0, counted $(field out zero_outputs)"
grep -q "warning: the output of $zeros of 74 queries is 0" err || complain "no warning of outputs that are 0: $(cat err)"

# ---- bad input ---------------------------------------------------------------------------------------------------------
piece normal "2, 37, 4" 0 >narrow.npy
piece normal "3, 37, 5" 0 >three.npy
piece normal "2, 36, 5" 0 >short.npy
piece normal "185" 0 >flat.npy
piece normal "2, 0, 5" 0 >none.npy
refused "same width|--q Q.npy has shape (2, 37, 5)|--k narrow.npy has shape (2, 37, 4)" --q Q.npy --k narrow.npy --v V.npy --kind softmax
refused "multiple of the number of key heads|three.npy|(3, 37, 5)|K.npy|(2, 37, 5)" --q three.npy --k K.npy --v V.npy --kind softmax
refused "multiple of the number of key heads|Q.npy|three.npy|(3, 37, 5)" --q Q.npy --k three.npy --v three.npy --kind softmax
refused "same number of tokens|K.npy|short.npy|(2, 36, 5)" --q Q.npy --k K.npy --v short.npy --kind softmax
refused "--causal|short.npy|(2, 36, 5)" --q Q.npy --k short.npy --v short.npy --kind softmax --causal
refused "dimensions|table.npy|(37, 5)" --q Q.npy --k table.npy --v V.npy --kind softmax
refused "flat.npy|expected shape|(185,)" --q flat.npy --k K.npy --v V.npy --kind softmax
refused "none.npy|empty array|(2, 0, 5)" --q none.npy --k K.npy --v V.npy --kind softmax
refused "batch|batch.npy|(2, 2, 37, 5)" --q batch.npy --k Q.npy --v V.npy --kind softmax
refused "--gate short.npy|(2, 37)|(2, 36, 5)" --q Q.npy --k K.npy --v V.npy --gate short.npy --kind linear --causal
refused "--gate K.npy|(2, 37)" --q Q.npy --k K.npy --v V.npy --gate K.npy --kind linear --causal
piece normal "2, 37" 0 >signed.npy
refused "--gate signed.npy|gates in (0, 1]|at (" --q Q.npy --k K.npy --v V.npy --gate signed.npy --kind linear --causal
refused "--log-gate G.npy|finite and at most 0" --q Q.npy --k K.npy --v V.npy --log-gate G.npy --kind linear --causal
refused "--sigma V.npy|(2, 5)|(2, 37, 5)" --q Q.npy --k K.npy --v V.npy --sigma V.npy --kind rfa
refused "--m S.npy|(key heads, rank, width)|(2, 5)" --q Q.npy --k K.npy --v V.npy --m S.npy --kind dark
refused "--mix S.npy|(heads,)|(2, 5)" --q Q.npy --k K.npy --v V.npy --mix S.npy --kind hybrid --causal
refused "mix|-1" --q Q.npy --k K.npy --v V.npy --mix -1 --kind hybrid --causal
# A NaN: 0x7fc00000 as the last number.
{ head -c $((128 + 4 * 369)) Q.npy; printf '\000\000\300\177'; } >nan.npy
refused "q|nan|head 1|token 36" --q nan.npy --k K.npy --v V.npy --kind softmax
refused "k|nan" --q Q.npy --k nan.npy --v V.npy --kind favor
piece normal "2, 0, 5" 0 >M0.npy
refused "--m M0.npy|empty array|(2, 0, 5)" --q Q.npy --k K.npy --v V.npy --kind dark --m M0.npy
refused "rank|5" --q Q.npy --k K.npy --v V.npy --kind dark --rank 6
refused "maps of 1000000000000 features|the limit is" --q Q.npy --k K.npy --v V.npy --kind favor --features 1000000000000
refused "nowhere.npy|No such file" --q nowhere.npy --k K.npy --v V.npy --kind softmax
refused "gates.txt|expected a NumPy .npy file" --q gates.txt --k K.npy --v V.npy --kind softmax
head -c 600 K.npy >cut.npy
refused "cut.npy|truncated|(2, 37, 5)" --q Q.npy --k cut.npy --v V.npy --kind softmax
wrong "--kind|rfa-gate" --q Q.npy --k K.npy --v V.npy
wrong "--v is missing" --q Q.npy --k K.npy --kind softmax
wrong "expected one of|'faver'|did you mean favor" --q Q.npy --k K.npy --v V.npy --kind faver
refused "--causal|short.npy" --q Q.npy --k short.npy --v short.npy --kind hybrid
wrong "--map|'positve'|did you mean positive" --q Q.npy --k K.npy --v V.npy --kind favor --map positve
wrong "--window|found '0'" --q Q.npy --k K.npy --v V.npy --kind hybrid --causal --window 0
wrong "--window|18446744073709551615" --q Q.npy --k K.npy --v V.npy --kind hybrid --causal --window 18446744073709551615
wrong "--window applies to the kinds softmax, hybrid, power, found kind favor" --q Q.npy --k K.npy --v V.npy --kind favor --window 3
wrong "--features applies to|found kind softmax" --q Q.npy --k K.npy --v V.npy --kind softmax --features 3
wrong "gates require --causal" --q Q.npy --k K.npy --v V.npy --gate G.npy --kind linear
wrong "rfa-gate requires --gate" --q Q.npy --k K.npy --v V.npy --kind rfa-gate --causal
wrong "exclude each other" --q Q.npy --k K.npy --v V.npy --kind rfa --gate G.npy --log-gate G.npy --causal
wrong "trig or relu|elu" --q Q.npy --k K.npy --v V.npy --kind rfa --map elu
wrong "approximates softmax|rbf" --q Q.npy --k K.npy --v V.npy --kind favor --map rbf
wrong "--m applies to the kind hybrid with a map of the softmax kernel|elu" --q Q.npy --k K.npy --v V.npy --kind hybrid --map elu --m M.npy
wrong "--whiten applies to the kind hybrid|hedgehog" --q Q.npy --k K.npy --v V.npy --kind hybrid --map hedgehog --whiten
wrong "--rank applies to the kind hybrid|elu" --q Q.npy --k K.npy --v V.npy --kind hybrid --map elu --rank 2
wrong "--m, --whiten and --propose" --q Q.npy --k K.npy --v V.npy --kind dark --m M.npy --whiten
wrong ".npy|O.csv" --q Q.npy --k K.npy --v V.npy --kind softmax --out O.csv
wrong "would replace an input file|--k K.npy" --q Q.npy --k K.npy --v V.npy --kind softmax --out K.npy
wrong "--target is an option of --advise" --q Q.npy --k K.npy --v V.npy --kind softmax --target 0.1
wrong "--normalizer none applies to the kinds linear, rfa,|found kind favor" --q Q.npy --k K.npy --v V.npy --kind favor --normalizer none
wrong "softmax kernel require a normalizer" --q Q.npy --k K.npy --v V.npy --kind linear --map positive --normalizer none
wrong "--clamp has no effect" --q Q.npy --k K.npy --v V.npy --kind linear --normalizer none --clamp 3
wrong "--draw has no effect for the elu map" --q Q.npy --k K.npy --v V.npy --kind linear --draw iid
wrong "--plan computes no output|--out" --q Q.npy --k K.npy --v V.npy --kind softmax --plan --out plan.npy
wrong "--plan computes no output|--compare" --q Q.npy --k K.npy --v V.npy --kind softmax --plan --compare
wrong "--max-features: expected a whole number from 16" --q Q.npy --k K.npy --advise --max-features 7
wrong "cannot be used with --advise" --q Q.npy --k K.npy --advise --kind softmax
wrong "standard input" --q - --k - --v V.npy --kind softmax
wrong "expected options only" Q.npy K.npy V.npy
finish
