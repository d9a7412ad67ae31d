# Installs into a staging directory, moves the tree elsewhere, and builds and runs the examples against it: quickstart with
# pkg-config and with find_package, shared and static; the others with find_package. Then checks the SONAME, the exported
# names, the man page, the symbols, the plugin, the components, and what uninstalling leaves.
set -eu
stage=$(mktemp -d)
notes=$BOCHNER_BUILD/installed.txt # the records of the developer's own installs, restored at the end
if [ -e "$notes" ]; then cp "$notes" "$stage/notes"; else : >"$stage/notes"; fi
trap 'cp "$stage/notes" "$notes"; rm -rf "$stage"' EXIT
fail() { echo "$*" >&2; exit 1; }
flags=${SANITIZE:+-fsanitize=$SANITIZE}

# put DIRECTORY OPTION...: installs into /opt/bochner below DIRECTORY
put() {
    directory=$1
    shift
    DESTDIR=$directory cmake --install "$BOCHNER_BUILD" --prefix /opt/bochner "$@" >"$stage/install.log" || { cat "$stage/install.log"; exit 1; }
}
contents() { (cd "$1" && find . ! -type d | LC_ALL=C sort); }

put "$stage"
contents "$stage/opt/bochner" >"$stage/all"
mv "$stage/opt/bochner" "$stage/moved"
tree=$stage/moved
config=$(find "$tree" -name bochner.pc)
library=$(dirname "$(dirname "$config")")
export PKG_CONFIG_PATH="$library/pkgconfig" LD_LIBRARY_PATH="$library"

example=$BOCHNER_SOURCE/examples/quickstart
# shellcheck disable=SC2046,SC2086
{
    "$CC" -std=c11 -Wall -Wextra -Werror $flags "$example/main.c" $(pkg-config --cflags --libs bochner) -o "$stage/shared"
    # -lbochner would link the shared library in the same directory, so the archive is named.
    "$CC" -std=c11 -Wall -Wextra -Werror $flags "$example/main.c" $(pkg-config --cflags bochner) \
        $(pkg-config --static --libs bochner | sed "s|-lbochner|-l:libbochner.a|") -o "$stage/static"
    # No shared library at all. Sanitizers need theirs.
    [ -n "$flags" ] || "$CC" -std=c11 -static "$example/main.c" $(pkg-config --cflags bochner) \
        $(pkg-config --static --libs bochner) -o "$stage/alone" 2>"$stage/alone.log" || { cat "$stage/alone.log"; fail "not linked statically"; }
}
echo "pkg-config, shared: $("$stage/shared")"
echo "pkg-config, static: $(LD_LIBRARY_PATH='' "$stage/static")"
if [ -z "$flags" ]; then
    ! objdump -p "$stage/alone" | grep NEEDED || fail "a static program needs shared libraries"
    [ "$("$stage/alone")" = "$("$stage/static")" ] || fail "a static program computes something else"
fi

cmake -S "$example" -B "$stage/build" -DCMAKE_PREFIX_PATH="$tree" -DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="$flags" >"$stage/cmake.log" &&
    cmake --build "$stage/build" >>"$stage/cmake.log" || { cat "$stage/cmake.log"; exit 1; }
"$BOCHNER" train --data "$BOCHNER_SOURCE/README.md" --out "$stage/model" --layers 1 --width 32 --heads 2 --context 64 --steps 2 --quiet >/dev/null ||
    fail "no model for examples/generate"
