#!/bin/sh
# Writes the golden sources anew from the templates of this tree: sh tests/golden/update.sh [build folder]
# Look at the difference (git diff tests/golden) before committing it.
set -eu
here=$(cd -- "$(dirname -- "$0")" && pwd)
build=${1:-${TMPDIR:-/tmp}/mlpbwd-golden-build}
root=$(cd -- "$here/../.." && pwd)
# a folder made from another tree would write into that one
grep -qsx "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt" || rm -rf "$build"
[ -f "$build/CMakeCache.txt" ] || cmake -S "$root" -B "$build"
cmake --build "$build" --target test_golden
UPDATE_GOLDEN=1 "$build/tests/test_golden"
