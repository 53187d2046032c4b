#!/bin/sh
# Which room may include what (design: "Rooms"): everybody the public header; runtime: tuning_db; generator: runtime and
# tuning_db; tests and bench: anything. The runtime includes no Lua, and only the generator may.
set -eu
cd -- "$SOURCE_DIR"
bad=0

# complain FILE HEADER WHY
complain() {
    echo "$1 includes \"$2\": $3"
    bad=1
}

# owners HEADER: the rooms that have a header of this name, one a line.
owners() {
    find runtime tuning_db generator tests bench -name "${1##*/}" -type f -path "*${1#../}" | cut -d / -f 1 | sort -u
}

list=$(mktemp)
trap 'rm -f "$list"' EXIT
find runtime tuning_db generator -name '*.[ch]' -type f -exec \
    sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p; s/^ *# *include *<\(lua[^>]*\|lauxlib\.h\)>.*/lua:\1/p' {} \; \
    -exec echo "file:"{} \; >"$list.raw"
# What a file includes stands before its name: turn around.
tac "$list.raw" >"$list"
rm -f "$list.raw"

file=
while IFS= read -r line; do
    case $line in
    file:*)
        file=${line#file:}
        continue
        ;;
    lua:*)
        case $file in
        generator/*) ;;
        *) complain "$file" "${line#lua:}" "only the generator knows Lua" ;;
        esac
        continue
        ;;
    *mlpbwd.h) continue ;;
    esac
    room=${file%%/*}
    case $room in
    tuning_db) allowed="tuning_db" ;;
    runtime) allowed="runtime tuning_db" ;;
    *) allowed="generator runtime tuning_db" ;;
    esac
    for owner in $(owners "$line"); do
        case " $allowed " in
        *" $owner "*) continue 2 ;;
        esac
    done
    found=$(owners "$line")
    [ -z "$found" ] || complain "$file" "$line" "$room may include only: $allowed"
done <"$list"
exit $bad
