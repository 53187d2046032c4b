#!/bin/sh
# Which room may include what (design: "Rooms"): everybody the public header; runtime: tuning_db; generator: runtime and
# tuning_db; tests and bench: anything. Only the generator knows Lua.
set -eu
cd -- "$SOURCE_DIR"
find runtime tuning_db generator tests bench -name '*.[ch]' -type f | awk '
function complain(why) {
    printf "%s includes %s: %s\n", file, header, why
    bad = 1
}
{
    files[NR] = $0
    room = $0
    sub(/\/.*/, "", room)
    name = $0
    sub(/.*\//, "", name)
    rooms[name] = rooms[name] " " room " "
}
END {
    allowed["tuning_db"] = " tuning_db "
    allowed["runtime"] = " runtime tuning_db "
    allowed["generator"] = " generator runtime tuning_db "
    for (i = 1; i <= NR; i++) {
        file = files[i]
        room = file
        sub(/\/.*/, "", room)
        if (!(room in allowed))
            continue
        while ((getline line < file) > 0) {
            if (line !~ /^ *# *include/)
                continue
            header = line
            sub(/^[^<"]*[<"]/, "", header)
            sub(/[>"].*$/, "", header)
            if (header ~ /^(lua|lauxlib|lualib)/ && room != "generator")
                complain("only the generator knows Lua")
            if (line !~ /"/ || header ~ /(^|\/)mlpbwd\.h$/)
                continue
            sub(/.*\//, "", header)
            if (!(header in rooms))
                continue
            good = 0
            count = split(rooms[header], owners, " ")
            for (k = 1; k <= count; k++)
                if (index(allowed[room], " " owners[k] " "))
                    good = 1
            if (!good)
                complain(room " may include only:" allowed[room])
        }
        close(file)
    }
    exit bad
}'
