# bochner serve --device cuda returns the text of bochner generate on the CPU.
. "$BOCHNER_SOURCE/tests/cuda/common.sh"
command -v python3 >/dev/null || { echo "python3 is not installed"; exit 77; }
succeeds "$BOCHNER" train --data text.txt --out model $tiny $features $run --steps 100
succeeds "$BOCHNER" generate model --prompt "the cow" --tokens 16 --greedy --quiet && cp out expected
"$BOCHNER" serve model --port 0 --slots 4 --device cuda --precision float32 >served 2>errors &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$work"' EXIT
python3 - expected <<'P' || complain "the server: $(cat errors served)"
import json, sys, time, urllib.request
for _ in range(300):
    lines = open("served").read().splitlines()
    if lines: break
    time.sleep(0.1)
address = next(v for v in json.loads(lines[0]).values() if isinstance(v, str) and v.startswith("http"))
def complete(**options):
    body = json.dumps({"prompt": "the cow", "max_tokens": 16, "temperature": 0, **options}).encode()
    request = urllib.request.Request(address.rstrip("/") + "/v1/completions", body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=300))
expected = open(sys.argv[1]).read()
for answer in [complete(), complete(), complete(n=3)]:
    for choice in answer["choices"]:
        assert "the cow" + choice["text"] == expected.rstrip("\n") or choice["text"] == expected.rstrip("\n"), (choice, expected)
state = complete(return_state=True, max_tokens=8)["choices"][0]
rest = complete(prompt="", state={"data": state["state"]["data"]}, max_tokens=8)["choices"][0]
assert expected.rstrip("\n").endswith((state["text"] + rest["text"]).rstrip("\n")), (state["text"], rest["text"], expected)
P
kill $server
wait $server
finish
