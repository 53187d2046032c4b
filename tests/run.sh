#!/bin/sh
# Installs what is missing, builds, and runs every test: sh tests/run.sh
# Then the host tests again under AddressSanitizer and UndefinedBehaviorSanitizer, the runtime's under ThreadSanitizer,
# and the formatter, clang-tidy and shellcheck. The last line counts test cases; the exit status tells.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
. "$root/cmake/setup.sh"
# Seconds that clang-tidy may take; files that it did not reach count as skipped.
tidy_seconds=${MLPBWD_TIDY_SECONDS:-20}

install_packages build-essential cmake pkg-config liblua5.4-dev libsqlite3-dev libjansson-dev nettle-dev \
    libcmocka-dev libopenblas-dev clang-format clang-tidy shellcheck

passed=0
failed=0
skipped=0
began=$(date +%s)

# count NAME PASSED FAILED SKIPPED
count() {
    passed=$((passed + $2))
    failed=$((failed + $3))
    skipped=$((skipped + $4))
    say "$1: $2 passed, $3 failed, $4 skipped ($(($(date +%s) - began)) s so far)"
}

# run_tests NAME FOLDER OPTION...: ctest in FOLDER, then counts the test cases from its log.
run_tests() {
    name=$1
    folder=$2
    shift 2
    say "== $name"
    rm -f "$folder/Testing/Temporary/LastTest.log"
    status=0
    ctest --test-dir "$folder" --parallel 2 --output-on-failure --no-tests=error \
        --output-log "$folder/ctest.log" "$@" || status=$?
    counts=$(awk -f "$root/tests/count_cases.awk" "$folder/ctest.log" "$folder/Testing/Temporary/LastTest.log") ||
        counts="0 1 0"
    # The three words of $counts are numbers.
    # shellcheck disable=SC2086
    set -- $counts
    if [ "$status" != 0 ] && [ "$2" = 0 ]; then
        set -- "$1" 1 "$3"
    fi
    count "$name" "$@"
}

# lint NAME COMMAND...: one test; its output is shown when it fails.
lint() {
    name=$1
    shift
    if "$@" >"$root/build/lint.log" 2>&1; then
        count "$name" 1 0 0
    else
        cat "$root/build/lint.log"
        count "$name" 0 1 0
    fi
}

# sources PATTERN...: the project's files of these names, one a line, newest first. Texts of templates have holes.
sources() {
    (cd -- "$root" && for pattern; do
        find runtime tuning_db generator tests bench cmake .ci -name "$pattern" -not -path '*/templates/*' -type f -print
    done | xargs -d '\n' ls -t)
}

check_format() {
    sources '*.c' '*.h' | (cd -- "$root" && xargs -d '\n' clang-format --dry-run -Werror)
}

check_scripts() {
    sources '*.sh' run | (cd -- "$root" && xargs -d '\n' shellcheck -x)
}

# build_and_test NAME FOLDER TARGETS OPTION...: what does not build is one failure, and the rest goes on.
build_and_test() {
    name=$1
    folder=$2
    say "== building: $name"
    # The words of TARGETS are names of targets.
    # shellcheck disable=SC2086
    if build "$folder" $3; then
        shift 3
        run_tests "$name" "$folder" "$@"
    else
        count "$name: build" 0 1 0
    fi
}

configure "$root/build" -DCMAKE_BUILD_TYPE=Release -DMLPBWD_TESTS=ON -DMLPBWD_WERROR=ON
build_and_test "tests" "$root/build" ""

configure "$root/build-asan" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMLPBWD_TESTS=ON -DMLPBWD_WERROR=ON \
    -DMLPBWD_SHIP_DATABASE=OFF -DMLPBWD_SANITIZE=address,undefined "-DMLPBWD_COMPILE_CACHE=$root/build/compiled"
build_and_test "tests under ASan and UBSan" "$root/build-asan" "" --label-exclude '^(package|uninstrumented|pace)$'

configure "$root/build-tsan" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMLPBWD_TESTS=ON -DMLPBWD_WERROR=ON \
    -DMLPBWD_SHIP_DATABASE=OFF -DMLPBWD_SANITIZE=thread "-DMLPBWD_COMPILE_CACHE=$root/build/compiled"
threaded=$(cd -- "$root" && find tests -name 'test_api*.c' -o -name 'test_device_host*.c' | sed 's|.*/||; s|\.c$||')
build_and_test "runtime's tests under TSan" "$root/build-tsan" "$threaded" --tests-regex '^test_(api|device_host)'

say "== format, clang-tidy, shellcheck"
lint clang-format check_format
lint shellcheck check_scripts
tidy=$(sources '*.c' | sh "$root/tests/tidy.sh" "$root" "$tidy_seconds")
# The three words of $tidy are numbers.
# shellcheck disable=SC2086
count clang-tidy $tidy

printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
