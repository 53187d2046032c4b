#!/bin/sh
# libmlpbwd.so exports exactly the functions of mlpbwd.h, and has a SONAME; with static dependencies too, and then it
# needs nothing but the C library and jansson (whose archive in Debian cannot go into a shared library). That build is a
# packager's, without emulated devices; symbols are the same without optimisation, which would take as long again.
set -eu
work=$BUILD_DIR/package-symbols
mkdir -p "$work"

sed -n 's/^MLPBWD_API .*[ *]\(mlpbwd_[a-z_]*\)(.*/\1/p' "$SOURCE_DIR/runtime/include/mlpbwd.h" | LC_ALL=C sort \
    >"$work/header"
[ "$(grep -c . "$work/header")" -ge 12 ] || {
    echo "the header's functions were not found"
    exit 1
}

# check FILE
check() {
    nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | LC_ALL=C sort >"$work/exported"
    diff "$work/header" "$work/exported" || {
        echo "$1: exported symbols (right) are not the header's functions (left)"
        exit 1
    }
    readelf -d "$1" | grep -q 'SONAME.*\[libmlpbwd\.so\.[0-9]*\]' || {
        echo "$1: no SONAME"
        exit 1
    }
}

[ -z "$SANITIZE" ] || exit 77
check "$LIBRARY"

if ! "$CMAKE" -S "$SOURCE_DIR" -B "$work/static" -DCMAKE_BUILD_TYPE=Release -DMLPBWD_STATIC_DEPENDENCIES=ON \
    -DMLPBWD_TESTS=OFF -DMLPBWD_EMULATED=OFF -DMLPBWD_SHIP_DATABASE=OFF -DCMAKE_C_FLAGS_RELEASE=-O0 >"$work/log" 2>&1 ||
    ! "$CMAKE" --build "$work/static" --parallel 2 --target mlpbwd >>"$work/log" 2>&1; then
    cat "$work/log"
    exit 1
fi
check "$work/static/runtime/libmlpbwd.so"
if readelf -d "$work/static/runtime/libmlpbwd.so" | grep NEEDED | grep -Ev '\[(libc|libm|libjansson|ld-linux.*)\.so\.[0-9]+\]'; then
    echo "the static library needs the shared libraries above"
    exit 1
fi
