# bochner eval --ids and generate --ids: logits and greedy tokens of the reference models, and ids that are refused.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# bytes FILE NAME: the bytes of a tensor of a safetensors file. The header is a line of JSON after its length.
bytes() {
    header=$(od -A n -t u8 -N 8 "$1" | tr -d ' ')
    range=$(head -c $((8 + header)) "$1" | tail -c "$header" | tr '{' '\n' | grep -A 1 "\"$2\":" | tail -n 1 |
        sed 's/.*"data_offsets": *\[ *\([0-9]*\), *\([0-9]*\)\].*/\1 \2/')
    tail -c +$((9 + header + ${range% *})) "$1" | head -c $((${range#* } - ${range% *}))
}
# npy DESCR SHAPE: an array of the numbers on standard input, which are in binary.
npy() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': ($2), }"
    cat
}
# list FILE TYPE: the numbers of an array, one per line.
list() {
    od -A n -v -t "$2" -w"${2#?}" -j 128 "$1" | tr -d ' '
}

for model in llama-tiny gpt2-tiny; do
    directory="$BOCHNER_SOURCE/tests/data/$model"
    reference="$directory/reference.safetensors"
    bytes "$reference" input_ids | npy '<i4' '200,' >ids.npy
    bytes "$reference" rows | npy '<i4' '8,' >rows.npy
    bytes "$reference" logits | npy '<f4' '8, 1024' >wanted.npy
    bytes "$reference" greedy >greedy.bin

    # the logits of the rows of the reference, up to the errors of float32 sums
    succeeds "$BOCHNER" eval "$directory" --ids ids.npy --logits-out logits.npy --json
    expect "$model: tokens" "$(field out tokens)" == 200
    expect "$model: scored tokens" "$(field out scored_tokens)" == 199
    head -c 128 logits.npy | grep -qF "'shape': (200, 1024)" || complain "$model: $(head -c 128 logits.npy)"
    list logits.npy f4 >logits.txt
    list wanted.npy f4 >wanted.txt
    list rows.npy d4 | awk '{ for (i = 1; i <= 1024; i++) print 1024 * $1 + i }' >places.txt
    worst=$(awk 'FILENAME == "places.txt" { place[FNR] = $1; n = FNR } FILENAME == "logits.txt" { got[FNR] = $1 }
        FILENAME == "wanted.txt" { d = got[place[FNR]] - $1; if (d < 0) d = -d; if (d > worst) worst = d; seen = FNR }
        END { print seen == n && n == 8192 ? worst + 0 : 9 }' places.txt logits.txt wanted.txt)
    expect "$model: error of the logits" "$worst" '<' 2e-5

    # a batch of two sequences, each with its own state
    { tail -c +129 ids.npy | head -c 240; tail -c +129 ids.npy | head -c 240; } | npy '<i4' '2, 60' >batch.npy
    succeeds "$BOCHNER" eval "$directory" --ids batch.npy --logits-out both.npy --json
    expect "$model: sequences" "$(field out sequences)" == 2
    head -c 128 both.npy | grep -qF "'shape': (2, 60, 1024)" || complain "$model: $(head -c 128 both.npy)"
    list both.npy f4 >both.txt
    worst=$(awk 'FILENAME == "logits.txt" { got[FNR] = $1 }
        FILENAME == "both.txt" { d = got[(FNR - 1) % 61440 + 1] - $1; if (d < 0) d = -d; if (d > worst) worst = d; seen = FNR }
        END { print seen == 122880 ? worst + 0 : 9 }' logits.txt both.txt)
    expect "$model: difference between a batch and one sequence" "$worst" '<' 2e-5

    # the greedy continuation of the first 16 ids
    head -c 64 greedy.bin | npy '<i4' '16,' >prompt.npy
    tail -c +65 greedy.bin | od -A n -v -t d4 -w4 | tr -d ' ' >wanted.txt
    succeeds "$BOCHNER" generate "$directory" --ids prompt.npy --greedy --tokens 32 --json
    grep '"ids"' out | grep -o '[0-9][0-9]*' >got.txt
    cmp -s wanted.txt got.txt || complain "$model: greedy tokens differ: $(tr '\n' ' ' <got.txt)"
done

# A model without a tokenizer prints ids, and needs them.
succeeds "$BOCHNER" generate "$BOCHNER_SOURCE/tests/data/llama-tiny" --ids prompt.npy --tokens 3 --greedy --quiet
expect "ids that are printed" "$(wc -w <out)" == 3
fails 1 "no tokenizer.json|--ids" "$BOCHNER" generate "$BOCHNER_SOURCE/tests/data/llama-tiny" --prompt x
echo "a text" >text.txt
fails 1 "no tokenizer.json|--ids" "$BOCHNER" eval "$BOCHNER_SOURCE/tests/data/llama-tiny" --data text.txt

# Refused: ids beyond the vocabulary, negative and fractional ones, shapes, files of other kinds, and usage errors.
printf '\001\000\000\000\000\004\000\000' | npy '<i4' '2,' >high.npy
printf '\377\377\377\377' | npy '<i4' '1,' >negative.npy
printf '\000\000\300\077' | npy '<f4' '1,' >fraction.npy
printf '\001\000\000\000' | npy '<i4' '1, 1, 1' >deep.npy
printf '' | npy '<i4' '0,' >empty.npy
fails 1 "high.npy|0 to 1023|1024 at position 1" "$BOCHNER" eval "$directory" --ids high.npy
fails 1 "negative.npy|-1 at position 0" "$BOCHNER" eval "$directory" --ids negative.npy
fails 1 "fraction.npy|1.5" "$BOCHNER" generate "$directory" --ids fraction.npy
fails 1 "deep.npy|(1, 1, 1)" "$BOCHNER" eval "$directory" --ids deep.npy
fails 1 "empty.npy" "$BOCHNER" eval "$directory" --ids empty.npy --logits-out none.npy
fails 1 "batch.npy|one sequence" "$BOCHNER" generate "$directory" --ids batch.npy
fails 1 "text.txt" "$BOCHNER" eval "$directory" --ids text.txt
fails 1 "missing.npy" "$BOCHNER" eval "$directory" --ids missing.npy --logits-out none.npy
[ -e none.npy ] && complain "an output was written though it failed"
fails 2 "--data FILE or --ids" "$BOCHNER" eval "$directory"
fails 2 "leave out --data" "$BOCHNER" eval "$directory" --ids ids.npy --data text.txt
fails 2 "needs --ids" "$BOCHNER" eval "$directory" --data text.txt --logits-out none.npy
fails 2 "ends in .npy" "$BOCHNER" eval "$directory" --ids ids.npy --logits-out none.txt
fails 2 "would replace" "$BOCHNER" eval "$directory" --ids ids.npy --logits-out ids.npy
fails 2 "leave out --prompt" "$BOCHNER" generate "$directory" --ids ids.npy --prompt x

# --context limits prompt and continuation; beyond the training context it warns.
fails 1 "--context 8|16 tokens" "$BOCHNER" generate "$directory" --ids prompt.npy --context 8
succeeds "$BOCHNER" generate "$directory" --ids prompt.npy --context 20 --tokens 32 --greedy --json
[ "$(field out finish_reason)" = context ] || complain "ended for $(field out finish_reason)"
expect "tokens within the context" "$(field out tokens)" == 5
succeeds "$BOCHNER" generate "$BOCHNER_SOURCE/tests/data/llama-tiny" --ids prompt.npy --context 400 --tokens 4
grep -q "trained with 256" err || complain "no warning beyond the context of training: $(cat err)"

# The cost of low-precision weights.
for i in 1 2 3 4 5 6 7 8; do echo "the cat sleeps and the dog eats number $i"; done >text.txt
succeeds "$BOCHNER" eval "$directory" --data text.txt --weights int8
grep -q "Cost  .*perplexity .* with float32 weights" out || complain "no cost of int8: $(cat out)"
succeeds "$BOCHNER" eval "$directory" --data text.txt --weights int8 --json
expect "cost of int8" "$(field out perplexity_cost)" '<' 0.01

finish
