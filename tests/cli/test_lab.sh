# bochner lab: the list, running, what is kept, the report; what it refuses, and what is broken in its folder.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
awk 'BEGIN { for (i = 0; i < 400; i++) print "line " i " of a text" }' >text.txt

# ---- the list ------------------------------------------------------------------------------------------------
succeeds "$BOCHNER" lab list
grep -q '^Architectures$' out && grep -q '^  scaled-dot  *[0-9]* claim' out || complain "the list: $(head -5 out)"
succeeds "$BOCHNER" lab list --json
[ "$(grep -o '"name": ' out | wc -l)" -ge 38 ] || complain "the list as JSON: $(head -c 300 out)"

# Every one has its line in the documentation, with as many claims and the same title.
succeeds "$BOCHNER" lab list
sed -n 's/^  \([a-z0-9-]*\)  *\([0-9]*\) claims*  *\(.*\)$/| `\1` | \2 | \3 |/p' out | sed 's/ (measures time)/, measures time/' >lines
[ "$(wc -l <lines)" -ge 38 ] || complain "the list has $(wc -l <lines) lines"
while read -r line; do grep -qxF "$line" "$BOCHNER_SOURCE/docs/explanation/lab.md" || complain "docs/explanation/lab.md does not have $line"; done <lines

# ---- a run ---------------------------------------------------------------------------------------------------
succeeds "$BOCHNER" lab run scaled-dot --quick --out results/first
grep -q '^scaled-dot: ' out && grep -q '99% interval' out || complain "the run says: $(cat out)"
grep -q '3 seeds each' err && grep -q 'results/first/NAME.json' err || complain "the plan: $(cat err)"
[ -s results/first/scaled-dot.json ] || complain "no result"
cp results/first/scaled-dot.json kept.json
if command -v gnuplot >/dev/null; then
    ls results/first | grep -q '^scaled-dot-.*\.svg$' || complain "no picture: $(ls results/first)"
fi
ls -A results/first | grep -e 'part-' -e 'tmp-' && complain "something was left behind"

# As many threads as you like, and whatever kernels: the same numbers of every seed.
for threads in 1 4; do
    succeeds "$BOCHNER" lab run scaled-dot --quick --threads $threads --out t$threads --quiet
    [ -s err ] && complain "--quiet says: $(cat err)"
    grep -v -e '"seconds"' -e '"threads"' t$threads/scaled-dot.json >t$threads.json
done
cmp -s t1.json t4.json || complain "1 and 4 threads differ"

succeeds "$BOCHNER" lab run scaled-dot gnn --quick --seeds 1 --json --out json
[ "$(field out failed)" = 0 ] && [ "$(grep -o '"name": "[a-z-]*", "verdict": "[a-z ]*", "quick"' out | wc -l)" = 2 ] ||
    complain "run --json: $(head -c 400 out)"

# What is there is left out, unless it is of other seeds.
succeeds "$BOCHNER" lab run scaled-dot --quick --missing --out results/first
grep -q 'Left out    1' err || complain "--missing ran it again: $(cat err)"
[ -s out ] && complain "--missing printed $(cat out)"
cmp -s kept.json results/first/scaled-dot.json || complain "--missing changed the file"
succeeds "$BOCHNER" lab run scaled-dot --quick --seeds 2 --missing --out results/first
grep -q '2 seeds' out || complain "--missing with other seeds left it out"
printf '{"lab": 1' >results/first/scaled-dot.json
succeeds "$BOCHNER" lab run scaled-dot --quick --missing --out results/first
grep -v seconds kept.json >expected
grep -v seconds results/first/scaled-dot.json | cmp -s - expected || complain "--missing kept a broken file"

# ---- the report ------------------------------------------------------------------------------------------------
succeeds "$BOCHNER" lab run gnn --quick --seeds 2 --out results/first --quiet
succeeds "$BOCHNER" lab report --out results/first --markdown report.md
page=results/first/report.html
for words in '<article id="scaled-dot">' '<article id="gnn">' 'bochner lab run scaled-dot --quick' 'Without a result' '</html>'; do
    grep -qF "$words" $page || complain "the page lacks $words"
