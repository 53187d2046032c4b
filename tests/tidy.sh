#!/bin/sh
# tidy.sh ROOT SECONDS <files: clang-tidy on each file (paths under ROOT, one a line), two at a time, until SECONDS are
# over. A file that was clean is not checked again until it, a header, .clang-tidy or the compile commands change.
# Prints "passed failed skipped"; what clang-tidy finds goes to standard error.
set -eu
root=$1
seconds=$2
cd -- "$root"
stamps=build/tidy
mkdir -p "$stamps"
rm -f "$stamps"/*.failed
deadline=$(($(date +%s) + seconds))
headers=$(find runtime tuning_db generator tests bench -name '*.h' -type f | LC_ALL=C sort | xargs -d '\n' cat |
    cat - .clang-tidy build/CMakeCache.txt | sha256sum)
export stamps deadline headers

# clang 14 does not know a few of gcc's options.
# shellcheck disable=SC2016
check='
file=$1
key=$(printf "%s %s" "$file" "$headers" | cat - "$file" | sha256sum)
key=${key%% *}
[ ! -e "$stamps/$key" ] || { echo passed; exit 0; }
left=$((deadline - $(date +%s)))
[ "$left" -gt 0 ] || { echo skipped; exit 0; }
status=0
timeout "$left" clang-tidy -p build --quiet "$file" >"$stamps/$key.failed" 2>/dev/null || status=$?
case $status in
0) mv "$stamps/$key.failed" "$stamps/$key"; echo passed ;;
124) rm -f "$stamps/$key.failed"; echo skipped ;;
*) cat "$stamps/$key.failed" >&2; echo failed ;;
esac
'
xargs -d '\n' -n 1 -P 2 sh -c "$check" sh |
    awk '{ n[$1]++ } END { printf "%d %d %d\n", n["passed"], n["failed"], n["skipped"] }'
