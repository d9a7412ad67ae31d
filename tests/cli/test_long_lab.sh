# bochner lab: list, run and report, stored results, usage errors, and damaged files in the results directory.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { for (i = 0; i < 400; i++) print "line " i " of a text" }' >text.txt

# ---- list ----------------------------------------------------------------------------------------------------
succeeds "$BOCHNER" lab list
grep -q '^Architectures$' out && grep -q '^  scaled-dot  *[0-9]* claim' out || complain "the list: $(head -5 out)"
succeeds "$BOCHNER" lab list --json
[ "$(grep -o '"name": ' out | wc -l)" -ge 38 ] || complain "the list as JSON: $(head -c 300 out)"

# Every experiment has a line in the documentation with the number of its claims and its title.
succeeds "$BOCHNER" lab list
sed -n 's/^  \([a-z0-9-]*\)  *\([0-9]*\) claims*  *\(.*\)$/| `\1` | \2 | \3 |/p' out | sed 's/ (measures time)/, measures time/' >lines
[ "$(wc -l <lines)" -ge 38 ] || complain "the list has $(wc -l <lines) lines"
while read -r line; do grep -qxF "$line" "$BOCHNER_SOURCE/docs/explanation/lab.md" || complain "docs/explanation/lab.md does not have $line"; done <lines

# ---- run -----------------------------------------------------------------------------------------------------
succeeds "$BOCHNER" lab run scaled-dot --quick --out results/first
grep -q '^scaled-dot: ' out && grep -q '99% interval' out && grep -q '[0-9] of 8 claims held' out || complain "the run prints: $(cat out)"
grep -q '3 seeds each' err && grep -q 'results/first/NAME.json' err || complain "the plan: $(cat err)"
[ -s results/first/scaled-dot.json ] || complain "no result"
cp results/first/scaled-dot.json kept.json
if command -v gnuplot >/dev/null; then
    ls results/first | grep -q '^scaled-dot-.*\.svg$' || complain "no plot: $(ls results/first)"
fi
ls -A results/first | grep -e 'part-' -e 'tmp-' && complain "temporary files remain"

# The numbers of every seed do not depend on the number of threads.
for threads in 1 4; do
    succeeds "$BOCHNER" lab run scaled-dot --quick --threads $threads --out t$threads --quiet
    command -v gnuplot >/dev/null && [ -s err ] && complain "--quiet prints: $(cat err)"
    grep -v -e '"seconds"' -e '"threads"' -e '"checksum"' t$threads/scaled-dot.json >t$threads.json
done
cmp -s t1.json t4.json || complain "1 and 4 threads differ"

succeeds "$BOCHNER" lab run scaled-dot gnn --quick --seeds 1 --json --out json
[ "$(field out errors)" = 0 ] && [ "$(grep -o '"name": "[a-z-]*", "held": [0-9]*, "inconclusive": [0-9]*, "failed": [0-9]*, "quick"' out | wc -l)" = 2 ] ||
    complain "run --json: $(head -c 400 out)"

# --missing skips existing results, unless they have other seeds.
succeeds "$BOCHNER" lab run scaled-dot --quick --missing --out results/first
grep -q 'Skipped     1' err || complain "--missing ran it again: $(cat err)"
[ -s out ] && complain "--missing printed $(cat out)"
cmp -s kept.json results/first/scaled-dot.json || complain "--missing changed the file"
succeeds "$BOCHNER" lab run scaled-dot --quick --seeds 2 --missing --out results/first
grep -q '2 seeds' out || complain "--missing skipped a result with other seeds"
printf '{"lab": 1' >results/first/scaled-dot.json
succeeds "$BOCHNER" lab run scaled-dot --quick --missing --out results/first
grep -v 'seconds\|checksum' kept.json >expected
grep -v 'seconds\|checksum' results/first/scaled-dot.json | cmp -s - expected || complain "--missing kept a damaged file"

# ---- report ----------------------------------------------------------------------------------------------------
succeeds "$BOCHNER" lab run gnn --quick --seeds 2 --out results/first --quiet
succeeds "$BOCHNER" lab report --out results/first --markdown report.md
page=results/first/report.html
for words in '<article id="scaled-dot">' '<article id="gnn">' 'bochner lab run scaled-dot --quick' 'Not run' 'claims held</b>' 'class="legend"' '</html>'; do
    grep -qF "$words" $page || complain "the page lacks $words"
