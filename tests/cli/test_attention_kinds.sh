# Kinds of attention on the command line: every kind runs; polynomials, powers and memories agree with references in
# awk; learned maps; frequencies drawn for data; the reports; bad input.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/cli/arrays.sh"

# memory KIND Q K V HEADS KEY_HEADS N D GATES COLUMNS BETAS: reference in double precision for o = s S'q of gla and
# delta and o = G'(H + L)^-1 q of ridge, with one gate per key (COLUMNS 1) or per column of the key (COLUMNS D). GATES
# may be a list of decays, one per key head; BETAS "-" means 1. UNIT=1: x / (|x| + 1e-3). RIDGE: the ridge. POOL=M: the
# queries see all of M keys.
UNIT=0
RIDGE=1
POOL=
memory() {
    { numbers "$2" "$8"; numbers "$3" "$8"; numbers "$4" "$8"; [ ! -e "$9" ] || numbers "$9" "${10}"; [ "${11}" = - ] || numbers "${11}" 1; } |
        awk -v kind="$1" -v H="$5" -v HK="$6" -v N="$7" -v D="$8" -v list="$([ -e "$9" ] || echo "$9")" -v columns="${10}" \
            -v betas="${11}" -v unit=$UNIT -v ridge=$RIDGE -v pool="$POOL" '
        { for (j = 1; j <= NF; j++) x[NR, j] = $j }
        function normalize(row,   j, n) { for (j = 1; j <= D; j++) n += x[row, j] ^ 2
            for (j = 1; j <= D; j++) x[row, j] /= sqrt(n) + 1e-3 }
        function solve(row,   i, j, l, f) { # y = (h + ridge)^-1 q by elimination; h is positive definite
            for (i = 1; i <= D; i++) { y[i] = x[row, i]; for (j = 1; j <= D; j++) a[i, j] = h[i, j] + (i == j) * ridge }
            for (l = 1; l <= D; l++) for (i = l + 1; i <= D; i++) { f = a[i, l] / a[l, l]; y[i] -= f * y[l]
                for (j = l; j <= D; j++) a[i, j] -= f * a[l, j] }
            for (i = D; i >= 1; i--) { for (j = i + 1; j <= D; j++) y[i] -= a[i, j] * y[j]; y[i] /= a[i, i] } }
        function absorb(k, v, g, b,   i, j, w) {
            for (i = 1; i <= D; i++) { w = list != "" ? decay[kh + 1] : x[g, columns == 1 ? 1 : i]
                for (j = 1; j <= D; j++) { s[i, j] *= w; h[i, j] = w * h[i, j] + b * x[k, i] * x[k, j] } }
            for (j = 1; j <= D; j++) { e[j] = x[v, j]
                if (kind == "delta") for (i = 1; i <= D; i++) e[j] -= s[i, j] * x[k, i] }
            for (i = 1; i <= D; i++) for (j = 1; j <= D; j++) s[i, j] += b * x[k, i] * e[j] }
        function output(row,   i, j, o) {
            if (kind == "ridge") solve(row); else for (i = 1; i <= D; i++) y[i] = x[row, i]
            for (j = 1; j <= D; j++) { o = 0; for (i = 1; i <= D; i++) o += s[i, j] * y[i]; printf "%.9g\n", scale * o } }
        END { M = pool == "" ? N : pool
            keys = H * N; values = keys + HK * M; gates = values + HK * M; after = gates + (list == "" ? HK * M : 0)
            split(list, decay, ","); scale = kind == "ridge" ? 1 : 1 / sqrt(D)
            if (unit) for (i = 1; i <= values; i++) normalize(i)
            for (head = 0; head < H; head++) { kh = int(head / (H / HK))
                for (i = 1; i <= D; i++) for (j = 1; j <= D; j++) { s[i, j] = 0; h[i, j] = 0 }
                for (t = 1; t <= M; t++) { at = kh * M + t
                    absorb(keys + at, values + at, gates + at, betas == "-" ? 1 : x[after + at, 1])
                    if (pool == "") output(head * N + t) }
                for (t = 1; pool != "" && t <= N; t++) output(head * N + t) } }'
}

