# Counts test cases in what ctest printed (its closing lists: which tests were skipped or failed) followed by its
# LastTest.log (each test's output), and prints "passed failed skipped". A cmocka program reports its own cases;
# anything else (a script) is one case. A program that failed without naming a case, or died, is one failure.
function close_test(    bad) {
    if (name == "")
        return
    bad = verdict != "Passed" || state[name] != ""
    if (state[name] == "Skipped") {
        skipped++
    } else {
        if (bad && f == 0)
            f = 1
        if (p + f + s == 0)
            p = 1
        passed += p
        failed += f
        skipped += s
    }
    name = ""
}
function number_before_test(text,    words) {
    split(text, words, " ")
    return words[1] + 0
}
/^[ \t]+[0-9]+ - [^ ]+ \([^)]*\)/ && name == "" {
    sub(/^[ \t]+[0-9]+ - /, "")
    test = $1
    sub(/^[^ ]+ \(/, "")
    sub(/\).*$/, "")
    state[test] = $0
    next
}
/^[0-9]+\/[0-9]+ Test: / {
    close_test()
    name = $3
    verdict = "Failed"
    p = f = s = 0
}
match($0, /\[  PASSED  \] [0-9]+ test\(s\)/) { p += number_before_test(substr($0, RSTART + 13)) }
match($0, /\[  FAILED  \] [0-9]+ test\(s\)/) { f += number_before_test(substr($0, RSTART + 13)) }
match($0, /\[  SKIPPED \] [0-9]+ test\(s\)/) { s += number_before_test(substr($0, RSTART + 13)) }
/^Test Passed\.$/ { verdict = "Passed" }
END {
    close_test()
    printf "%d %d %d\n", passed, failed, skipped
}
