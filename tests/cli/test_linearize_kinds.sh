# bochner linearize with every name of --attention: all work, alone or with a window, except kinds without a state of
# fixed size, which are refused with the reason.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); m = split("cat,dog,hen,cow", a, ",");
    for (i = 0; i < 400; i++) print "the " a[1 + int(m * rand())] " sleeps." }' >text.txt
succeeds "$BOCHNER" train --data text.txt --out base --attention softmax --layers 2 --width 16 --heads 2 --context 16 --batch 8 \
    --steps 20 --valid-fraction 0.1 --quiet
run="--data text.txt --transfer-steps 2 --steps 2 --batch 2 --lora 2 --calibrate-tokens 64 --eval-tokens 64 --no-timing --json --quiet"
names=$("$BOCHNER" linearize base $run --attention nothing --out never 2>&1 | sed 's/.*expected one of //; s/; found.*//; s/,//g')
[ "$(echo "$names" | wc -w)" -ge 20 ] || complain "the names of --attention: $names"

# works NAME OPTIONS...: two steps of each stage give a model that reads text; sets `is` to its attention.
works() {
    name=$1
    shift
    rm -rf made
    succeeds "$BOCHNER" linearize base $run --attention "$name" --out made "$@" || return
    is=$(field out attention)
    expect "$name $*: perplexity" "$(awk '/"perplexity":/ { p = $2 } END { print p + 0 }' out)" ">" 1
    succeeds "$BOCHNER" generate made --prompt "the " --tokens 5 --greedy --quiet
}

for name in $names; do
    case $name in
    softmax | power) # they keep every key
        fails 1 "$name attention without a window has no state of fixed size" "$BOCHNER" linearize base $run --attention "$name" --out never
        works "$name" --window 4
        ;;
    dark | favor | favor++ | favor# | hedgehog | t2r | hybrid)
        works "$name"
        works "$name" --window 4
        [ "$is" = hybrid ] || complain "$name with a window is $is"
        ;;
    *)
        works "$name"
        fails 1 "--window needs --attention|found $name" "$BOCHNER" linearize base $run --attention "$name" --window 4 --out never
        [ -e never ] && complain "$name: something was written"
        ;;
    esac
done
# Frequencies drawn from data do not need a run that draws them.
works "favor++" --gate none
rm -rf made
succeeds "$BOCHNER" linearize base --data text.txt --no-transfer --no-finetune --attention favor# --calibrate-tokens 64 --no-timing --out made --quiet
finish