piece normal "2, 37, 5" 0 >Q.npy
piece normal "2, 37, 5" 400 >K.npy
piece normal "2, 37, 5" 800 >V.npy
piece normal "4, 37, 5" 1200 >Q4.npy
piece gates "2, 37" 3 >G.npy
piece gates "2, 37, 5" 100 >G5.npy
piece gates "2, 37" 50 >B.npy
piece gates "2" 7 >decays.npy
arrays="--q Q.npy --k K.npy --v V.npy"
grouped="--q Q4.npy --k K.npy --v V.npy"

# ---- every kind of the help runs, plans and compares -----------------------------------------------------------------
succeeds "$BOCHNER" attention --help-all
kinds=$(tr -s ' \n' '  ' <out | sed 's/.*--kind KIND kind of attention: //; s/ --causal .*//; s/,//g')
[ "$(echo "$kinds" | wc -w)" -ge 20 ] || complain "kinds of the help: $kinds"
for kind in $kinds; do
    gate=
    case $kind in rfa-gate | gated-*) gate="--gate G.npy" ;; gla) gate="--gate G5.npy" ;; esac
    # shellcheck disable=SC2086
    attend $arrays --kind "$kind" $gate --causal --compare --out O.npy --json
    [ "$(field out kind)" = "$kind" ] || complain "kind $kind is $(field out kind)"
    numbers O.npy 1 | awk '{ if ($1 - $1 != 0) exit 1 } END { if (NR != 370) exit 1 }' || complain "$kind: the output is $(numbers O.npy 5 | head -2)"
    expect "$kind: error against softmax" "$(field out against_softmax)" '>=' 0
    # shellcheck disable=SC2086
    attend $arrays --kind "$kind" $gate --causal --plan
    expect "$kind: operations" "$(sed -n 's/.*operations of the forward pass *//p' out)" '>' 0
done

# ---- polynomials and powers ---------------------------------------------------------------------------------------------
for CAUSAL in 0 1; do
    flag=$([ "$CAUSAL" = 1 ] && echo --causal)
    # shellcheck disable=SC2086
    attend $grouped --kind poly $flag --out O.npy
    oracle polynomial Q4.npy K.npy V.npy 4 2 37 37 5 | agrees O.npy "poly $flag"
    # shellcheck disable=SC2086
    attend $grouped --kind taylor $flag --out O.npy
    oracle taylor Q4.npy K.npy V.npy 4 2 37 37 5 | agrees O.npy "taylor $flag"
    for DEGREE in 0.5 2 3; do
        # shellcheck disable=SC2086
        attend $grouped --kind power --degree "$DEGREE" $flag --out O.npy
        oracle power Q4.npy K.npy V.npy 4 2 37 37 5 | agrees O.npy "power $DEGREE $flag"
    done
done
# shellcheck disable=SC2086
{
    attend $arrays --kind poly --degree 3 --json
    [ "$(field out degree)" = 3 ] && [ "$(field out features)" = 56 ] || complain "poly of degree 3: $(field out degree), $(field out features)"
    attend $arrays --kind poly --map tensorsketch --features 64 --json
    [ "$(field out function)" = tensorsketch ] && [ "$(field out features)" = 64 ] || complain "poly by a sketch: $(cat out)"
    attend $arrays --kind poly --map selftensor --json
    [ "$(field out features)" = 21 ] || complain "features of selftensor: $(field out features)"
    attend $arrays --kind linear --map elu --causal --decay 0.9 --json
    [ "$(field out gate)" = fixed ] || complain "--decay makes the gate $(field out gate)"
}

