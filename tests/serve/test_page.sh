# The playground in Chromium, against two servers with a tiny model, one of which needs an API key: page.py. Skipped without
# Chromium, its driver, or Selenium for Python.
. "$BOCHNER_SOURCE/tests/cli/common.sh"

skip() {
    echo "skipped: $*"
    exit 77
}

for program in chromium chromedriver; do
    command -v $program >found || skip "$program is not installed"
done
python=
for candidate in python3 /usr/bin/python3; do
    [ -z "$python" ] && "$candidate" -c 'import selenium' 2>err && python=$candidate
done
[ -n "$python" ] || skip "Selenium for Python is not installed"

awk 'BEGIN { srand(3); split("cat,dog,hen,cow", a, ","); split("sleeps,eats,runs away", d, ",");
    for (i = 0; i < 600; i++) { k = 1 + int(4 * rand());
        printf "user: the %s?\nassistant: the %s %s.\n", a[k], a[k], d[1 + k % 3] } }' >text.txt
# Wide enough that tokens do not arrive faster than a browser draws.
succeeds "$BOCHNER" train --data text.txt --out model --layers 4 --width 128 --heads 4 --features 64 --batch 8 --context 64 \
    --steps 20 --lr 0.02 --other-lr 0.005 --valid-fraction 0 --quiet || finish

servers=
trap 'kill $servers 2>/dev/null; wait; rm -rf "$work"' EXIT

# serve NAME OPTIONS...: starts a server in the background; its messages go to NAME.
serve() {
    name=$1
    shift
    "$BOCHNER" serve model --port 0 --threads 1 "$@" >"$name" 2>&1 </dev/null &
    servers="$servers $!"
}

# address NAME: the address of a server, once it listens.
address() {
    for attempt in $(seq 200); do
        sed -n 's,.*\(http://[0-9.]*:[0-9]*\).*,\1/,p' "$1" | head -n 1 | grep . && return
        sleep 0.05
    done
    complain "the server does not listen: $(cat "$1")"
    return 1
}

echo opensesame >key
serve free.log
serve locked.log --api-key-file key
free=$(address free.log) && locked=$(address locked.log) || finish
mkdir downloads
"$python" "$BOCHNER_SOURCE/tests/serve/page.py" "$free" "$locked" opensesame downloads || complain "the page"
finish
