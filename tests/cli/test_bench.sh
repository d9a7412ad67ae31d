# bench machines: a rate relative to the float32 reference names the arithmetic of the fit, and comes with the rate of a
# float32 fit.
[ -z "${SANITIZE:-}" ] || exit 77 # the reference is a large matrix product
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# images PART ROWS: images of 2 x 4 pixels of two classes, in files named like the files of MNIST.
images() {
    awk -v n="$2" 'BEGIN { srand(n); printf "\\0000\\0000\\0010\\0003\\0000\\0000\\0000\\0%03o", n;
        printf "\\0000\\0000\\0000\\0002\\0000\\0000\\0000\\0004";
        for (i = 0; i < n; i++) for (j = 0; j < 8; j++) printf "\\0%03o", (j % 4 < 2) == (i % 2) ? 150 + 100 * rand() : 60 * rand() }' >text
    printf '%b' "$(cat text)" >"$1-images-idx3-ubyte"
    awk -v n="$2" 'BEGIN { printf "\\0000\\0000\\0010\\0001\\0000\\0000\\0000\\0%03o", n; for (i = 0; i < n; i++) printf "\\0%03o", i % 2 }' >text
    printf '%b' "$(cat text)" >"$1-labels-idx1-ubyte"
}
images train 200
images t10k 60

# beside WHAT: the rate of the default fit names its precision; if that is not float32, there is a second rate.
beside() {
    grep -q "^$1, fit rate / GEMM rate .*float32 fit; its Gram products ran in [a-z]*[0-9]" out ||
        complain "the rate of $1 does not name its precision: $(cat out)"
    grep -q "^$1, fit rate.*ran in float32" out && return
    grep -q "^$1, float32, fit rate / GEMM rate .*ran in float32" out || complain "no float32 rate of $1: $(cat out)"
}

succeeds "$BOCHNER" bench machines --gemm 256 --only speed --mnist . --features 64 --repeats 1 --peers nowhere
beside MNIST
grep -q "^MNIST, fit rate.*ran in int8" out || complain "int8 was not chosen for lambda 0.1: $(cat out)"
grep -q "accuracy 100.00%" out || complain "two kinds of images that differ in every pixel: $(cat out)"
succeeds "$BOCHNER" bench machines --gemm 256 --only stream --scratch . --rows 20000 --stream-features 32 --fashion nowhere
beside stream
ls | grep -q bochner-stream && complain "left behind: $(ls)"
finish
