# C, C++ and CUDA files are formatted by the pinned clang-format (make format), with lines of at most 120 columns.
set -eu
exec "$BOCHNER_SOURCE/scripts/format" "$BOCHNER_BUILD" --check
