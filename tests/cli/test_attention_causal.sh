# Causal attention on the command line: tokens from a position on do not change a bit of earlier outputs, for every kind
# and every fit to data; the report names the fit and the outputs that use it.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
. "$BOCHNER_SOURCE/tests/cli/arrays.sh"

TOKENS=37
WIDTH=5
kind_of_array() { # kind_of_array NAME: pool and number of columns
    case $1 in G) echo gates 1 ;; G5) echo gates $WIDTH ;; *) echo normal $WIDTH ;; esac
}
at=0
for name in Q K V G G5; do
    # shellcheck disable=SC2046
    set -- $(kind_of_array $name)
    shape="$TOKENS, $2"
    [ "$2" = 1 ] && shape="$TOKENS,"
    piece "$1" "$shape" $at >$name.npy
    piece "$1" "$shape" $((at + 2 * TOKENS)) >other.$name.npy
    at=$((at + 97))
done
arrays="--q Q.npy --k K.npy --v V.npy"
changed="--q changed.Q.npy --k changed.K.npy --v changed.V.npy"

# change_from TOKEN: changed.X.npy has the tokens of X.npy before TOKEN and other ones from there on.
change_from() {
    for name in Q K V G G5; do
        # shellcheck disable=SC2046
        set -- "$1" $(kind_of_array $name)
        bytes=$((128 + 4 * $3 * $1))
        { head -c $bytes $name.npy; tail -c +$((bytes + 1)) other.$name.npy; } >changed.$name.npy
    done
}
# causal FIRST OPTIONS...: outputs before token 20, and before token FIRST, do not depend on the tokens from there on;
# the output of the last token does.
causal() {
    first=$1
    shift
    gate=
    case "$*" in *rfa-gate* | *gated-*) gate=G ;; *"--kind gla"*) gate=G5 ;; esac
    # shellcheck disable=SC2086
    attend $arrays ${gate:+--gate $gate.npy} --causal "$@" --out O.npy
    for token in 20 "$first"; do
        change_from "$token"
        # shellcheck disable=SC2086
        attend $changed ${gate:+--gate changed.$gate.npy} --causal "$@" --out O2.npy
        cmp -s -n $((128 + 4 * WIDTH * token)) O.npy O2.npy || complain "$*: tokens from $token on change outputs before it"
        cmp -s O.npy O2.npy && complain "$*: tokens from $token on change no output"
    done
}

# ---- every kind --------------------------------------------------------------------------------------------------------
succeeds "$BOCHNER" attention --help-all
kinds=$(tr -s ' \n' '  ' <out | sed 's/.*--kind KIND kind of attention: //; s/ --causal .*//; s/,//g')
[ "$(echo "$kinds" | wc -w)" -ge 20 ] || complain "kinds of the help: $kinds"
for kind in $kinds; do causal 3 --kind "$kind"; done

# ---- everything that is fitted to data ---------------------------------------------------------------------------------
# Token 3 is one of the 8 tokens of the fit; the outputs before token 20 use the fit from token 8 on.
for how in "favor++" "favor#" "favor --proposal gaussian" "favor --sampling optimal" "favor++ --sampling optimal" \
    "favor --propose" "favor --map oprf" "favor++ --decay 0.9" "dark --whiten" "dark --propose" "dark --proposal oprf" \
    "hybrid --window 3 --proposal sderf" "linear --map rbf --sampling optimal" "linear --map oprf" "rfa --sampling optimal"; do
    # shellcheck disable=SC2086
    causal 3 --kind $how --features 32 --calibrate-rows 8
done

