# A model reads more tokens than in training: a warning for attention that keeps all keys and for absolute positions, a
# report line for other distances, nothing otherwise or within the training context.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { for (i = 0; i < 40; i++) print "the cat sleeps and the dog eats." }' >text.txt
small="--layers 1 --width 8 --heads 2 --batch 2 --steps 1 --quiet"

make_model() { # make_model OPTIONS...: trained with a context of 16 tokens
    rm -rf model
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" train --data text.txt --valid-fraction 0 --out model $small --context 16 "$@"
}
# reports KIND TEXT COMMAND...: standard error has one line about the training context; KIND is warning, Context or
# none.
reports() {
    kind=$1
    text=$2
    shift 2
    succeeds "$BOCHNER" "$@"
    grep "trained with" err >reported
    expect "lines of '$*'" "$(wc -l <reported)" == "$([ "$kind" = none ] && echo 0 || echo 1)"
    [ "$kind" = none ] && return
    grep -q "$kind" reported || complain "$* does not report $kind: $(cat reported)"
    grep -qF -e "$text" reported || complain "$* does not report '$text': $(cat reported)"
}

# ---- kinds and positions -----------------------------------------------------------------------------------------------
# check KIND TEXT OPTIONS...: the messages of eval and generate about a model with these options
check() {
    expected=$1
    reported_text=$2
    shift 2
    make_model "$@"
    reports none "" eval model --data text.txt
    reports none "" generate model --prompt cat --tokens 13
    reports "$expected" "$reported_text" eval model --data text.txt --context 64
    reports "$expected" "$reported_text" generate model --prompt cat --tokens 40
}
check warning "softmax attention to this many keys and such distances (RoPE)" --attention softmax
check warning "softmax attention to this many keys did not" --attention softmax --positions none
check warning "power attention to this many keys" --attention power
check warning "such positions (sinusoidal)" --attention favor --positions sinusoidal
check Context "such distances (RoPE)" --attention rfa-gate
check none "" --attention rfa-gate --positions none
check none "" --attention softmax --window 8
check none "" --mixer lstm

# ---- counted tokens --------------------------------------------------------------------------------------------------
make_model --attention softmax
reports warning "64 tokens of context, but the model was trained with 16" eval model --data text.txt --context 64
reports warning "use at most 16 tokens" eval model --data text.txt --context 64 --quiet
reports warning "20 tokens of context" eval model --data text.txt --context 64 --tokens 20 # windows end with the text
reports none "" eval model --data text.txt --context 64 --tokens 16
succeeds "$BOCHNER" eval model --data text.txt --context 64 --json
[ "$(field out trained_context)" = 16 ] || complain "trained_context as JSON: $(cat out)"
# A long prompt is reported before it is read, a long text at the end, and the tokens of a state are included.
reports warning "17 tokens of context" generate model --prompt "the cat sleeps at" --tokens 30
reports none "" generate model --prompt "the cat" --tokens 5 --save-state here.state
reports warning "22 tokens of context" generate model --load-state here.state --tokens 11
# Learned positions end with the context.
make_model --attention softmax --positions learned
fails 1 "only 16 positions" "$BOCHNER" eval model --data text.txt --context 64
grep -q "trained with" err && complain "a warning besides the error: $(cat err)"

# ---- labels ----------------------------------------------------------------------------------------------------------
awk 'BEGIN { for (i = 0; i < 20; i++) print i % 2 "\tthe cat sleeps and the dog eats" }' >labels.tsv
# shellcheck disable=SC2086
succeeds "$BOCHNER" train --task classify --data labels.tsv --out labels $small --context 16 --attention softmax
reports none "" eval labels --data labels.tsv
reports warning "31 tokens of context, but the model was trained with 16" eval labels --data labels.tsv --context 64
reports warning "trained with 16" predict labels labels.tsv --labeled --context 64
finish
