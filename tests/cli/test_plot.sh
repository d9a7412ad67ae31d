# Plots: drawn if gnuplot is installed; without it the numbers are still printed.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
house 300 41 >train.csv
shapes 240 42 >classes.csv
options="--holdout 0.3 --features 64 --quiet"

mkdir empty_path
for tool in sh rm; do ln -s "$(command -v $tool)" empty_path/$tool; done
# shellcheck disable=SC2086
{
    PATH=$work/empty_path "$BOCHNER" fit train.csv $options --plot lost.svg >out 2>err || complain "a missing gnuplot fails the fit"
    grep -q "gnuplot is not installed" err || complain "a missing gnuplot is not named: $(cat err)"
    grep -q "^Test" out || complain "a missing gnuplot loses the numbers"
    [ -e lost.svg ] && complain "a plot without gnuplot"
    fails 1 "no directory" "$BOCHNER" fit train.csv $options --plot nowhere/p.svg
}
command -v gnuplot >/dev/null || finish

# shellcheck disable=SC2086
for kind in svg png pdf; do
    succeeds "$BOCHNER" fit train.csv $options --plot scatter.$kind
    succeeds "$BOCHNER" fit classes.csv $options --plot confusion.$kind
    for plot in scatter.$kind confusion.$kind; do
        case $kind in
        svg) head -c 500 $plot | grep -q '<svg' || complain "$plot is not SVG" ;;
        png) head -c 4 $plot | grep -q 'PNG' || complain "$plot is not PNG" ;;
        pdf) head -c 4 $plot | grep -q '%PDF' || complain "$plot is not PDF" ;;
        esac
    done
done
ls | grep -q 'part-' && complain "left behind: $(ls | grep 'part-')"
# A plot replaces an older plot only when it is on disk.
shim=$BOCHNER_BUILD/tests/libfaults.so
case $BOCHNER in */emulated/*) shim=none ;; esac
if [ -z "${SANITIZE:-}" ] && [ -e "$shim" ]; then
    cp scatter.svg before.svg
    # shellcheck disable=SC2086
    env LD_PRELOAD="$shim" BOCHNER_FAULT=fsync:1:1:5 "$BOCHNER" fit train.csv $options --plot scatter.svg >out 2>err
    [ $? -eq 1 ] && grep -q "no plot scatter.svg" err || complain "a plot that was not flushed: $(cat err)"
    cmp -s scatter.svg before.svg || complain "a plot that was not flushed replaced the old one"
    rm before.svg
fi
grep -q 'price, predicted' scatter.svg || complain "the axis has no name"
grep -q 'inside the 95% band' scatter.svg || complain "the title has no interval"
for name in inner middle 'outer ring'; do grep -q "$name" confusion.svg || complain "the class $name is not in the plot"; done

# The font size of a title is chosen to fit: two classes leave 320 pixels, and the mean width of a character is 0.54 of
# the font size.
awk 'BEGIN { srand(3); for (i = 0; i < 4000; i++) print rand() "," rand() "," (rand() < 0.5 ? "yes" : "no") }' >two.csv
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit two.csv $options --gamma 1 --lambda 1 --plot two.svg
awk '/rows correct/ { at = match($0, />[^<]*rows correct[^<]*</); title = substr($0, RSTART + 1, RLENGTH - 2)
    if (match(size $0, /font-size="[0-9.]+"/)) found = substr(size $0, RSTART + 11) + 0; shown = 1 }
    /font-size/ { size = $0 } END { exit !(shown && found > 0 && 0.54 * found * length(title) <= 320) }' two.svg ||
    complain "the title of two classes is wider than its plot: $(grep 'rows correct' two.svg)"

# Labels come from files: nothing in them is executed by gnuplot or the shell.
awk -v q="'" 'BEGIN { srand(1); for (i = 0; i < 200; i++) { k = i % 2; printf "%.3f,%.3f,%s\n", rand() + k, rand(),
    k ? "a" q "; system(\"touch hacked\") #" : "`touch hacked`" } }' | sed 's/,a.*/,"a'"'"'; system(""touch hacked"") #"/' >odd.csv
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit odd.csv $options --plot odd.svg
[ -e hacked ] && complain "a label was run as a command"
[ -s odd.svg ] || complain "odd labels have no plot"

