# scripts/speed: the list, a report of metrics and of other output, a continued run, and bad parts; the programs are
# stand-ins.
. "$BOCHNER_SOURCE/tests/cli/common.sh"
cp "$BOCHNER_SOURCE/scripts/speed" speed

mkdir build
cat >build/bochner <<'END'
#!/bin/sh
[ "$1" = version ] && echo "bochner 0" && exit 0
echo "$*" >>calls
case "$*" in *"--precision bfloat16"*) [ -e broken ] && echo "no such precision" >&2 && exit 1 ;; esac
echo '{
  "version": "0",
  "figures": [{"name": "a", "value": 1.23456789, "unit": "x", "at_least": 1, "met": true, "detail": "say, that"}, {"name": "b", "value": 2, "unit": "", "at_most": 1, "met": false, "detail": "this"}]
}'
END
cat >build/bench_drift <<'END'
#!/bin/sh
echo 'rows "quoted"'
echo 100
END
chmod +x build/bochner build/bench_drift
run() { BUILD=build PYTHON=none sh speed "$@"; }

succeeds run --list
grep -q "^train .* min " out || complain "no part train: $(cat out)"
fails 2 "no part 'trian'" run trian
succeeds run scale drift
grep -qx '| a | 1.235 x | at least 1 | yes | say, that |' build/speed/speed.md || complain "no metric: $(cat build/speed/speed.md)"
grep -qx '| b | 2  | at most 1 | \*\*missed\*\* | this |' build/speed/speed.md || complain "no missed goal: $(cat build/speed/speed.md)"
grep -qx 'rows "quoted"' build/speed/speed.md || complain "no output of drift: $(cat build/speed/speed.md)"
grep -q '"result": "rows \\"quoted\\"\\n100"}' build/speed/speed.json || complain "JSON of drift: $(cat build/speed/speed.json)"
grep -q "other programs used [0-9]*% of the CPUs" build/speed/speed.md || complain "no CPU time of others: $(cat build/speed/speed.md)"
grep -q '"name": "scale", .*"commit"' build/speed/speed.json || complain "JSON of scale: $(cat build/speed/speed.json)"
[ "$(wc -l <calls)" = 2 ] || complain "calls: $(cat calls)"

# Existing measurements are kept, or repeated on request; a failing step does not affect other steps.
succeeds run scale
[ "$(wc -l <calls)" = 2 ] || complain "measured again: $(cat calls)"
touch broken
FORCE=1 fails 1 "scale-bfloat16: failed" run scale
[ "$(wc -l <calls)" = 4 ] || complain "not measured again: $(cat calls)"
grep -q '^## scale$' build/speed/speed.md || complain "the other step is lost: $(cat build/speed/speed.md)"
rm build/bochner
fails 1 "run make first" run scale
finish
