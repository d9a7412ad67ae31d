# scripts/setup on simulated hosts: root installs missing packages once, other users are shown what to install, and
# nothing happens on a host that has everything.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; cat "$work/out" >&2; exit 1; }
mkdir "$work/bin"
for tool in sh awk sed cut dirname cat grep; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
pretend() { printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"; chmod +x "$work/bin/$1"; }
# dpkg-query -W -f FORMAT package...: every package that $work/installed names.
pretend dpkg-query "shift 3; for p; do grep -qx \"\$p\" '$work/installed' && echo \"\$p installed\"; done; true"
pretend apt-cache "! grep -qx \"\$2\" '$work/unknown'"
# apt-get: records its arguments and installs.
pretend apt-get "echo \"\$*\" >>'$work/asked'; [ \"\$1\" = install ] || exit 0
for p; do case \$p in -* | install | *::*) ;; *) echo \"\$p\" >>'$work/installed' ;; esac; done"
setup() { PATH="$work/bin" SETUP_ROOT="$work" sh "$BOCHNER_SOURCE/scripts/setup" "$@" >"$work/out" 2>&1; }
fresh() { : >"$work/installed"; : >"$work/unknown"; : >"$work/asked"; }

fresh # not root: prints the command and installs nothing
pretend id 'echo 1000'
setup test && fail "setup without root and without packages says all is well"
grep -q 'apt-get install.* libutf8proc-dev' "$work/out" || fail "setup does not say what to install"
grep -q 'libcmocka-dev' "$work/out" || fail "setup test does not ask for CMocka"
grep -q 'fashion' "$work/out" && fail "setup test asks for a data set"
[ -s "$work/asked" ] && fail "setup without root called apt-get"

pretend id 'echo 0' # root: installs everything in one call, and nothing the second time
setup test run || fail "setup as root failed"
grep -qx bible-kjv "$work/installed" || fail "setup run does not install the text to learn from"
grep -qx dataset-fashion-mnist "$work/installed" && fail "setup run installs a data set that it does not need"
[ "$(grep -c ^install "$work/asked")" = 1 ] || fail "setup calls apt-get install more than once: $(cat "$work/asked")"
: >"$work/asked"
setup test run || fail "setup of a ready machine failed"
[ -s "$work/asked" ] && fail "setup of a ready machine called apt-get"
setup fashion || fail "setup fashion as root failed"
grep -qx dataset-fashion-mnist "$work/installed" || fail "setup fashion does not install the data set"

fresh # a release without an optional package
echo libxsmm-dev >"$work/unknown"
setup build || fail "setup fails for want of an optional package"
grep -q 'libxsmm-dev' "$work/installed" && fail "setup asked for a package that does not exist"
grep -qx libutf8proc-dev "$work/installed" || fail "an unknown optional package spoilt the required ones"

fresh # a required package is not available
pretend apt-get 'exit 100'
setup build && fail "setup does not fail when apt-get does"
grep -q 'required packages are missing:.* cmake' "$work/out" || fail "setup does not name what is missing"
exit 0
