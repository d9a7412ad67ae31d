# The source archive has the same bytes every time, with any umask, and an unpacked archive reproduces itself. It
# contains the files that a build needs, and no build products.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }
cd "$BOCHNER_SOURCE"
[ ! -e .git ] || command -v git >/dev/null 2>&1 || { echo "a checkout, and no git"; exit 77; }

scripts/dist "$work/one" 2>/dev/null
(umask 077 && scripts/dist "$work/two" >/dev/null 2>&1)
archive=$(ls "$work"/one/bochner-*.tar.gz)
cmp "$archive" "$work"/two/*.tar.gz || fail "a second archive has other bytes"
(umask 077 && tar -xzf "$archive" -C "$work")
tree=$(ls -d "$work"/bochner-*)
[ "${tree##*/}.tar.gz" = "${archive##*/}" ] || fail "${archive##*/} unpacks to ${tree##*/}"
for file in Makefile CMakeLists.txt LICENSE scripts/setup tests/CMakeLists.txt include/bochner/bochner.h; do
    [ -e "$tree/$file" ] || fail "the archive lacks $file"
done
[ -x "$tree/scripts/setup" ] || fail "scripts of the archive cannot be run"
mkdir "$tree/build" "$tree/build-tsan" # build directories of a developer
touch "$tree/build/bochner" "$tree/build-tsan/bochner"
(cd "$tree" && scripts/dist "$work/three" >/dev/null)
cmp "$archive" "$work"/three/*.tar.gz || fail "an unpacked archive does not make itself again"
touch -d '2001-01-01' "$tree/LICENSE" # an older file does not change the archive
(cd "$tree" && SOURCE_DATE_EPOCH=1 scripts/dist "$work/four" >/dev/null)
[ "$(tar --utc -tvzf "$work"/four/*.tar.gz | awk '{ print $4, $5 }' | sort -u)" = "1970-01-01 00:00" ] || fail "SOURCE_DATE_EPOCH is not used"