# ---- memories ------------------------------------------------------------------------------------------------------------
# shellcheck disable=SC2086
{
    attend $grouped --kind retention --out O.npy
    memory gla Q4.npy K.npy V.npy 4 2 37 5 0.96875,0.984375 1 - | agrees O.npy "retention, its own decays"
    attend $grouped --kind retention --decay 0.8 --out O.npy
    memory gla Q4.npy K.npy V.npy 4 2 37 5 0.8,0.8 1 - | agrees O.npy "retention, one decay"
    attend $grouped --kind retention --decay 0.8,1 --out O.npy
    memory gla Q4.npy K.npy V.npy 4 2 37 5 0.8,1 1 - | agrees O.npy "retention, two decays"
    attend $arrays --kind retention --decay decays.npy --out O.npy
    memory gla Q.npy K.npy V.npy 2 2 37 5 "$(numbers decays.npy 1 | tr -s ' \n' ' ,')" 1 - | agrees O.npy "retention, decays of a file"
    attend $grouped --kind linear --map identity --normalizer none --causal --gate G.npy --out O.npy
    memory gla Q4.npy K.npy V.npy 4 2 37 5 G.npy 1 - | agrees O.npy "retention with gates of the data"
    attend $grouped --kind gla --gate G5.npy --out O.npy
    memory gla Q4.npy K.npy V.npy 4 2 37 5 G5.npy 5 - | agrees O.npy gla
    attend $grouped --kind delta --no-unit --out O2.npy
    UNIT=1
    attend $grouped --kind delta --out O.npy
    memory delta Q4.npy K.npy V.npy 4 2 37 5 1,1 1 - | agrees O.npy delta
    compare "$(distance O2.npy O.npy)" '>' 1e-3 || complain "--no-unit changes nothing"
    attend $grouped --kind ridge --causal --unit --out O2.npy
    memory ridge Q4.npy K.npy V.npy 4 2 37 5 1,1 1 - | agrees O2.npy "ridge, unit norms"
    attend $grouped --kind delta --beta B.npy --out O.npy
    memory delta Q4.npy K.npy V.npy 4 2 37 5 1,1 1 B.npy | agrees O.npy "delta, beta"
    attend $grouped --kind gated-delta --gate G.npy --beta B.npy --out O.npy
    memory delta Q4.npy K.npy V.npy 4 2 37 5 G.npy 1 B.npy | agrees O.npy "gated-delta, beta"
    attend $grouped --kind delta --gate G.npy --beta B.npy --out O2.npy
    cmp -s O.npy O2.npy || complain "delta with a gate is not gated-delta"
    UNIT=0
    attend $grouped --kind ridge --causal --out O.npy
    memory ridge Q4.npy K.npy V.npy 4 2 37 5 1,1 1 - | agrees O.npy "ridge, causal"
    grep -q "^Solves .*solved directly" out || complain "no report of the solves: $(cat out)"
    RIDGE=0.25
    attend $grouped --kind ridge --causal --lambda 0.25 --beta B.npy --out O.npy
    memory ridge Q4.npy K.npy V.npy 4 2 37 5 1,1 1 B.npy | agrees O.npy "ridge, causal, lambda, beta"
    attend $grouped --kind gated-ridge --lambda 0.25 --gate G.npy --beta B.npy --out O.npy
    memory ridge Q4.npy K.npy V.npy 4 2 37 5 G.npy 1 B.npy | agrees O.npy "gated-ridge, lambda, beta"
    for words in "^Solves .*148 systems" "mean iterations per system" "largest residual" "systems solved directly"; do
        grep -q "$words" out || complain "the report of the solves lacks '$words': $(cat out)"
    done
    attend $grouped --kind gated-ridge --gate G.npy --iterations 40 --json
    [ "$(field out systems)" = 148 ] && [ "$(field out refactored)" = 0 ] || complain "solves as JSON: $(cat out)"
    expect "residual" "$(field out largest_residual)" '<' 1e-5
    attend $grouped --kind gated-ridge --gate G.npy --iterations 1 --json
    expect "solved directly after one step" "$(field out refactored)" '>' 0
    expect "residual of what was solved directly" "$(field out largest_residual)" '<' 1e-5
    grep -q "warning" err && complain "a warning though the systems are solved: $(cat err)"
    attend $grouped --kind gated-ridge --gate G.npy --lambda 1e-30 --json --quiet
    expect "residual with a vanishing ridge" "$(field out largest_residual)" '>' 1e-5
    grep -q "warning: the largest residual .* outputs may be wrong (use a larger --lambda)" err ||
        complain "no warning of residuals: $(cat err)"
    # without --causal every query sees all keys: as many as there are queries, fewer, and fewer than dimensions
    RIDGE=1
    POOL=37
    attend $grouped --kind ridge --causal --out O2.npy
    attend $grouped --kind ridge --out O.npy
    memory ridge Q4.npy K.npy V.npy 4 2 37 5 1,1 1 - | agrees O.npy "ridge of one pool"
    compare "$(distance O2.npy O.npy)" '>' 0.1 || complain "--causal changes nothing"
    grep -q "^Solves .*10 systems" out || complain "no report of the solves of a pool: $(cat out)"
    grep -q ", causal" err && complain "ridge without --causal is reported as causal: $(cat err)"
    for POOL in 20 3; do
        piece normal "2, $POOL, 5" 400 >K2.npy
        piece normal "2, $POOL, 5" 800 >V2.npy
        piece gates "2, $POOL" 50 >B2.npy
        RIDGE=0.25
        attend --q Q4.npy --k K2.npy --v V2.npy --kind ridge --lambda 0.25 --beta B2.npy --out O.npy
        memory ridge Q4.npy K2.npy V2.npy 4 2 37 5 1,1 1 B2.npy | agrees O.npy "ridge of $POOL other keys"
        attend --q Q4.npy --k K2.npy --v V2.npy --kind ridge --plan --json
        [ "$(field out causal)" = false ] || complain "the plan of a pool is causal: $(cat out)"
    done
    POOL=
    attend $grouped --kind delta --compare
    grep -q "against the exact kernel *no closed form" out || complain "delta has a closed form: $(cat out)"
}