for program in "$BOCHNER_SOURCE"/examples/*/main.c; do
    name=$(basename "$(dirname "$program")")
    [ "$name" != quickstart ] || continue # tested above
    cmake -S "$BOCHNER_SOURCE/examples/$name" -B "$stage/$name" -DCMAKE_PREFIX_PATH="$tree" -DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="$flags" >"$stage/cmake.log" &&
        cmake --build "$stage/$name" >>"$stage/cmake.log" || { cat "$stage/cmake.log"; exit 1; }
    (cd "$stage" && "./$name/$name" >"$name.out") || { cat "$stage/$name.out"; fail "examples/$name failed"; }
done
rm -r "$stage/model"
echo "find_package, shared: $("$stage/build/quickstart")"
echo "find_package, static: $(LD_LIBRARY_PATH='' "$stage/build/quickstart_static")"

# A program that uses the shared library links only -lbochner.
[ "$(pkg-config --libs-only-l bochner | tr -d ' ')" = -lbochner ] || fail "bochner.pc: $(pkg-config --libs bochner)"
version=$(pkg-config --modversion bochner)
objdump -p "$library/libbochner.so" | grep -q "SONAME *libbochner.so.${version%.*}$" || fail "the SONAME is not libbochner.so.${version%.*}"
foreign=$(nm -D --defined-only "$library/libbochner.so" | awk '$2 != "A" && $3 !~ /^bo_/ && $3 !~ /^_?_?(asan|ubsan|tsan|odr_asan|init|fini|bss_start|edata|end)/ { print $3 }')
[ -z "$foreign" ] || fail "libbochner.so exports names that are not ours: $foreign"
[ -x "$tree/bin/bochner" ] || fail "the program was not installed"
"$tree/bin/bochner" --version | grep -q "$version" || fail "bochner --version does not say $version"

for page in bochner bochner-lab bochner-bench; do
    page=$(find "$tree" -name $page.1)
    [ -n "$page" ] || fail "a man page was not installed"
    if command -v man >/dev/null 2>&1; then
        complaints=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
        [ -z "$complaints" ] || fail "man: $complaints"
    fi
done

# Installed files are stripped, those of the build tree are not. The static library keeps its symbols; it was linked
# above.
for file in bin/bochner bin/bochner-lab bin/bochner-bench "${library#"$tree"/}/libbochner.so"; do
    readelf -SW "$tree/$file" | grep -q ' \.symtab\| \.debug_' && fail "$file was installed with symbols"
    readelf -SW "$BOCHNER_BUILD/${file##*/}" | grep -q ' \.debug_info' || fail "${file##*/} has no debug symbols in the build directory"
done
readelf -SW "$library/libbochner.a" | grep -q ' \.debug_' && fail "libbochner.a was installed with debug symbols"

# The moved program finds the programs that it runs, and the plugin.
"$tree/bin/bochner" lab list | grep -q '^  scaled-dot ' || fail "the installed program does not run bochner-lab"
"$tree/bin/bochner" bench --help | grep -q '^  machines ' || fail "the installed program does not run bochner-bench"
if [ -n "$MPIEXEC" ]; then
    [ -e "$library/bochner/bochner-mpi.so" ] || fail "the plugin was not installed"
    . "$BOCHNER_SOURCE/tests/cli/ranks.sh"
    awk 'BEGIN { for (i = 0; i < 100; i++) print i "," i * i % 17 "," i * 2 }' >"$stage/table.csv"
    ranks 2 "$tree/bin/bochner" fit "$stage/table.csv" --features 8 --threads 1 --quiet --json --out "$stage/model" >"$stage/fit" 2>&1 ||
        { cat "$stage/fit"; fail "the installed program does not find its plugin"; }
    grep -q '"ranks": *2' "$stage/fit" || { cat "$stage/fit"; fail "the installed program is not two ranks"; }
fi

# Components: each file is in exactly one, together they contain all files, the program needs no other component, and
# development with runtime is complete.
for component in runtime development program lab bench mpi cuda; do
    put "$stage/$component" --component $component
    if [ -e "$stage/$component/opt/bochner" ]; then contents "$stage/$component/opt/bochner" >"$stage/$component.list"; else : >"$stage/$component.list"; fi
done
LC_ALL=C sort "$stage"/*.list | diff "$stage/all" - || fail "the components are not a partition of what is installed"
grep -v '/libbochner\.so\.[0-9.]*$' "$stage/runtime.list" && fail "the component runtime is more than the shared library"
[ "$(grep -c . "$stage/runtime.list")" = 2 ] || fail "the component runtime has $(grep -c . "$stage/runtime.list") files"
for name in libbochner.so libbochner.a bochner.pc bochnerConfig.cmake bochner.h; do
    grep -q "/$name$" "$stage/development.list" || fail "the component development lacks $name"
done
printf '%s\n' bin/bochner share/man/man1/bochner.1 share/bash-completion/completions/bochner share/zsh/site-functions/_bochner \
    share/fish/vendor_completions.d/bochner.fish | while read -r name; do
    grep -q "/$name$" "$stage/program.list" || fail "the component program lacks $name"
done
[ "$(grep -c . "$stage/program.list")" = 5 ] || fail "the component program: $(cat "$stage/program.list")"
for name in lab bench; do
    printf '%s\n' "./bin/bochner-$name" "./share/man/man1/bochner-$name.1" | diff - "$stage/$name.list" || fail "the component $name"
    "$stage/program/opt/bochner/bin/bochner" $name --help >"$stage/said" 2>&1 && fail "bochner $name ran without its program"
    grep -q "bochner-$name was not found: neither .*/bin/bochner-$name nor .*/bochner/bochner-$name exists; it is the component $name" "$stage/said" ||
        fail "without its component, bochner $name says $(cat "$stage/said")"
done
LD_LIBRARY_PATH='' "$stage/program/opt/bochner/bin/bochner" --version | grep -q "$version" || fail "the component program does not run alone"
for component in runtime development; do put "$stage/both" --component $component; done
pc=$(find "$stage/both" -name bochner.pc)
# shellcheck disable=SC2046,SC2086
PKG_CONFIG_PATH=${pc%/*} sh -c '"$0" $1 "$2/main.c" $(pkg-config --cflags --libs bochner) -o "$3"' "$CC" "$flags" "$example" "$stage/parts"
LD_LIBRARY_PATH=$(dirname "${pc%/*}") "$stage/parts" >/dev/null || fail "runtime and development are not enough to build with"

# Uninstalling removes the installed files and the directories that were new, and nothing else. Uninstalling again does no
# harm.
remove() { sh "$BOCHNER_SOURCE/scripts/uninstall" "$BOCHNER_BUILD" "$1/opt/bochner" >"$stage/remove.log" || fail "uninstall: $(cat "$stage/remove.log")"; }
mkdir -p "$stage/other/opt/bochner/bin" "$stage/other/opt/bochner/share/man" # existing directories, one of them with a file
echo mine >"$stage/other/opt/bochner/bin/mine"
(cd "$stage/other" && find . | LC_ALL=C sort) >"$stage/before"
put "$stage/other"
put "$stage/other" # the directories exist now and still count as created by the install
remove "$stage/other"
(cd "$stage/other" && find . | LC_ALL=C sort) | diff "$stage/before" - || fail "uninstall does not leave what was there before"
remove "$stage/other"
grep -q 'no record' "$stage/remove.log" || fail "a second uninstall says $(cat "$stage/remove.log")"
sh "$BOCHNER_SOURCE/scripts/uninstall" "$stage/nowhere" /opt/bochner | grep -q 'no record' || fail "uninstall without a build directory"
[ -e "$stage/both/opt/bochner/include/bochner/bochner.h" ] || fail "uninstall removed what is installed elsewhere"
for directory in both runtime development program lab bench mpi cuda; do
    remove "$stage/$directory"
    [ -e "$stage/$directory" ] && fail "uninstall left $(find "$stage/$directory")"
done
remove "$stage"
[ -e "$notes" ] && diff "$stage/notes" "$notes" || fail "notes are left of what was uninstalled"