done
grep -q -i -e '<script' -e 'src="http' -e 'href="http' $page && complain "the page needs more than itself"
command -v gnuplot >/dev/null && ! grep -q 'src="data:image/svg+xml;base64,' $page && complain "no picture on the page"
command -v xmllint >/dev/null && xmllint --html --noout $page 2>&1 | grep -v -e 'Tag [a-z]* invalid' |
    grep 'error :' && complain "the page is malformed"
grep -q '^| \[scaled-dot\](#scaled-dot) |' report.md && grep -q '^### gnn' report.md || complain "Markdown: $(head -5 report.md)"
succeeds "$BOCHNER" lab report --out results/first --page elsewhere.html --json
[ "$(field out experiments)" = 2 ] && [ -s elsewhere.html ] || complain "report --json: $(cat out)"

# Names from a file are no tags.
sed 's/"columns": \["[^"]*"/"columns": ["<b onclick=x>\\"\&"/' kept.json >t1/scaled-dot.json
succeeds "$BOCHNER" lab report --out t1
grep -q '<b onclick' t1/report.html && complain "a name became a tag"
grep -q '&lt;b onclick=x&gt;&quot;&amp;' t1/report.html || complain "a name is lost"

# Without gnuplot the numbers are there, and the page names what is missing.
mkdir empty_path
for tool in sh rm; do ln -s "$(command -v $tool)" empty_path/$tool; done
PATH=$work/empty_path "$BOCHNER" lab run scaled-dot gnn --quick --seeds 1 --out bare >out 2>err || complain "a missing gnuplot fails the run"
[ "$(grep -c 'gnuplot is not installed' err)" = 1 ] || complain "a missing gnuplot is not said once: $(cat err)"
[ -s bare/scaled-dot.json ] && [ -s bare/gnn.json ] || complain "a missing gnuplot loses the numbers"
PATH=$work/empty_path "$BOCHNER" lab report --out bare >out 2>err || complain "a missing gnuplot fails the report"
grep -q 'scaled-dot-[a-z]*.svg</code> is missing' bare/report.html || complain "the page does not name missing pictures"
grep -q 'missing; the page names them' out || complain "the report does not say it: $(cat out)"

# A name of a folder is no command, and no other folder's.
succeeds "$BOCHNER" lab run gnn --quick --seeds 1 --out '|touch broken;#' --quiet
[ -e broken ] && complain "the name of a folder was run"
if command -v gnuplot >/dev/null; then
    succeeds "$BOCHNER" lab run gnn --quick --seeds 1 --out "it's	odd" --quiet
    [ -s "it's	odd/gnn-walks.svg" ] || complain "no picture in a folder of an odd name: $(ls "it's	odd")"
fi

