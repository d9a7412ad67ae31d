# Installs into a staging folder, moves the tree elsewhere, and builds and runs examples/quickstart against it: with
# pkg-config and with find_package, shared and static. Then looks at the SONAME, the exported names and the man page.
set -eu
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
fail() { echo "$*" >&2; exit 1; }
flags=${SANITIZE:+-fsanitize=$SANITIZE}

DESTDIR=$stage cmake --install "$BOCHNER_BUILD" --prefix /opt/bochner >"$stage/install.log" || { cat "$stage/install.log"; exit 1; }
mv "$stage/opt/bochner" "$stage/moved"
tree=$stage/moved
config=$(find "$tree" -name bochner.pc)
library=$(dirname "$(dirname "$config")")
export PKG_CONFIG_PATH="$library/pkgconfig" LD_LIBRARY_PATH="$library"

example=$BOCHNER_SOURCE/examples/quickstart
# shellcheck disable=SC2046,SC2086
{
    "$CC" -std=c11 -Wall -Wextra -Werror $flags "$example/main.c" $(pkg-config --cflags --libs bochner) -o "$stage/shared"
    # -lbochner would take the shared library, which lies beside: name the archive.
    "$CC" -std=c11 -Wall -Wextra -Werror $flags "$example/main.c" $(pkg-config --cflags bochner) \
        $(pkg-config --static --libs bochner | sed "s|-lbochner|-l:libbochner.a|") -o "$stage/static"
}
echo "pkg-config, shared: $("$stage/shared")"
echo "pkg-config, static: $(LD_LIBRARY_PATH='' "$stage/static")"

cmake -S "$example" -B "$stage/build" -DCMAKE_PREFIX_PATH="$tree" -DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="$flags" >"$stage/cmake.log" &&
    cmake --build "$stage/build" >>"$stage/cmake.log" || { cat "$stage/cmake.log"; exit 1; }
echo "find_package, shared: $("$stage/build/quickstart")"
echo "find_package, static: $(LD_LIBRARY_PATH='' "$stage/build/quickstart_static")"

# A consumer of the shared library needs none of its parts: nothing but -lbochner.
[ "$(pkg-config --libs-only-l bochner | tr -d ' ')" = -lbochner ] || fail "bochner.pc: $(pkg-config --libs bochner)"
version=$(pkg-config --modversion bochner)
objdump -p "$library/libbochner.so" | grep -q "SONAME *libbochner.so.${version%.*}$" || fail "the SONAME is not libbochner.so.${version%.*}"
foreign=$(nm -D --defined-only "$library/libbochner.so" | awk '$3 !~ /^bo_/ && $3 !~ /^_?_?(asan|ubsan|tsan|odr_asan|init|fini|bss_start|edata|end)/ { print $3 }')
[ -z "$foreign" ] || fail "libbochner.so exports names that are not ours: $foreign"
internal=$(nm -D --defined-only "$library/libbochner.so" | awk '{ print $3 }' | while read -r name; do
    grep -qrw "$name" "$tree/include" || echo "$name"; done)
[ -n "$SANITIZE" ] || [ -z "$internal" ] || fail "libbochner.so exports names that no header declares: $internal"
[ -x "$tree/bin/bochner" ] || fail "the program was not installed"
"$tree/bin/bochner" --version | grep -q "$version" || fail "bochner --version does not say $version"

page=$(find "$tree" -name bochner.1)
[ -n "$page" ] || fail "the man page was not installed"
if command -v man >/dev/null 2>&1; then
    complaints=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
    [ -z "$complaints" ] || fail "man: $complaints"
fi
