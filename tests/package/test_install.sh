#!/bin/sh
# cmake --install: the layout, DESTDIR, a tree that was moved, and its three kinds of users: an outside CMake project,
# a plain cc with pkg-config, the README's example.
set -eu
[ -z "$SANITIZE" ] || exit 77
work="$BUILD_DIR/package install" # the blank is meant
rm -rf "$work"
mkdir -p "$work"

# quietly COMMAND...: shows its output only when it fails.
quietly() {
    "$@" >"$work/log" 2>&1 || {
        status=$?
        cat "$work/log"
        echo "failed: $*"
        exit $status
    }
}

quietly env DESTDIR="$work/stage" "$CMAKE" --install "$BUILD_DIR" --prefix /opt/mlpbwd
mv "$work/stage/opt/mlpbwd" "$work/moved"
cd "$work/moved"
libdir=$(dirname "$(find . -name libmlpbwd.so)")
for path in bin/mlpbwd include/mlpbwd.h "$libdir/libmlpbwd.so.0" "$libdir/pkgconfig/mlpbwd.pc" \
    "$libdir/cmake/mlpbwd/mlpbwdConfig.cmake" "$libdir/cmake/mlpbwd/mlpbwdConfigVersion.cmake" \
    share/mlpbwd/mlpbwd.sqlite share/mlpbwd/templates/README.md share/mlpbwd/templates/arch; do
    [ -e "$path" ] || {
        echo "not installed: $path"
        find . ! -type d
        exit 1
    }
done
if grep -rlF -e "$BUILD_DIR" -e /opt/mlpbwd "$libdir/pkgconfig" "$libdir/cmake" include; then
    echo "the files above name the folder of the build or the prefix"
    exit 1
fi
libdir=$(cd "$libdir" && pwd)
if readelf -d bin/mlpbwd "$libdir/libmlpbwd.so" | grep -E 'R(UN)?PATH'; then
    echo "an installed file keeps the search path of the build"
    exit 1
fi

# The installed tool finds its own templates and database.
quietly bin/mlpbwd emit --list
quietly bin/mlpbwd query --device host --seq-len 256
grep -qF "$work/moved/share/mlpbwd/mlpbwd.sqlite" "$work/log" || {
    cat "$work/log"
    echo "query did not answer from the shipped database"
    exit 1
}

quietly "$CMAKE" -S "$SOURCE_DIR/tests/package" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$work/moved" \
    -DCMAKE_C_COMPILER="$CC"
quietly "$CMAKE" --build "$work/consumer"
quietly "$work/consumer/consumer"

# By a path of plain characters: a shell splits what pkg-config prints.
link=$(mktemp -d)
trap 'rm -rf "$link"' EXIT
ln -s "$work/moved" "$link/mlpbwd"
flags=$(PKG_CONFIG_PATH="$link/mlpbwd/${libdir#"$work/moved/"}/pkgconfig" pkg-config --cflags --libs mlpbwd)
# shellcheck disable=SC2086
quietly "$CC" -o "$work/plain" "$SOURCE_DIR/tests/package/consumer.c" $flags
quietly env LD_LIBRARY_PATH="$libdir" "$work/plain"

awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$SOURCE_DIR/README.md" >"$work/example.c"
grep -q mlpbwd_execute "$work/example.c" || {
    echo "README.md has no C example"
    exit 1
}
# shellcheck disable=SC2086
quietly "$CC" -std=c11 -Wall -Wextra -Werror -o "$work/example" "$work/example.c" $flags
quietly env LD_LIBRARY_PATH="$libdir" "$work/example"
