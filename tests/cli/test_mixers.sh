# bochner train --mixer: every kind trains, is shown by info, and generates with a state; combinations that are refused.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 600; i++) { k = 1 + int(4 * rand()); print "the " a[k] " " d[1 + k % 3] "." } }' >text.txt
small="--data text.txt --layers 1 --width 16 --heads 2 --context 64 --batch 4 --steps 4 --valid-fraction 0.1 --quiet"

for mixer in mlp ssm conv rnn gru lstm degree-2 degree-3 degree-4 degree-e; do
    succeeds "$BOCHNER" train --out $mixer --mixer $mixer $small
    succeeds "$BOCHNER" info $mixer
    grep -q "^Mixer  *$mixer" out || complain "info does not show the mixer $mixer: $(cat out)"
    succeeds "$BOCHNER" info $mixer --json
    [ "$(field out mixer)" = "$mixer" ] || complain "info --json shows the mixer $(field out mixer), not $mixer"
    succeeds "$BOCHNER" eval $mixer --data text.txt --tokens 500 --json
    expect "$mixer: loss" "$(field out loss)" "<" 6
    # In two parts, with the saved state in between.
    succeeds "$BOCHNER" generate $mixer --prompt "the cow" --tokens 20 --greedy --quiet
    head -c 20 out >whole
    succeeds "$BOCHNER" generate $mixer --prompt "the cow" --tokens 8 --greedy --quiet --save-state here.state
    head -c 8 out >parts
    succeeds "$BOCHNER" generate $mixer --load-state here.state --tokens 12 --greedy --quiet
    head -c 12 out >>parts
    cmp -s whole parts || complain "$mixer: '$(cat whole)' is not '$(cat parts)'"
done

# Options that belong to a mixer.
succeeds "$BOCHNER" train --out rank --mixer ssm --ssm low-rank --state-size 4 --state-rank 2 --kernel 3 $small
succeeds "$BOCHNER" info rank
grep -q "ssm low-rank, state 4, rank 2, kernel 3" out || complain "info does not show the whole system: $(cat out)"
fails 2 "attention|--mixer lstm" "$BOCHNER" train --out x --mixer lstm --attention softmax $small
fails 2 "features|--mixer lstm" "$BOCHNER" train --out x --mixer lstm --features 16 $small
fails 2 "--ssm|--mixer ssm" "$BOCHNER" train --out x --mixer gru --ssm closed $small
fails 2 "--state-size|--mixer ssm" "$BOCHNER" train --out x --state-size 4 $small
fails 2 "--state-rank|closed" "$BOCHNER" train --out x --mixer ssm --state-rank 4 $small
fails 2 "--kernel|conv" "$BOCHNER" train --out x --mixer rnn --kernel 4 $small
fails 2 "--positions needs a mixer|queries and keys|lstm" "$BOCHNER" train --out x --mixer lstm --positions rope $small
fails 2 "--key-heads needs a mixer" "$BOCHNER" train --out x --mixer ssm --key-heads 1 $small
fails 2 "--positions needs a mixer" "$BOCHNER" train --out x --mixer degree-e --positions rope $small
fails 2 "--hidden has no effect with --mlp none" "$BOCHNER" train --out x --mlp none --hidden 5 $small
fails 2 "lsmt|did you mean lstm" "$BOCHNER" train --out x --mixer lsmt $small
fails 2 "lowrank|did you mean low-rank" "$BOCHNER" train --out x --mixer ssm --ssm lowrank $small
fails 1 "state_rank must be at most state_size" "$BOCHNER" train --out x --mixer ssm --ssm closed --state-size 2 \
    --state-rank 3 $small

# Matrices along the sequence accept at most as many tokens as the context.
fails 1 "64 positions" "$BOCHNER" generate mlp --prompt "$(head -c 100 text.txt)" --tokens 1 --quiet
succeeds "$BOCHNER" generate mlp --prompt "the cow" --tokens 100 --quiet --json
[ "$(field out finish_reason) $(field out tokens)" = "context 58" ] || complain "a full context: $(cat out)"
grep -q "reads at most 64 tokens" err || complain "no message about the end of the context: $(cat err)"
fails 1 "64 positions" "$BOCHNER" eval mlp --data text.txt --context 65 --tokens 500

# Weights of a model with another mixer: matching ones are loaded; --attention also selects a mixer.
succeeds "$BOCHNER" train --out begun --init lstm --mixer gru $small
succeeds "$BOCHNER" train --out attends --init lstm --attention softmax $small
succeeds "$BOCHNER" info attends --json
[ "$(field out mixer)" = attention ] || complain "--attention does not replace the mixer of --init"
[ "$(field out positions)" = rope ] || complain "an attention in the place of a mixer has no positions"
succeeds "$BOCHNER" train --out lstm --resume
finish
