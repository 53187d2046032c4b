# Counts test cases in ctest's LastTest.log and prints "passed failed skipped". A cmocka program reports its own
# cases; anything else (a script) is one case. A program that failed without naming a case, or died, is one failure.
function close_test(    cases) {
    if (name == "")
        return
    cases = p + f + s
    if (verdict == "Skipped") {
        skipped++
    } else {
        if (cases == 0 && verdict == "Passed")
            p = 1
        if (f == 0 && verdict != "Passed")
            f = 1
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
/^Test Failed\.$/ { verdict = "Failed" }
/^Test Skipped\.$/ || /^Test Skipped$/ { verdict = "Skipped" }
END {
    close_test()
    printf "%d %d %d\n", passed, failed, skipped
}
