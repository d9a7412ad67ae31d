# A model that reads more tokens than in training: a warning for attention that keeps all keys and for absolute positions, a
# line of the report for other distances, nothing if nothing applies or within the context of training.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { for (i = 0; i < 40; i++) print "the cat sleeps and the dog eats." }' >text.txt
small="--layers 1 --width 8 --heads 2 --batch 2 --steps 1 --quiet"

make_model() { # make_model OPTIONS...: trained with a context of 16 tokens
    rm -rf model
    # shellcheck disable=SC2086
    succeeds "$BOCHNER" train --data text.txt --valid-fraction 0 --out model $small --context 16 "$@"
}
# says KIND WORDS COMMAND...: standard error has one line about the context of training; KIND is warning, Context or none.
says() {
    kind=$1
    words=$2
    shift 2
    succeeds "$BOCHNER" "$@"
    grep "trained with" err >told
    expect "lines of '$*'" "$(wc -l <told)" == "$([ "$kind" = none ] && echo 0 || echo 1)"
    [ "$kind" = none ] && return
    grep -q "$kind" told || complain "$* does not say $kind: $(cat told)"
    grep -qF -e "$words" told || complain "$* does not say '$words': $(cat told)"
}

# ---- kinds and positions -----------------------------------------------------------------------------------------------
# check KIND WORDS OPTIONS...: what eval and generate say of a model with these options
check() {
    expected=$1
    told_words=$2
    shift 2
    make_model "$@"
    says none "" eval model --data text.txt
    says none "" generate model --prompt cat --tokens 13
    says "$expected" "$told_words" eval model --data text.txt --context 64
    says "$expected" "$told_words" generate model --prompt cat --tokens 40
}
check warning "softmax attention to this many keys and such distances (RoPE)" --attention softmax
check warning "softmax attention to this many keys did not" --attention softmax --positions none
check warning "power attention to this many keys" --attention power
check warning "such positions (sinusoidal)" --attention favor --positions sinusoidal
check Context "such distances (RoPE)" --attention rfa-gate
check none "" --attention rfa-gate --positions none
check none "" --attention softmax --window 8
check none "" --mixer lstm

# ---- what counts -----------------------------------------------------------------------------------------------------
make_model --attention softmax
says warning "64 tokens of context, but the model was trained with 16" eval model --data text.txt --context 64
says warning "use at most 16 tokens" eval model --data text.txt --context 64 --quiet
says warning "20 tokens of context" eval model --data text.txt --context 64 --tokens 20 # windows end with the text
says none "" eval model --data text.txt --context 64 --tokens 16
succeeds "$BOCHNER" eval model --data text.txt --context 64 --json
[ "$(field out trained_context)" = 16 ] || complain "trained_context as JSON: $(cat out)"
# A long prompt is reported before it is read, a long text at the end, and tokens of a state count.
says warning "17 tokens of context" generate model --prompt "the cat sleeps at" --tokens 30
says none "" generate model --prompt "the cat" --tokens 5 --save-state here.state
says warning "22 tokens of context" generate model --load-state here.state --tokens 11
# Learned positions end with the context.
make_model --attention softmax --positions learned
fails 1 "only 16 positions" "$BOCHNER" eval model --data text.txt --context 64
grep -q "trained with" err && complain "a warning besides the error: $(cat err)"

# ---- labels ----------------------------------------------------------------------------------------------------------
awk 'BEGIN { for (i = 0; i < 20; i++) print i % 2 "\tthe cat sleeps and the dog eats" }' >labels.tsv
# shellcheck disable=SC2086
succeeds "$BOCHNER" train --task classify --data labels.tsv --out labels $small --context 16 --attention softmax
says none "" eval labels --data labels.tsv
says warning "31 tokens of context, but the model was trained with 16" eval labels --data labels.tsv --context 64
says warning "trained with 16" predict labels labels.tsv --labeled --context 64
finish
