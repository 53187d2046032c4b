#!/bin/sh
# Runs every test that opens a CUDA device, from a build folder that was made on another machine:
#   sh tests/device/run.sh [BUILD_FOLDER]
# Needs neither CMake nor a compiler nor any library but libc. The folder is best made there with
#   cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DMLPBWD_STATIC_DEPENDENCIES=ON -DMLPBWD_DEVICE_TESTS_ONLY=ON
#   cmake --build build
# and carried together with the source tree. Test programs name the tree by the path that it had there: if that path
# is free here, it becomes a symbolic link for the time of the run.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
build=$(CDPATH='' cd -- "${1:-$root/build}" && pwd -P)
seconds=${MLPBWD_DEVICE_TEST_SECONDS:-300} # a test that takes longer is stopped and has failed

log=$(mktemp)
home=$(mktemp -d)
link=
trap 'rm -rf "$log" "$home"; [ -z "$link" ] || rm -f "$link"' EXIT
trap 'exit 130' INT TERM HUP

built_at=$(cat "$build/tests/test_root.txt")
if [ ! -e "$built_at" ]; then
    mkdir -p "$(dirname -- "$built_at")"
    ln -s "$root" "$built_at"
    link=$built_at
elif [ "$(CDPATH='' cd -- "$built_at" && pwd -P)" != "$root" ]; then
    echo "error: the tests look for the source tree at $built_at, which is not $root." >&2
    echo "Configure with -DMLPBWD_TEST_ROOT=<a path that is free here>, or remove what is there." >&2
    exit 1
fi

"$build/mlpbwd" devices
if ! "$build/mlpbwd" devices | grep -q '^ *cuda:'; then
    echo "error: no CUDA device can be used here; the lines above say why." >&2
    exit 3
fi

export HOME="$home" MLPBWD_TEMPLATES="$root/templates"
unset MLPBWD_DATABASE MLPBWD_FORCE MLPBWD_SHIPPED_DATABASE XDG_DATA_HOME
cd -- "$build"
status=0
number=0
while IFS= read -r program; do
    number=$((number + 1))
    name=${program##*/}
    began=$(date +%s)
    printf '%s/0 Test: %s\n' "$number" "$name" >>"$log"
    rc=0
    timeout -k 5 "$seconds" "./$program" >"$home/output" 2>&1 </dev/null || rc=$?
    cat "$home/output" >>"$log"
    if [ "$rc" = 0 ]; then
        printf '\nTest Passed.\n' >>"$log"
        verdict=passed
    else
        printf '\nTest Failed.\n' >>"$log"
        verdict="FAILED (exit status $rc)"
        status=1
        cat "$home/output"
    fi
    printf '%-40s %s, %s s\n' "$name" "$verdict" "$(($(date +%s) - began))"
done <"$build/tests/device_tests.txt"

counts=$(awk -f "$root/tests/count_cases.awk" "$log")
# The three words of $counts are numbers.
# shellcheck disable=SC2086
set -- $counts
printf '%s passed, %s failed, %s skipped\n' "$1" "$2" "$3"
exit $status