# Numbers whose quotient is infinite are drawn, too.
mkdir far
awk 'after == 1 { sub(/\[\[[^]]*\]/, "[[1e-300, 1e-300]") }  after == 2 { sub(/\[\[[^]]*\]/, "[[1e300, 1e300]") }
     /"walks": {"rows"/ { after = 1; print; next }  after { after++ }  { print }' results/first/gnn.json >far/gnn.json
grep -q '\[\[1e-300, ' far/gnn.json && grep -q '\[\[1e300, ' far/gnn.json || complain "no such table"
succeeds "$BOCHNER" lab report --out far
command -v gnuplot >/dev/null && [ ! -s far/gnn-walks.svg ] && complain "numbers far apart are not drawn: $(cat err)"

# The page takes no result's place.
fails 2 "--page|would replace|gnn.json" "$BOCHNER" lab report --out results/first --page results/first/gnn.json
fails 2 "--markdown|would replace|scaled-dot-" "$BOCHNER" lab report --out results/first --markdown results/first/scaled-dot-variance.svg

# A result under another's name is none of it.
mkdir twice
cp results/first/gnn.json twice/gnn.json
cp results/first/gnn.json twice/ssm.json
"$BOCHNER" lab report --out twice >out 2>err
[ $? -eq 1 ] && grep -q 'twice/ssm.json: it is a result of gnn' err || complain "a result under another name: $(cat err)"
[ "$(grep -c '<article' twice/report.html)" = 1 ] || complain "a result is on the page twice"
succeeds "$BOCHNER" lab run ssm --quick --seeds 2 --missing --out twice
grep -q '^ssm: ' out || complain "--missing took gnn for ssm: $(cat err)"

# What a file says about its own origin is text, also in Markdown.
sed 's/"version": "[^"]*"/"version": "<script>`[x](y)"/' kept.json >t1/scaled-dot.json
succeeds "$BOCHNER" lab report --out t1 --markdown t1.md
grep -q '[^\\]<script>' t1.md && complain "a version became a tag: $(tail -1 t1.md)"
grep -q -i '<script' t1/report.html && complain "a version became a tag on the page"

# ---- a folder with other things in it ----------------------------------------------------------------------------
cp results/first/gnn.json json/gnn.json
head -c 200 kept.json >json/scaled-dot.json
echo '{"a": 1}' >json/foreign.json
"$BOCHNER" lab report --out json >out 2>err
[ $? -eq 1 ] || complain "a truncated result is no failure"
grep -q 'json/scaled-dot.json' err && grep -q 'json/foreign.json' err || complain "what is broken is not named: $(cat err)"
grep -q '<article id="gnn">' json/report.html || complain "a broken file loses the others"
: >json/gnn.json
fails 1 "json/gnn.json|no results in json" "$BOCHNER" lab report --out json
rm json/gnn.json
mkfifo json/gnn.json
fails 1 "json/gnn.json|no file|no results in json" "$BOCHNER" lab report --out json
mkdir nothing
fails 1 "no results in nothing|lab run all" "$BOCHNER" lab report --out nothing
fails 1 "nowhere" "$BOCHNER" lab report --out nowhere
fails 1 "text.txt|no folder" "$BOCHNER" lab report --out text.txt
fails 1 "no folder missing" "$BOCHNER" lab report --out t4 --page missing/page.html
fails 2 "--page|--markdown|one file" "$BOCHNER" lab report --out t4 --page same --markdown same

# ---- wrong use -----------------------------------------------------------------------------------------------------
fails 2 "list, run or report" "$BOCHNER" lab
fails 2 "found 'lits'|did you mean list?" "$BOCHNER" lab lits
fails 2 "say which, or all" "$BOCHNER" lab run
fails 2 "no experiment 'scaled-dog'|did you mean scaled-dot?" "$BOCHNER" lab run scaled-dog
fails 2 "no experiment 'xyzzy'" "$BOCHNER" lab run gnn xyzzy
fails 2 "not both" "$BOCHNER" lab run all gnn
fails 2 "--seeds|from 1 to 1000|found '0'" "$BOCHNER" lab run gnn --seeds 0
fails 2 "--seeds|found '1001'" "$BOCHNER" lab run gnn --seeds 1001
fails 2 "options of lab run" "$BOCHNER" lab list --quick
fails 2 "options of lab run" "$BOCHNER" lab report --seeds 3
fails 2 "options of lab report" "$BOCHNER" lab run gnn --page x
fails 2 "found 'gnn'" "$BOCHNER" lab list gnn
fails 1 "text.txt/lab|Not a directory" "$BOCHNER" lab run gnn --quick --out text.txt/lab
fails 1 "text.txt|no folder" "$BOCHNER" lab run gnn --quick --out text.txt
fails 1 "--text none.txt|No such file" "$BOCHNER" lab run gnn --quick --text none.txt
head -c 100 text.txt >short.txt
fails 1 "--text short.txt|100 bytes|4096" "$BOCHNER" lab run gnn --quick --text short.txt
fails 1 "--text .|no file" "$BOCHNER" lab run gnn --quick --text .
fails 1 "--images none|No such file" "$BOCHNER" lab run gnn --quick --images none
fails 1 "--images text.txt|no folder" "$BOCHNER" lab run gnn --quick --images text.txt
fails 1 "--images nothing|no train-images-idx3-ubyte" "$BOCHNER" lab run gnn --quick --images nothing

# ---- Ctrl-C loses nothing that was done ------------------------------------------------------------------------------
"$BOCHNER" lab run gnn rope --quick --seeds 8 --out stopped >out 2>err &
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
