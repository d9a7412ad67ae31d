# Arrays for the scripts that test attention: creates and reads them, compares them with a reference in awk, and runs
# commands that must succeed or fail. There are two pools of numbers: approximately normal, and in (0, 1]. The features
# of degree 1 are 1 and the numbers themselves.
awk 'BEGIN { srand(3); for (i = 0; i < 400; i++) { for (j = 0; j < 16; j++) { x = -6; for (n = 0; n < 12; n++) x += rand();
    printf "%.5f ", 0.9 * x } print "" } }' >normal.txt
awk 'BEGIN { srand(4); for (i = 0; i < 200; i++) { for (j = 0; j < 4; j++) printf "%.5f ", 0.5 + rand() / 2; print "" } }' >gates.txt
for pool in normal gates; do
    succeeds "$BOCHNER" features $pool.txt --kernel polynomial --degree 1 --gamma 1 --out $pool.npy
done

count_of() { # count_of SHAPE: number of elements, for example 24 for "2, 3, 4"
    echo "$1" | awk -F, '{ n = 1; for (i = 1; i <= NF; i++) if ($i != "") n *= $i; print n }'
}
# piece POOL SHAPE FIRST: an array of this shape with numbers from the pool, starting at number FIRST.
piece() {
    head -c 10 "$1.npy"
    printf '%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($2), }"
    tail -c +$((129 + 4 * $3)) "$1.npy" | head -c $((4 * $(count_of "$2")))
}
# numbers FILE COLUMNS: one row per line. The arrays here have headers of 128 bytes.
numbers() {
    od -A n -v -t f4 -w$((4 * $2)) -j 128 "$1"
}
# distance A B: |a - b| / |b| of two arrays.
distance() {
    numbers "$1" 1 >a.txt
    numbers "$2" 1 >b.txt
    paste a.txt b.txt | awk 'NF != 2 { bad = 1 } { d += ($1 - $2) ^ 2; n += $2 ^ 2 } END { print bad || NR == 0 ? 9 : sqrt(d / n) }'
}

# oracle WEIGHT Q K V HEADS KEY_HEADS N KEYS D [GATES HOW]: reference attention in double precision with one weight per
# pair, for one sequence; causal if CAUSAL is 1, with a window of WINDOW keys if that is not 0. Values have D
# dimensions. The output of a first token with gate 1 is its own value.
CAUSAL=0
WINDOW=0
DEGREE=2
oracle() {
    { numbers "$2" "$9"; numbers "$3" "$9"; numbers "$4" "$9"; [ $# -lt 10 ] || numbers "${10}" 1; } |
        awk -v weight="$1" -v H="$5" -v HK="$6" -v N="$7" -v M="$8" -v D="$9" -v causal=$CAUSAL -v window=$WINDOW -v degree=$DEGREE -v how="${11:-}" '
        function phi(x) { return x > 0 ? x + 1 : exp(x) }
        function pair(r, c,   t, j) {
            t = 0
            for (j = 1; j <= D; j++) t += weight == "elu" ? phi(x[r, j]) * phi(x[c, j]) : x[r, j] * x[c, j]
            if (weight == "softmax") return exp(t / sqrt(D))
            if (weight == "taylor") return 1 + t / sqrt(D) + t * t / (2 * D)
            if (weight == "polynomial") return (1 + t / sqrt(D)) ^ 2
            if (weight == "power") return (t < 0 ? -t : t) ^ degree
            return t
        }
        { for (j = 1; j <= D; j++) x[NR, j] = $j }
        END { keys = H * N; values = keys + HK * M; gates = values + HK * M
            for (h = 0; h < H; h++) { kh = int(h / (H / HK))
                for (i = 1; i <= N; i++) { z = 0; for (j = 1; j <= D; j++) o[j] = 0; product = 1
                    for (c = causal ? i : M; c >= 1; c--) {
                        if (window && c <= i - window) break
                        a = pair(h * N + i, keys + kh * M + c) * product
                        if (how == "convex") a *= x[gates + kh * M + c, 1] < 1 ? 1 - x[gates + kh * M + c, 1] : 1e-30
                        if (how != "") product *= x[gates + kh * M + c, 1]
                        z += a; for (j = 1; j <= D; j++) o[j] += a * x[values + kh * M + c, j] }
                    for (j = 1; j <= D; j++) printf "%.9g\n", z == 0 ? 0 : o[j] / z } } }'
}
# agrees FILE WHAT: the output in FILE equals the one on standard input. Sums have at most 100 terms in float32, each
# rounded to 6e-8 and none larger than the sum of the weights, so errors stay below 2e-5.
agrees() {
    cat >wanted.txt
    numbers "$1" 1 >got.txt
    distance_text=$(paste got.txt wanted.txt | awk 'NF != 2 { bad = 1 } { d += ($1 - $2) ^ 2; n += $2 ^ 2 }
        END { print bad || NR == 0 ? 9 : sqrt(d / n) }')
    expect "$2: relative error" "$distance_text" '<' 2e-5
}
attend() {
    succeeds "$BOCHNER" attention "$@"
}

# refused TEXT OPTIONS...: the command fails with this text and writes nothing. wrong: the same, with the exit status of
# usage errors.
refused() {
    words=$1
    shift
    rm -f bad.npy
    fails 1 "$words" "$BOCHNER" attention "$@" --out bad.npy
    [ -e bad.npy ] && complain "an output was written though it failed: $*"
}
wrong() {
    words=$1
    shift
    fails 2 "$words" "$BOCHNER" attention "$@"
}