# ---- decays and ridges in use are reported ---------------------------------------------------------------------------
piece gates "2, 5" 11 >ridges.npy
# shellcheck disable=SC2086
{
    attend $arrays --kind retention
    grep -q "^Attention .*fixed gate, decays 0.96875, 0.984375" err || complain "retention's own decays: $(cat err)"
    attend $arrays --kind retention --decay 0.75 --json
    grep -q "^Attention .*, decay 0.75," err || complain "one decay: $(cat err)"
    [ "$(field out decay)" = "[0.75, 0.75]" ] || complain "decays as JSON: $(field out decay)"
    attend $arrays --kind ridge --json
    grep -q "^Attention .*, lambda 1$" err || complain "ridge's own lambda: $(cat err)"
    [ "$(field out smallest)" = 1 ] && [ "$(field out largest)" = 1 ] || complain "lambda as JSON: $(cat out)"
    attend $arrays --kind ridge --lambda ridges.npy --json
    numbers ridges.npy 1 | sort -g | sed -n '1p; $p' | tr -s ' \n' ' ' >range
    read -r least most <range
    expect "the smallest lambda" "$(awk -v a="$(field out smallest)" -v b="$least" 'BEGIN { print a / b - 1 }')" '<' 1e-5
    expect "the largest lambda" "$(awk -v a="$(field out largest)" -v b="$most" 'BEGIN { print 1 - a / b }')" '<' 1e-5
    grep -q "^Attention .*, lambda 0.* to " err || complain "lambdas of a file: $(cat err)"
    # More decays than fit on a line.
    piece normal "9, 8, 2" 0 >nine.npy
    attend --q nine.npy --k nine.npy --v nine.npy --kind retention
    grep -q "^Attention .*decays 0.96875 to 0.999756," err || complain "nine decays: $(cat err)"
}

# ---- learned maps --------------------------------------------------------------------------------------------------------
{
    piece normal "2, 5, 5" 0 | head -c 128
    # shellcheck disable=SC2059
    printf "$(awk 'BEGIN { for (h = 0; h < 2; h++) for (i = 0; i < 25; i++) printf "%s", i % 6 ? "\\000\\000\\000\\000" : "\\000\\000\\200\\077" }')"
} >identity.npy
piece normal "2, 3, 5" 50 >W.npy
piece normal "2, 3" 90 >bias.npy
# shellcheck disable=SC2086
for kind in hedgehog t2r; do
    attend $arrays --kind $kind --causal --out O.npy
    attend $arrays --kind $kind --w identity.npy --causal --out O2.npy
    expect "$kind: W = 1 from a file" "$(distance O2.npy O.npy)" '<' 1e-5
    attend $arrays --kind $kind --w W.npy --causal --out O.npy --json
    [ "$(field out rank)" = 3 ] || complain "$kind: the rank of W.npy is 3, found $(field out rank)"
    attend $arrays --kind $kind --w W.npy --w-k W.npy --bias bias.npy --causal --out O2.npy
    compare "$(distance O2.npy O.npy)" '>' 1e-3 || complain "$kind: --bias changes nothing"
    attend $arrays --kind $kind --w W.npy --bias bias.npy --bias-k bias.npy --causal --out O.npy
    expect "$kind: W and b of the keys are those of the queries" "$(distance O2.npy O.npy)" '<' 1e-5
done
# shellcheck disable=SC2086
attend $arrays --kind hybrid --map hedgehog --w W.npy --window 4 --out O.npy --json
[ "$(field out function)" = hedgehog ] && [ "$(field out rank)" = 3 ] || complain "a hybrid with a learned map: $(cat out)"

