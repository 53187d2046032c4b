# shellcheck shell=sh
# Set-up shared by tests/run.sh and tuning_db/tune.sh, which source it with $root set to the project's folder.
: "${root:?is the project folder, set by the sourcing script}"

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "error: $*"
    exit 1
}

# CMake and make cannot work under a path with some characters: then a link in a private folder stands for the tree.
link_odd_root() {
    case $root in
    *\\*) fail "CMake cannot work in a folder whose path has a backslash: $root" ;;
    *[]\$\#\;\":,[]* | *"
"*) ;;
    *) return 0 ;;
    esac
    links=${TMPDIR:-/tmp}/mlpbwd-$(id -u)
    mkdir -m 700 "$links" 2>/dev/null || [ -n "$(find "$links" -prune -type d -user "$(id -u)")" ] ||
        fail "$links is needed for a link to the project, and is not a folder of this user"
    link=$links/$(printf '%s' "$root" | cksum | tr -s ' ' -)
    rm -f "$link"
    ln -s "$root" "$link"
    root=$link
}

# install_packages NAME...: installs the Debian packages that are missing. Does nothing, and needs no rights, when
# none is.
install_packages() {
    if ! command -v dpkg-query >/dev/null 2>&1; then
        say "This is no Debian system: these packages, or what brings the same, must be there already: $*"
        return 0
    fi
    missing=
    for name; do
        case $(dpkg-query -W -f='${db:Status-Status} ' "$name" 2>/dev/null) in
        *"installed "*) ;;
        *) missing="$missing $name" ;;
        esac
    done
    [ -n "$missing" ] || return 0
    missing=${missing# }
    if [ "$(id -u)" = 0 ]; then
        as_root() { "$@"; }
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root() { sudo -n "$@"; }
    else
        fail "missing packages, and neither root nor a sudo without a password to install them. Ask for:" \
            "apt-get install --no-install-recommends $missing"
    fi
    say "Installing: $missing"
    log=$(mktemp)
    # The words of $missing are package names.
    # shellcheck disable=SC2086
    if as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update >"$log" 2>&1 </dev/null &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 \
            install --no-install-recommends $missing >>"$log" 2>&1 </dev/null; then
        rm -f "$log"
    else
        tail -n 20 "$log" >&2
        rm -f "$log"
        fail "apt-get could not install: $missing"
    fi
}

# configured_here FOLDER: whether it was configured, and from this very tree.
configured_here() {
    grep -Fqxs "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$1/CMakeCache.txt"
}

# configure FOLDER OPTION...: configures unless FOLDER was configured from this tree with the same options.
configure() {
    folder=$1
    shift
    if configured_here "$folder"; then
        [ "$(cat "$folder/configured" 2>/dev/null)" != "$*" ] || return 0
    elif [ -f "$folder/CMakeCache.txt" ]; then
        say "$folder was configured from another path: starting it anew."
        rm -rf "$folder"
    fi
    mkdir -p "$folder"
    log=$folder/configure.log
    if ! cmake -S "$root" -B "$folder" "$@" >"$log" 2>&1; then
        cat "$log" >&2
        fail "configuring $folder failed"
    fi
    printf '%s\n' "$*" >"$folder/configured"
}

# build FOLDER [TARGET...]: prints the compiler's words only when it fails, and is then false.
build() {
    folder=$1
    shift
    [ $# = 0 ] || set -- --target "$@"
    if ! cmake --build "$folder" --parallel "$(processors)" "$@" >"$folder/build.log" 2>&1; then
        grep -E -B 2 -A 20 'error|Error|\*\*\*' "$folder/build.log" | head -n 120 >&2
        say "error: building failed; all of it: $folder/build.log"
        return 1
    fi
}

processors() {
    nproc 2>/dev/null || echo 2
}

link_odd_root
