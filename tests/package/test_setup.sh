#!/bin/sh
# cmake/setup.sh with commands that only pretend: what is checked, what apt-get is asked for and when, and what is said
# to somebody who has no rights.
set -eu
work=$BUILD_DIR/package-setup
rm -rf "$work"
mkdir -p "$work/bin"
for tool in cat env mktemp rm tail; do
    ln -s "$(command -v "$tool")" "$work/bin/$tool"
done

# pretend NAME TEXT: a command of that name; its words go to the record.
pretend() {
    printf '#!/bin/sh\necho "%s $*" >>"%s"\n%s\n' "$1" "$work/record" "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}

# try NAME STATUS: install_packages with the commands as they are now; ends the test unless it has that exit status.
try() {
    : >"$work/record"
    status=0
    # shellcheck disable=SC2016
    PATH=$work/bin root=$SOURCE_DIR /bin/sh -c '. "$root/cmake/setup.sh"; install_packages have-one lacks-one lacks-two' \
        >"$work/said" 2>&1 || status=$?
    if [ "$status" != "$2" ]; then
        fail_test "$1: exit status $status, not $2"
    fi
}

fail_test() {
    echo "$1"
    echo "said:"
    cat "$work/said"
    echo "called:"
    cat "$work/record"
    exit 1
}

# expect FILE PATTERN / refuse FILE PATTERN
expect() {
    grep -q -e "$2" "$work/$1" || fail_test "not in $1: $2"
}
refuse() {
    ! grep -q -e "$2" "$work/$1" || fail_test "in $1: $2"
}

try "no Debian" 0
expect said 'no Debian system'

# The arguments of the pretended dpkg-query: -W -f=... NAME
# shellcheck disable=SC2016
pretend dpkg-query 'case $3 in have*) printf "installed " ;; *) exit 1 ;; esac'
pretend apt-get ''
pretend id 'echo 1000'
try "missing and no rights" 1
expect said 'neither root nor a sudo'
expect said 'apt-get install --no-install-recommends lacks-one lacks-two$'
refuse record '^apt-get'

pretend sudo 'echo "a password is required" >&2; exit 1'
try "a sudo that asks" 1
expect said 'neither root nor a sudo'
refuse record '^apt-get'

# shellcheck disable=SC2016
pretend sudo 'shift; case $1 in true) ;; *) exec "$@" ;; esac'
try "sudo" 0
expect record '^sudo -n env DEBIAN_FRONTEND=noninteractive apt-get .*update'
expect record '^apt-get .*-y .*install .*lacks-one lacks-two$'
refuse record 'install .*have-one'

pretend id 'echo 0'
rm "$work/bin/sudo"
try "root" 0
expect record '^apt-get .*update'
expect record '^apt-get .*-y .*install .*lacks-one lacks-two$'

pretend apt-get 'echo "Unable to locate package lacks-two" >&2; exit 100'
try "apt fails" 1
expect said 'Unable to locate package lacks-two'
expect said 'apt-get could not install: lacks-one lacks-two'

# shellcheck disable=SC2016
pretend dpkg-query 'printf "installed "'
pretend id 'echo 1000'
try "nothing missing, no rights" 0
refuse record '^apt-get'