# ---- frequencies drawn for data -------------------------------------------------------------------------------------------
piece normal "2, 90, 5" 2000 >CQ.npy
piece normal "2, 90, 5" 3000 >CK.npy
# shellcheck disable=SC2086
{
    attend $arrays --kind favor --features 64 --causal --out favor.npy
    for how in "favor++" "favor#" "favor --proposal gaussian" "favor --sampling optimal" "dark --proposal oprf" \
        "hybrid --window 3 --proposal sderf" "favor++ --sampling optimal"; do
        attend $arrays --kind $how --features 64 --causal --calibrate-rows 9 --out O.npy
        grep -q "^Calibration on .* rows of the queries and keys" out || complain "$how does not report: $(cat out)"
        compare "$(distance O.npy favor.npy)" '>' 1e-3 || complain "$how changes nothing"
    done
    attend $arrays --kind favor++ --features 64 --causal --calibrate-q CQ.npy --calibrate-k CK.npy --out O2.npy --json
    grep -q "warning" err && complain "a warning though the calibration is other data: $(cat err)"
    [ "$(field out proposal)" = oprf ] && [ "$(field out q)" = CQ.npy ] || complain "calibration as JSON: $(cat out)"
    [ "$(field out unfitted_outputs)" = 0 ] || complain "outputs without the fit though the calibration is other data: $(cat out)"
    expect "the floor" "$(field out log_floor)" '<=' "$(field out log_isotropic)"
    attend $arrays --kind favor --proposal oprf --features 64 --causal --calibrate-q CQ.npy --calibrate-k CK.npy --out O.npy
    cmp -s O.npy O2.npy || complain "--proposal oprf is not favor++"
    attend $arrays --kind favor++ --proposal none --features 64 --causal --out O.npy
    cmp -s O.npy favor.npy || complain "favor++ without its proposal is not favor"
    # Without a causal mask all keys may be used, and there is no warning.
    attend $arrays --kind favor++ --features 64
    grep -q "warning" err && complain "a warning without --causal: $(cat err)"
}

# ---- advice over all kinds -------------------------------------------------------------------------------------------------
# Every row can be used as printed. Its error is a mean over draws or that of another draw, so twice this error is a
# generous bound.
# shellcheck disable=SC2086
{
    attend $arrays --kind softmax --causal --scale 0.3 --out exact.npy
    attend --advise $arrays --causal --max-features 128 --scale 0.3 --seed 4
    tr -s ' \n' ' ' <out | grep -q "measured with a fit to tokens of the whole input" || complain "the fit of the advice: $(cat out)"
    sed -n 's/^ .*\( --kind .*\)/\1/p' out >rows
    sed -n '/--kind/ { s/^  *>* *//; s/ unbounded / - /; p; }' out | grep -v ^Options | awk '{ print $2 }' >reported
    [ "$(wc -l <rows)" -ge 10 ] || complain "few rows of advice: $(cat out)"
    for words in "--kind favor++" "--kind favor#" "--proposal gaussian" "--sampling optimal" "--kind taylor" "--degree 4" \
        "--kind hybrid" "--kind rfa --temperature"; do
        grep -qF -e "$words" rows || complain "the advice lacks $words: $(cat rows)"
    done
    while read -r error options <&3; do
        fit=
        case $options in *favor++* | *favor#* | *--proposal* | *--sampling* | *oprf*) fit="--calibrate-q Q.npy --calibrate-k K.npy" ;; esac
        attend $arrays $options $fit --out O.npy
        [ "$error" = - ] && continue
        expect "$options" "$(distance O.npy exact.npy)" '<' "$(awk -v e="$error" 'BEGIN { print 2 * e + 1e-6 }')"
    done 3<<END
$(paste reported rows)
END
}

# Nothing can be estimated, and this is reported: one key, or identical keys.
piece normal "2, 1, 5" 0 >single.npy
{ head -c 128 K.npy; head -c $((4 * 370)) /dev/zero; } >alike.npy
attend --advise --q single.npy --k single.npy --causal --max-features 16
tr -s ' \n' ' ' <out | grep -q "The errors are not meaningful: every query sees one key" || complain "advice of one key: $(cat out)"
attend --advise --q Q.npy --k alike.npy --max-features 16 --json
case $(field out nothing_measured) in *"all keys or all values are equal"*) ;; *) complain "advice of keys alike: $(cat out)" ;; esac
attend --advise --q Q.npy --k K.npy --max-features 16 --json
[ "$(field out nothing_measured)" = null ] || complain "nothing is measured: $(cat out)"