done
# In Markdown, claims of the founding documents are sorted by verdict with their passages; other claims are listed by
# name.
awk '/^### / { part = $0 } part == "### Claims as written: held" && /^\| \[gnn\]\(#gnn\), walks \|.*lines 438-440:/ { written++ }
    part == "### Additional claims" && /^\| \[gnn\]\(#gnn\) \|.*blind/ { additional++ }
    part == "### Additional claims" && /walks/ { additional = 9 } END { exit !(written == 1 && additional == 1) }' report.md ||
    complain "the claims are not sorted: $(grep -n -e '^###' -e walks report.md | cut -c 1-120)"
grep -qF 'As written: course notes (founding document 002), lines 438-440:' $page || complain "the page lacks the passage"
grep -q -i -e '<script' -e 'src="http' -e 'href="http' $page && complain "the page has external references or scripts"
command -v gnuplot >/dev/null && ! grep -q 'src="data:image/svg+xml;base64,' $page && complain "no plot on the page"
command -v xmllint >/dev/null && xmllint --html --noout $page 2>&1 | grep -v -e 'Tag [a-z]* invalid' |
    grep 'error :' && complain "the page is malformed"
grep -q '^| \[scaled-dot\](#scaled-dot) |' report.md && grep -q '^### gnn' report.md && grep -q '^Total: [0-9]* of [0-9]* claims held' report.md || complain "Markdown: $(head -5 report.md)"
succeeds "$BOCHNER" lab report --out results/first --page elsewhere.html --json
[ "$(field out experiments)" = 2 ] && [ -s elsewhere.html ] || complain "report --json: $(cat out)"

# Names from a file are escaped.
sed '/"checksum"/d; s/"columns": \["[^"]*"/"columns": ["<b onclick=x>\\"\&"/' kept.json >t1/scaled-dot.json
succeeds "$BOCHNER" lab report --out t1
grep -q '<b onclick' t1/report.html && complain "a name became a tag"
grep -q '&lt;b onclick=x&gt;&quot;&amp;' t1/report.html || complain "a name is lost"

# Without gnuplot all numbers are written, and the page lists the missing plots.
mkdir empty_path
for tool in sh rm; do ln -s "$(command -v $tool)" empty_path/$tool; done
PATH=$work/empty_path "$BOCHNER" lab run scaled-dot gnn --quick --seeds 1 --out bare >out 2>err || complain "a missing gnuplot fails the run"
[ "$(grep -c 'gnuplot is not installed' err)" = 1 ] || complain "a missing gnuplot is not reported once: $(cat err)"
[ -s bare/scaled-dot.json ] && [ -s bare/gnn.json ] || complain "a missing gnuplot loses the numbers"
PATH=$work/empty_path "$BOCHNER" lab report --out bare >out 2>err || complain "a missing gnuplot fails the report"
grep -q 'scaled-dot-[a-z]*.svg</code> is missing' bare/report.html || complain "the page does not list missing plots"
grep -q 'missing; the page lists them' out || complain "the report does not mention missing plots: $(cat out)"

# The name of a directory is not executed and not changed.
succeeds "$BOCHNER" lab run gnn --quick --seeds 1 --out '|touch broken;#' --quiet
[ -e broken ] && complain "the name of a directory was run"
if command -v gnuplot >/dev/null; then
    succeeds "$BOCHNER" lab run gnn --quick --seeds 1 --out "it's	odd" --quiet
    [ -s "it's	odd/gnn-walks.svg" ] || complain "no plot in a directory with an unusual name: $(ls "it's	odd")"
fi

# Numbers whose quotient overflows are drawn.
mkdir far
awk '/"checksum"/ { next }  after == 1 { sub(/\[\[[^]]*\]/, "[[1e-300, 1e-300]") }  after == 2 { sub(/\[\[[^]]*\]/, "[[1e300, 1e300]") }
     /"walks": {"rows"/ { after = 1; print; next }  after { after++ }  { print }' results/first/gnn.json >far/gnn.json
grep -q '\[\[1e-300, ' far/gnn.json && grep -q '\[\[1e300, ' far/gnn.json || complain "no such table"
succeeds "$BOCHNER" lab report --out far
command -v gnuplot >/dev/null && [ ! -s far/gnn-walks.svg ] && complain "numbers of very different size are not drawn: $(cat err)"

# The page does not overwrite a result.
fails 2 "--page|would replace|gnn.json" "$BOCHNER" lab report --out results/first --page results/first/gnn.json
fails 2 "--markdown|would replace|scaled-dot-" "$BOCHNER" lab report --out results/first --markdown results/first/scaled-dot-variance.svg

# A result stored under the name of another experiment is not used.
mkdir twice
cp results/first/gnn.json twice/gnn.json
cp results/first/gnn.json twice/ssm.json
"$BOCHNER" lab report --out twice >out 2>err
[ $? -eq 1 ] && grep -q 'twice/ssm.json: the result belongs to the experiment gnn' err || complain "a result under another name: $(cat err)"
[ "$(grep -c '<article' twice/report.html)" = 1 ] || complain "a result is on the page twice"
succeeds "$BOCHNER" lab run ssm --quick --seeds 2 --missing --out twice
grep -q '^ssm: ' out || complain "--missing took gnn for ssm: $(cat err)"

# The version in a result file is escaped, also in Markdown.
sed '/"checksum"/d; s/"version": "[^"]*"/"version": "<script>`[x](y)"/' kept.json >t1/scaled-dot.json
succeeds "$BOCHNER" lab report --out t1 --markdown t1.md
grep -q '[^\\]<script>' t1.md && complain "a version became a tag: $(tail -1 t1.md)"
grep -q -i '<script' t1/report.html && complain "a version became a tag on the page"

# The list shows the stored results.
succeeds "$BOCHNER" lab list --out results/first
grep -A1 '^  gnn ' out | grep -q '[0-9] of 7 claims held.*(quick run)' || complain "the list has no results: $(cat out)"
succeeds "$BOCHNER" lab list --out results/first --json
grep -q '"result": {"held": [0-9]*, "inconclusive": ' out || complain "the list as JSON has no results: $(head -c 400 out)"

# ---- a directory with damaged files ---------------------------------------------------------------------------------
cp results/first/gnn.json json/gnn.json
head -c 200 kept.json >json/scaled-dot.json
echo '{"a": 1}' >json/foreign.json
"$BOCHNER" lab report --out json >out 2>err
[ $? -eq 1 ] || complain "a truncated result does not fail"
grep -q 'json/scaled-dot.json' err && grep -q 'json/foreign.json' err || complain "damaged files are not named: $(cat err)"
grep -q '<article id="gnn">' json/report.html || complain "a damaged file affects the others"
: >json/gnn.json
fails 1 "json/gnn.json|no results in json" "$BOCHNER" lab report --out json
rm json/gnn.json
mkfifo json/gnn.json
fails 1 "json/gnn.json|not a regular file|no results in json" "$BOCHNER" lab report --out json
mkdir nothing
fails 1 "no results in nothing|lab run all" "$BOCHNER" lab report --out nothing
fails 1 "nowhere" "$BOCHNER" lab report --out nowhere
fails 1 "text.txt|not a directory" "$BOCHNER" lab report --out text.txt
fails 1 "no directory missing" "$BOCHNER" lab report --out t4 --page missing/page.html
fails 2 "--page|--markdown|the same file" "$BOCHNER" lab report --out t4 --page same --markdown same

# ---- usage errors ----------------------------------------------------------------------------------------------------
fails 2 "list, run or report" "$BOCHNER" lab
fails 2 "found 'lits'|did you mean list?" "$BOCHNER" lab lits
fails 2 "expected the names of experiments or all" "$BOCHNER" lab run
fails 2 "unknown experiment 'scaled-dog'|did you mean scaled-dot?" "$BOCHNER" lab run scaled-dog
fails 2 "unknown experiment 'xyzzy'" "$BOCHNER" lab run gnn xyzzy
fails 2 "found both" "$BOCHNER" lab run all gnn
fails 2 "--seeds|from 1 to 1000|found '0'" "$BOCHNER" lab run gnn --seeds 0
fails 2 "--seeds|found '1001'" "$BOCHNER" lab run gnn --seeds 1001
fails 2 "options of lab run" "$BOCHNER" lab list --quick
fails 2 "options of lab run" "$BOCHNER" lab report --seeds 3
fails 2 "options of lab report" "$BOCHNER" lab run gnn --page x
fails 2 "found 'gnn'" "$BOCHNER" lab list gnn
fails 1 "text.txt/lab|Not a directory" "$BOCHNER" lab run gnn --quick --out text.txt/lab
fails 1 "text.txt|not a directory" "$BOCHNER" lab run gnn --quick --out text.txt
fails 1 "--text none.txt|No such file" "$BOCHNER" lab run gnn --quick --text none.txt
head -c 100 text.txt >short.txt
fails 1 "--text short.txt|4096 bytes|found 100" "$BOCHNER" lab run gnn --quick --text short.txt
fails 1 "--text .|not a regular file" "$BOCHNER" lab run gnn --quick --text .
fails 1 "--images none|No such file" "$BOCHNER" lab run gnn --quick --images none
fails 1 "--images text.txt|not a directory" "$BOCHNER" lab run gnn --quick --images text.txt
fails 1 "--images nothing|expected a file train-images-idx3-ubyte" "$BOCHNER" lab run gnn --quick --images nothing

# ---- Ctrl-C keeps completed results ----------------------------------------------------------------------------------
attended "$BOCHNER" lab run gnn rope --quick --seeds 8 --out stopped >out 2>err &
pid=$!
for _ in $(seq 600); do
    [ -s stopped/gnn.json ] && break
    sleep 0.1
done
kill -INT $pid
wait $pid
status=$?
[ $status -eq 130 ] || complain "Ctrl-C: exit status $status: $(cat err)"
grep -q 'of 2 results are in stopped' err || complain "Ctrl-C: $(cat err)"
succeeds "$BOCHNER" lab report --out stopped
finish
