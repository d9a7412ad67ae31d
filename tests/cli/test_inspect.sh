# bochner inspect: text, JSON, the page, the arrays, attention --advise --model, and invalid input.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); for (i = 0; i < 800; i++) print "the " a[1 + int(4 * rand())] " eats." }' >text.txt
small="--layers 2 --width 16 --heads 2 --context 32 --batch 4 --steps 20 --quiet"
succeeds "$BOCHNER" train --data text.txt --out model $small --attention softmax
succeeds "$BOCHNER" train --data text.txt --out dark $small --attention dark --features 16

# The text has every part, one line per head, and the options of the recommendation.
succeeds "$BOCHNER" inspect model --data text.txt --html page.html --dump arrays
for words in "2 layers, width 16, 2 heads of dimension 8" "8 windows of 32 tokens" "^Attention" "lambda" "^Circuits" "^Separation rank" \
    "^Replacements of softmax attention" "^Advice      " "^Options     --attention " "of keys and values per sequence"; do
    grep -q -e "$words" out || complain "inspect lacks '$words': $(cat out)"
done
[ "$(grep -c '^      1    1 ' out)" -eq 3 ] || complain "the last head is not in three tables: $(cat out)"
! grep -q 'nan' out || complain "the text has nan: $(cat out)"
awk 'length($0) > 100 { print; bad = 1 } END { exit bad }' out || complain "lines are too wide"

# The page is complete, without scripts and external files.
[ "$(tail -n 1 page.html)" = '</html>' ] || complain "page.html is not whole"
for words in '<h2>Heads</h2>' 'Largest eigenvalue of Λ' 'Copying' 'class="cell' 'prefers-color-scheme:dark' 'Separation rank' '<code>--attention '; do
    grep -q -e "$words" page.html || complain "page.html lacks '$words'"
done
! grep -q -e '<script' -e 'http' -e 'nan' page.html || complain "page.html has scripts, links or nan"

# bochner attention reads the arrays, and their softmax attention equals the output of the layer.
[ "$(ls arrays | wc -l)" -eq 17 ] || complain "arrays: $(ls arrays)"
. "$BOCHNER_SOURCE/tests/cli/arrays.sh"
succeeds "$BOCHNER" attention --q arrays/layer-01-q.npy --k arrays/layer-01-k.npy --v arrays/layer-01-v.npy --kind softmax --causal --out o.npy
expect "the output of a layer" "$(distance o.npy arrays/layer-01-out.npy)" "<" 1e-5
succeeds "$BOCHNER" attention --advise --q arrays/layer-01-q.npy --k arrays/layer-01-k.npy --v arrays/layer-01-v.npy --causal --max-features 64 --json
error=$(field out query_norm)
succeeds "$BOCHNER" attention --advise --model model --data text.txt --layer 1 --max-features 64 --json
expect "advice on a layer" "$(field out query_norm)" == "$error"

# JSON: the same numbers; parts can be chosen.
succeeds "$BOCHNER" inspect model --data text.txt --json
for name in largest eigenvalues induction_repeated copying written logit errors predicted cache_bytes effective_rank replacement options; do
    grep -q "\"$name\":" out || complain "JSON lacks $name"
done
expect "parameters" "$(field out parameters)" ">" 1000
succeeds "$BOCHNER" inspect model --parts circuits,behavior --json
! grep -q '"moments":' out || complain "moments without a text"
grep -q '"separation":' out && complain "separation was not requested"
succeeds "$BOCHNER" inspect model --context 64 --parts circuits --json
cache=$(field out cache_bytes)
succeeds "$BOCHNER" inspect model --context 128 --parts circuits --json
expect "the cache of twice the context" "$(field out cache_bytes)" ">" "$(awk "BEGIN { print 1.9 * $cache }")"
succeeds "$BOCHNER" inspect dark --data text.txt --parts statistics --json
grep -q '"mapped_moments":' out || complain "no moments after M"
expect "the state of fixed size" "$(field out state_bytes)" ">" 100

# Attention without softmax weights: nothing to replace, no patterns.
succeeds "$BOCHNER" train --data text.txt --out gate $small --attention rfa-gate --features 16
succeeds "$BOCHNER" inspect gate --data text.txt --html gate.html
grep -q 'nothing to replace' out || complain "rfa-gate: $(cat out)"
! grep -q -e '^Options' -e 'nan' out gate.html || complain "rfa-gate has a recommendation or nan"
succeeds "$BOCHNER" inspect gate --data text.txt --json
! grep -q '"replacement' out || complain "rfa-gate has replacements"

# Token ids, for models without a tokenizer.
printf '\223NUMPY\001\000v\000' >ids.npy
printf '%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (64,), }" >>ids.npy
head -c 64 text.txt >>ids.npy
succeeds "$BOCHNER" inspect "$BOCHNER_SOURCE/tests/data/families/qwen3" --ids ids.npy --length 32 --parts statistics,attribution
grep -q '2 windows of 32 tokens' out || complain "ids: $(cat out)"

# Invalid input leaves no files.
printf 'the cat' >short.txt
fails 1 "short.txt: 7 tokens, but a window has 32|--length 7" "$BOCHNER" inspect model --data short.txt --html none.html --dump none
[ ! -e none.html ] && [ ! -e none ] || complain "a failed command left files"
printf 'ab' >shorter.txt
fails 1 "2 tokens, expected at least 4" "$BOCHNER" inspect model --data shorter.txt
fails 1 "missing.txt" "$BOCHNER" inspect model --data missing.txt
fails 1 "none" "$BOCHNER" inspect none --data text.txt
fails 1 "no tokenizer.json|--ids" "$BOCHNER" inspect "$BOCHNER_SOURCE/tests/data/families/qwen3" --data text.txt
fails 1 "dump|Not a directory" "$BOCHNER" inspect model --data text.txt --dump text.txt/none
fails 2 "did you mean circuits" "$BOCHNER" inspect model --parts circits
fails 2 "need a text" "$BOCHNER" inspect model --parts errors
fails 2 "--dump needs a text" "$BOCHNER" inspect model --dump none
fails 2 "ending in .html" "$BOCHNER" inspect model --html page.txt
fails 2 "one model directory" "$BOCHNER" inspect
fails 2 "data or --ids" "$BOCHNER" inspect model --data text.txt --ids ids.npy
fails 1 "layers 0 to 1, found 7" "$BOCHNER" attention --advise --model model --data text.txt --layer 7
fails 2 "option of --advise" "$BOCHNER" attention --model model --data text.txt
fails 2 "needs --model" "$BOCHNER" attention --advise --data text.txt
fails 2 "not both" "$BOCHNER" attention --advise --model model --data text.txt --q q.npy
fails 2 "needs a text" "$BOCHNER" attention --advise --model model
succeeds "$BOCHNER" train --data text.txt --out lstm $small --mixer lstm
fails 1 "found the mixer lstm" "$BOCHNER" inspect lstm --data text.txt
finish