# ---- what is fitted to which tokens ------------------------------------------------------------------------------------
# The first tokens have the outputs of the attention without the fit; a fit to named data applies to all tokens.
first=$((128 + 4 * WIDTH * 8))
# shellcheck disable=SC2086
{
    attend $arrays --kind favor --causal --out favor.npy
    attend $arrays --kind favor# --causal --calibrate-rows 8 --out O.npy --json
    [ "$(field out unfitted_outputs)" = 8 ] || complain "the fit as JSON: $(cat out)"
    cmp -s -n $first favor.npy O.npy || complain "the first outputs of favor# are not those of favor"
    cmp -s favor.npy O.npy && complain "the fit to the first tokens changes no output"
    head -c $first Q.npy | sed "1s/($TOKENS, $WIDTH)/(8, $WIDTH) /" >Q8.npy
    head -c $first K.npy | sed "1s/($TOKENS, $WIDTH)/(8, $WIDTH) /" >K8.npy
    attend $arrays --kind favor# --causal --calibrate-q Q8.npy --calibrate-k K8.npy --out O2.npy
    { head -c $first O.npy; tail -c +$((first + 1)) O2.npy; } | cmp -s - O.npy || complain "the rows of the fit are not the first 8"
    cmp -s -n $first favor.npy O2.npy && complain "the fit to named data does not change the first outputs"
    grep -q warning err && complain "a warning though the calibration is other data: $(cat err)"
    attend $arrays --kind favor# --causal --calibrate-rows 8
    grep -q "^Fit  *to the first 8 tokens, whose outputs do not use it" err || complain "the fit is not reported: $(cat err)"
    # The whole input is named as data of the fit, or nothing is left after the first tokens.
    attend $arrays --kind favor# --causal --calibrate-q Q.npy --calibrate-k K8.npy
    grep -q "warning: the attention is fitted to its own queries or keys" err || complain "no warning: $(cat err)"
    attend $arrays --kind favor# --causal
    grep -q "warning: the fit uses the first $TOKENS tokens" err || complain "no warning: $(cat err)"
    # Without --causal everything is used, unless rows are given.
    attend $arrays --kind favor# --json
    [ "$(field out unfitted_outputs)" = 0 ] && ! grep -q warning err || complain "favor# without --causal: $(cat out err)"
    attend $arrays --kind favor# --calibrate-rows 8 --out O.npy
    attend $arrays --kind favor# --calibrate-q Q8.npy --calibrate-k K8.npy --out O2.npy
    cmp -s O.npy O2.npy || complain "--calibrate-rows without --causal"
    wrong "--calibrate-rows has no effect" $arrays --kind favor --calibrate-rows 8
}

# A longer input does not change an output either: 300 tokens and the first 280 of them.
piece normal "300, 5" 0 >long.npy
piece normal "280, 5" 0 >short.npy
attend --q long.npy --k long.npy --v long.npy --kind favor# --causal --out O.npy
attend --q short.npy --k short.npy --v short.npy --kind favor# --causal --out O2.npy
tail -c +129 O.npy | head -c $((4 * 5 * 280)) >head.bin
tail -c +129 O2.npy | cmp -s - head.bin || complain "later tokens change the outputs of the first 280"

# ---- models --------------------------------------------------------------------------------------------------------------
# Frequencies are fitted to the training text alone: with another validation text the weights have the same bits, and an
# evaluation does not depend on what was evaluated before.
awk 'BEGIN { for (i = 0; i < 60; i++) print "the cat sleeps and the dog eats." }' >text.txt
awk 'BEGIN { for (i = 0; i < 60; i++) print "QUITE ANOTHER TEXT, 1234567890!" }' >other.txt
small="--layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 4 --calibrate-every 2 --attention favor# --features 8 --quiet"
for valid in text other; do
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" train --data text.txt --valid $valid.txt --out model.$valid $small
    succeeds "$BOCHNER" eval model.$valid --data other.txt --quiet
    succeeds "$BOCHNER" eval model.$valid --data text.txt --quiet
    sed -n 's/^Loss *//p' out >loss.$valid
done
cmp -s model.text/model.safetensors model.other/model.safetensors || complain "the validation text changes the model"
[ -s loss.text ] && cmp -s loss.text loss.other || complain "the losses differ: $(cat loss.text loss.other)"
finish