# Long labels that are not ASCII are truncated between characters, and bytes that are not UTF-8 are replaced: the SVG
# stays valid.
awk 'BEGIN { srand(1); for (i = 0; i < 200; i++) printf "%.3f,%.3f,%s\n", rand() + i % 2, rand(),
    i % 2 ? "a\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244\303\244" : "bad\377" }' >wide.csv
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit wide.csv $options --plot wide.svg
iconv -f UTF-8 -t UTF-8 wide.svg >wide.copy 2>err || complain "the plot is not UTF-8: $(cat err)"

# Class names appear unchanged, whatever they mean to gnuplot, printf or XML. Names longer than 18 characters are
# shortened in the middle.
cat >names <<'END'
50%
%d %s %n
100%%
{/Symbol a}_{b}^2
x_1
"double"
'single'
back\slash\n
@a &amp; <b>
~a{.8-}
]]>
äöüäöüäöüäöüäöüäöü
漢字 🙂 é
END
awk 'BEGIN { srand(1); while ((getline line <"names") > 0) { gsub(/"/, "\"\"", line); name[n++] = line }
    for (i = 0; i < 40 * n; i++) printf "%.3f,%.3f,\"%s\"\n", i % n + rand() / 9, i % 3 + rand() / 9, name[i % n] }' >named.csv
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit named.csv $options --plot named.svg
sed 's/\xe2\x80\x8b//g; s/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&apos;/'"'"'/g; s/&amp;/\&/g' named.svg >shown.svg
while IFS= read -r name; do
    found=$(grep -cF ">$name<" shown.svg)
    [ "$found" -eq 2 ] || complain "the class $name is shown $found times, expected 2"
done <names
awk 'BEGIN { srand(1); for (i = 0; i < 80; i++) printf "%.3f,%.3f,department_of_statistics_%c\n", i % 2 + rand() / 9, rand(), 65 + i % 2 }' >long.csv
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit long.csv $options --plot long.svg
grep -q '>departmen…istics_A<' long.svg && grep -q '>departmen…istics_B<' long.svg || complain "long names: $(grep -o '>depart[^<]*' long.svg)"
# U+FFFF and a control character are not allowed in XML.
printf '1,2,a\357\277\277b\001\n2,1,c\n%.0s' $(seq 40) >forbidden.csv
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit forbidden.csv $options --plot forbidden.svg
grep -q '>a?b?<\|>a?b <' forbidden.svg || complain "forbidden characters: $(grep '>a.*b' forbidden.svg)"
parse="xmllint --noout --nonet"
command -v xmllint >/dev/null || parse="python3 -c __import__('xml.dom.minidom').dom.minidom.parse(__import__('sys').argv[1])"
if command -v xmllint >/dev/null || command -v python3 >/dev/null; then
    for plot in *.svg; do
        [ $plot = shown.svg ] || $parse $plot 2>err || complain "$plot is malformed: $(cat err)"
    done
fi

# Targets that vary little relative to their size.
awk 'BEGIN { srand(1); for (i = 0; i < 200; i++) printf "%.3f,%.3f,%.1f\n", rand(), rand(), 1e12 + 10 * rand() }' >far.csv
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit far.csv $options --task regression --plot far.svg

# Twenty-six classes, and the plot of predict.
awk 'BEGIN { srand(2); for (i = 0; i < 1300; i++) { k = i % 26; printf "%.3f,%.3f,%c\n", k % 5 + 0.6 * rand(), int(k / 5) + 0.6 * rand(), 65 + k } }' >letters.csv
# shellcheck disable=SC2086
succeeds "$BOCHNER" fit letters.csv $options --plot letters.svg --out letters.model
grep -q '>Z<' letters.svg || complain "the last of 26 classes is not in the plot"
succeeds "$BOCHNER" predict letters.model letters.csv --plot again.svg --out labels.csv
[ -s again.svg ] || complain "predict drew nothing"
finish