# ---- bad input -------------------------------------------------------------------------------------------------------------
piece normal "2, 37" 0 >signed.npy
piece normal "2, 37, 4" 0 >narrow.npy
piece normal "2, 0, 5" 0 >none.npy
piece normal "3, 90, 5" 0 >three.npy
piece normal "3" 0 >three_decays.npy
# Arrays whose last number is NaN, and arrays of ±2^20 and ±2^100: 0x7fc00000, 0x49800000, 0x71800000.
{ head -c $((128 + 4 * 369)) Q.npy; printf '\000\000\300\177'; } >nan.npy
signed() {
    head -c 128 Q.npy
    # shellcheck disable=SC2059
    printf "$(awk -v plus="$1" -v minus="$2" 'BEGIN { for (i = 0; i < 370; i++) printf "\\000\\000\\200\\%s", i % 3 ? plus : minus }')"
}
signed 111 311 >large.npy
signed 161 361 >huge.npy
piece normal "2, 5" 0 >lambda.npy
# shellcheck disable=SC2086
{
    wrong "--degree|integer p from 1 to 64|-1" $arrays --kind poly --degree -1
    wrong "--degree|integer p from 1 to 64|2.5|kind power" $arrays --kind poly --degree 2.5
    wrong "--degree|p > 0|-0.5" $arrays --kind power --degree -0.5
    wrong "--degree|polynomial maps|kind linear" $arrays --kind linear --degree 2
    refused "degree 60|4194304" $arrays --kind poly --degree 60
    for decay in 0 1.5 -0.5 nan 0.5,1.5; do
        wrong "--decay: expected numbers above 0 and at most 1, found ${decay#*,}" $arrays --kind retention --decay $decay
    done
    wrong "--decay|range of float32|1e-300" $arrays --kind retention --decay 0.5,1e-300
    wrong "--lambda|range of float32|1e+40" $arrays --kind ridge --lambda 1e40
    for list in 0.9, ,0.9 0.9,,0.8 ,; do
        wrong "--decay|a list with an empty element, '$list'" $arrays --kind retention --decay $list
    done
    refused "decays,0.npy|cannot be opened" $arrays --kind retention --decay decays,0.npy
    refused "--decay|one per key head (2)|found 3" $arrays --kind retention --decay 0.5,0.6,0.7
    refused "--decay three_decays.npy|(key heads,) = (2,)|(3,)" $arrays --kind retention --decay three_decays.npy
    refused "--decay lambda.npy|(2,)|(2, 5)" $arrays --kind retention --decay lambda.npy
    wrong "--decay applies to the kinds|found kind gla" $arrays --kind gla --gate G5.npy --decay 0.5
    wrong "exclude each other" $arrays --kind retention --decay 0.5 --gate G.npy
    for gate in gate log-gate; do
        wrong "retention has fixed gates|--kind linear --map identity --normalizer none --causal --$gate" $arrays --kind retention --$gate G.npy
    done
    wrong "gates require --causal" $arrays --kind linear --decay 0.5
    wrong "gates require --causal" $arrays --kind ridge --gate G.npy
    refused "the same number of tokens" --q Q4.npy --k K2.npy --v V2.npy --kind ridge --causal
    for lambda in 0 -1; do
        wrong "--lambda: expected a number above 0, found $lambda" $arrays --kind ridge --lambda $lambda
    done
    refused "--lambda lambda.npy|positive numbers|at (" $arrays --kind ridge --lambda lambda.npy
    refused "--lambda signed.npy|(key heads, width) = (2, 5)|(2, 37)" $arrays --kind ridge --lambda signed.npy
    wrong "gla requires --gate|with the shape of the keys" $arrays --kind gla
    for kind in gated-delta gated-ridge; do
        wrong "$kind requires --gate|with the shape of the keys without the last dimension" $arrays --kind $kind
    done
    refused "--gate G.npy|the shape of the keys = (2, 37, 5)|(2, 37)" $arrays --kind gla --gate G.npy
    refused "--gate G5.npy|without the last dimension = (2, 37)|(2, 37, 5)" $arrays --kind gated-delta --gate G5.npy
    refused "--gate V.npy|gates in (0, 1]|at (" $arrays --kind gla --gate V.npy
    refused "--beta signed.npy|nonnegative|at (" $arrays --kind delta --beta signed.npy
    refused "--beta V.npy|(2, 37)" $arrays --kind delta --beta V.npy
    wrong "--beta applies to the kinds delta, gated-delta, ridge, gated-ridge, found kind gla" $arrays --kind gla --gate G5.npy --beta B.npy
    refused "--w bias.npy|(key heads, rank, width)|(2, 3)" $arrays --kind t2r --w bias.npy
    refused "--w-k identity.npy|(2, 3, 5)|(2, 5, 5)" $arrays --kind t2r --w W.npy --w-k identity.npy
    refused "--bias lambda.npy|(key heads, rank) = (2, 3)|(2, 5)" $arrays --kind t2r --w W.npy --bias lambda.npy
    wrong "--w applies to|learned map" $arrays --kind hybrid --w W.npy
    wrong "--w applies to the kinds|found kind favor" $arrays --kind favor --w W.npy
    wrong "--one-draw applies to the kinds linear|found kind gla" $arrays --kind gla --gate G5.npy --one-draw
    wrong "--one-draw has no effect for the|map" $arrays --kind hedgehog --one-draw
    wrong "exponential, hedgehog or rectifier|elu" $arrays --kind hedgehog --map elu
    wrong "--unit and --no-unit" $arrays --kind delta --unit --no-unit
    wrong "--unit applies to the kinds gla|found kind linear" $arrays --kind linear --unit
    wrong "--iterations|gated-ridge" $arrays --kind ridge --iterations 3
    wrong "--scale applies to the kinds|found kind ridge" $arrays --kind ridge --scale 2
    wrong "--proposal|did you mean oprf" $arrays --kind favor --proposal opfr
    wrong "--sampling|expected one of drawn, optimal|leverage" $arrays --kind favor --sampling leverage
    wrong "--sampling optimal has no effect for the elu map" $arrays --kind linear --sampling optimal
    refused "proposal oprf applies only to positive features" $arrays --kind favor --map trig --proposal oprf
    wrong "used together|--calibrate-k is missing" $arrays --kind favor++ --calibrate-q CQ.npy
    wrong "--calibrate-q has no effect" $arrays --kind favor --calibrate-q CQ.npy --calibrate-k CK.npy
    wrong "--propose" $arrays --kind favor++ --propose
    wrong "--kind favor# has --proposal sderf, found --proposal oprf" $arrays --kind favor# --proposal oprf
    wrong "--kind favor++ has --proposal oprf, found --proposal gaussian" $arrays --kind favor++ --proposal gaussian
    refused "--calibrate-q nan.npy: expected finite numbers, found nan at (1, 36, 4)" $arrays --kind favor++ --calibrate-q nan.npy --calibrate-k CK.npy
    refused "--calibrate-k nan.npy: expected finite numbers" $arrays --kind favor++ --calibrate-q CQ.npy --calibrate-k nan.npy
    # Either the result overflows, or a factor is singular in float32: that depends on the rounding of the compiler.
    refused "--calibrate-q huge.npy and --calibrate-k huge.npy|too large" $arrays --kind favor# --calibrate-q huge.npy --calibrate-k huge.npy
    refused "overflowed float32|--calibrate-q large.npy and --calibrate-k large.npy|too large" $arrays --kind favor# --calibrate-q large.npy --calibrate-k large.npy
    refused "--k nan.npy: expected finite numbers" --q Q.npy --k nan.npy --v V.npy --kind favor# --calibrate-q CQ.npy --calibrate-k CK.npy
    refused "--calibrate-q none.npy|empty array|(2, 0, 5)" $arrays --kind favor++ --calibrate-q none.npy --calibrate-k CK.npy
    refused "calibration arrays must have the same number of heads|three.npy|(3, 90, 5)|Q.npy" $arrays --kind favor++ --calibrate-q three.npy --calibrate-k three.npy
    refused "calibration arrays must have the same width|narrow.npy" $arrays --kind favor++ --calibrate-q narrow.npy --calibrate-k narrow.npy
    wrong "--gamma applies to the kinds hybrid|found kind favor" $arrays --kind favor --gamma 2
    wrong "--gamma has no effect" $arrays --kind hybrid --gamma 2
    wrong "did you mean retention" $arrays --kind retntion
}
finish
