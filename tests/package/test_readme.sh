#!/bin/sh
# README.md's table of environment variables names every one that the code and the scripts read, and no other of ours.
set -eu
cd -- "$SOURCE_DIR"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

{
    find runtime tuning_db generator bench -name '*.c' -exec \
        sed -n 's/.*getenv("\([A-Za-z_]*\)").*/\1/p; s/.*"\(MLPBWD_[A-Z_]*\)".*/\1/p' {} +
    find tests -name '*.c' -exec sed -n 's/.*getenv("\([A-Za-z_]*\)").*/\1/p' {} +
    find tests tuning_db cmake .ci -type f \( -name '*.sh' -o -name run \) ! -name test_setup.sh -exec \
        sed -n 's/.*\${\(MLPBWD_[A-Z_]*\)[-:].*/\1/p' {} +
} | sort -u >"$work/read"
# shellcheck disable=SC2016
sed -n 's/^| `\([A-Z_]*\)` .*/\1/p' README.md | sort -u >"$work/table"
bad=0
for name in $(comm -23 "$work/read" "$work/table"); do
    echo "README.md's table lacks $name"
    bad=1
done
for name in $(comm -13 "$work/read" "$work/table" | grep '^MLPBWD_'); do
    echo "README.md's table has $name, which nothing reads"
    bad=1
done
exit $bad
