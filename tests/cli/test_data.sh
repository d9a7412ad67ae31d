# Generated data: recomputed by awk, independent of the number of threads, written completely; usage errors.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

# ListOps as words, evaluated with a stack.
succeeds "$BOCHNER" data listops --count 300 --min-tokens 20 --max-tokens 200 --format words --out words.tsv --seed 3
grep -q "Lines    300, " out && grep -q "File     words.tsv" out || complain "the report: $(cat out)"
awk -F'\t' 'function close_list(   v, i, j, t, n) { n = 0; while (stack[top] !~ /^\[/) v[++n] = stack[top--]
        for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
        t = 0; for (i = 1; i <= n; i++) t += v[i]
        if (stack[top] == "[MIN") stack[top] = v[1]
        else if (stack[top] == "[MAX") stack[top] = v[n]
        else if (stack[top] == "[SM") stack[top] = t % 10
        else stack[top] = int((v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2) }
    { top = 0; n = split($2, w, " "); for (k = 1; k <= n; k++) if (w[k] == "]") close_list(); else stack[++top] = w[k] ~ /^\[/ ? w[k] : w[k] + 0
      if (NF != 2 || top != 1 || stack[1] != $1 || n <= 20 || n >= 200) { print "line " NR ": " $0; exit 1 } }' words.tsv >bad ||
    complain "a value is wrong: $(head -c 200 bad)"
succeeds "$BOCHNER" data listops --count 300 --min-tokens 20 --max-tokens 200 --seed 3
sed 's/\[MIN/m/g; s/\[MAX/M/g; s/\[MED/d/g; s/\[SM/s/g; s/ //g' words.tsv | cmp -s - out || complain "bytes and words are different trees"
[ "$(sort -u out | wc -l)" -eq 300 ] || complain "a tree comes twice"

# The result does not depend on the number of threads; different seeds give different data; --json reports counts.
for kind in "listops --min-tokens 10 --max-tokens 90" match "recall --pairs 40 --distance 100-200"; do
    "$BOCHNER" data $kind --count 150 --threads 1 >one.tsv && "$BOCHNER" data $kind --count 150 --threads 3 >three.tsv
    cmp -s one.tsv three.tsv || complain "threads change $kind"
    "$BOCHNER" data $kind --count 150 --seed 1 | cmp -s - one.tsv && complain "the seed changes nothing: $kind"
    succeeds "$BOCHNER" data $kind --count 150 --out file.tsv --json
    cmp -s one.tsv file.tsv || complain "--out writes something else: $kind"
    [ "$(field out lines)" = 150 ] && [ "$(field out bytes)" = "$(wc -c <file.tsv)" ] || complain "--json: $(cat out)"
    awk -F'\t' -v most="$(field out largest_class)" '{ n[$1]++ } END { for (c in n) if (n[c] > m) m = n[c]; exit !(m / NR > most - 1e-6 && m / NR < most + 1e-6) }' file.tsv ||
        complain "the largest class: $(cat out)"
done

# Recall: the queried value follows its key, at the requested distance from the end.
"$BOCHNER" data recall --count 200 --length 300 --pairs 20 --distance 250 | awk -F'\t' '{ key = substr($2, 300)
    if (length($2) != 300 || substr($2, 299, 1) != "?" || substr($2, 49, 1) != key || substr($2, 50, 1) != $1) { print; exit 1 } }' >bad ||
    complain "recall: $(cat bad)"
# Match: half of the pairs match; all documents have the same length.
"$BOCHNER" data match --count 400 --length 500 | awk -F'\t' '{ ones += $1; for (i = 2; i <= 3; i++) { split($i, c, ""); s = ""; for (k in n) delete n[k]
    for (k = 1; k <= length($i); k++) n[c[k]]++
    s = n["a"] " " n["b"] " " n["f"] " " n[" "]; if (first == "") first = s; if (s != first) { print "line " NR ": " s " and " first; exit 1 } } }
    END { if (ones < 150 || ones > 250) { print ones " ones"; exit 1 } }' >bad || complain "match: $(cat bad)"

# Usage errors leave no partial output.
fails 2 "listops, match or recall" "$BOCHNER" data
fails 2 "did you mean recall" "$BOCHNER" data recal
fails 2 "unknown kind of data 'nothing'" "$BOCHNER" data nothing
fails 2 "unexpected argument 'file.tsv'" "$BOCHNER" data match file.tsv
fails 2 "--pairs is an option of recall; leave it out with match" "$BOCHNER" data match --pairs 4
fails 2 "--length is an option of match, recall" "$BOCHNER" data listops --length 100
fails 2 "--json|--out" "$BOCHNER" data match --json
fails 2 "--distance|found '7-'" "$BOCHNER" data recall --distance 7-
fails 2 "--distance|found '9-7'" "$BOCHNER" data recall --distance 9-7
fails 2 "--count" "$BOCHNER" data recall --count 0
fails 1 "in 256 tokens the possible distances are 2 to 254" "$BOCHNER" data recall --distance 1000
fails 1 "no length is greater than 30 and less than 31" "$BOCHNER" data listops --min-tokens 30 --max-tokens 31 --out new.tsv
fails 1 "consecutive drafts were rejected" "$BOCHNER" data listops --count 401 --min-tokens 3 --max-tokens 6 --depth 2 --arguments 2 --out new.tsv
[ -n "$(ls -A | grep '^new')" ] && complain "a failed command left $(ls -A | grep '^new')"
echo old >kept.tsv
fails 1 "consecutive drafts were rejected" "$BOCHNER" data listops --count 401 --min-tokens 3 --max-tokens 6 --depth 2 --arguments 2 --out kept.tsv
[ "$(cat kept.tsv)" = old ] || complain "a failed command changed a file"
fails 1 "nowhere/x.tsv" "$BOCHNER" data match --out nowhere/x.tsv
[ -w /dev/full ] && fails 1 "No space left" sh -c '"$BOCHNER" data match --count 2000 >/dev/full'
"$BOCHNER" data match --count 100000 | head -n 1 >out
[ "$(wc -l <out)" -eq 1 ] || complain "a reader that stops early: $(cat out)"
finish
