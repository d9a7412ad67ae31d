# bochner mup: growth with and without μP, the best learning rate; train --mup and usage errors.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(5); for (i = 0; i < 6000; i++) printf "%s ", substr("abcdefgh", 1 + int(8 * rand() * rand()), 3) }' >text.txt
small="--width 16 --heads 2 --layers 1 --attention softmax"

succeeds "$BOCHNER" mup check --widths 16,32,64,128 $small --json --plot check.svg
[ "$(field out steps)" = 5 ] || complain "--json: $(head -c 300 out)"
grep -q '"standard"' out && grep -q '"mup"' out || complain "a side is missing"
[ -s check.svg ] || grep -q gnuplot err || complain "no plot"
succeeds "$BOCHNER" mup check --widths 16,32,64,128 $small --steps 4
# With standard parametrization, which comes first, the mlp grows with the width; with μP it does not.
awk '/layer 0 mlp/ { n++; word[n] = $NF } END { exit !(n == 2 && word[1] == "grows" && word[2] == "flat") }' out ||
    complain "what follows the width: $(grep 'layer 0 mlp' out)"
succeeds "$BOCHNER" mup check --widths 16,32 --width 16 --heads 2 --layers 1 --unit-mup --mixer lstm
grep -q '^unit parametrization' out || complain "--unit-mup: $(head -3 out)"

succeeds "$BOCHNER" mup transfer --data text.txt --widths 16,32 $small --context 16 --batch 4 --steps 12 \
    --rates 0.001,0.004,0.016 --json --plot transfer.svg --quiet
[ "$(field out steps)" = 12 ] || complain "transfer --json: $(head -c 300 out)"
[ "$(grep -c '"octaves"' out)" = 2 ] || complain "octaves of both sides: $(cat out)"
# At the base width both parametrizations are the same run.
awk '/"losses"/ { getline; line[++n] = $0 } END { exit !(n == 2 && line[1] == line[2]) }' out || complain "the base width: $(cat out)"

# Training, saving and resuming.
succeeds "$BOCHNER" train --data text.txt --out run $small --context 16 --batch 4 --steps 6 --checkpoint-every 3 --mup --base-width 8
grep -q '"parametrization": "mup"' run/config.json && grep -q '"base_width": 8' run/config.json || complain "config.json"
succeeds "$BOCHNER" train --resume --out run
succeeds "$BOCHNER" train --data text.txt --out eight $small --context 16 --batch 4 --steps 6 --unit-mup --float8
grep -q '"storage": "float8"' eight/config.json || complain "config.json of float8"
succeeds "$BOCHNER" generate eight --prompt abc --tokens 4

fails 2 "check or transfer" "$BOCHNER" mup
fails 2 "found 'chek'" "$BOCHNER" mup chek
fails 2 "--widths|two or more" "$BOCHNER" mup check --widths 64
fails 2 "--rates" "$BOCHNER" mup transfer --data text.txt --rates 1,x
fails 2 "give --data" "$BOCHNER" mup transfer
fails 2 "--lr" "$BOCHNER" mup transfer --data text.txt --lr 1
fails 2 "--init" "$BOCHNER" mup check --init run
fails 1 "2 heads at width 16 would be 2.5 heads at width 20" "$BOCHNER" mup check --widths 20,40 $small
fails 2 "not both" "$BOCHNER" train --data text.txt --out x --mup --unit-mup
fails 2 "--base-width" "$BOCHNER" train --data text.txt --out x --base-width 64
fails 1 "unit-scaled" "$BOCHNER" train --data text.txt --out x $small --steps 2 --unit-mup --optim sgd
finish
