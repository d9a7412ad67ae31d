# bochner.hpp compiles without warnings as C++17 and C++20, and works (wrapper.cpp). It has fewer than 400 lines.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
header=$BOCHNER_SOURCE/include/bochner/bochner.hpp
[ "$(wc -l <"$header")" -lt 400 ] || { echo "$header has 400 lines or more" >&2; exit 1; }
case $CC in
*clang*) compilers="${CC%%-*}++ clang++" ;; # the C++ standard library and the sanitizers are those of the compiler
*) compilers=g++ ;;
esac
[ -n "${SANITIZE:-}" ] || compilers="g++ clang++"
count=0
for cxx in $compilers; do
    command -v "$cxx" >/dev/null 2>&1 || continue
    for standard in c++17 c++20; do
        # shellcheck disable=SC2086
        "$cxx" -std="$standard" -Wall -Wextra -pedantic -Wshadow -Wnon-virtual-dtor -Werror ${SANITIZE:+-fsanitize=$SANITIZE} \
            -I"$BOCHNER_SOURCE/include" "$BOCHNER_SOURCE/tests/api/wrapper.cpp" -L"$BOCHNER_BUILD" -lbochner \
            -Wl,-rpath,"$BOCHNER_BUILD" -o wrapper
        ./wrapper
        count=$((count + 1))
    done
done
[ "$count" -gt 0 ] || { echo "there is no C++ compiler"; exit 77; }
echo "$count programs"
