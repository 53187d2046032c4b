#!/bin/sh
# Installs what is missing, builds, tunes the best device found, and shows the winners and the answer to one query:
#   sh tuning_db/tune.sh [OPTION OF mlpbwd tune]...
# A GPU: the suite. Without one, or without NVRTC: T = 256 on the processor, about three minutes. The rows go to the
# user's database (or --db FILE); a second run goes on where the first was and times nothing that is finished.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
. "$root/cmake/setup.sh"
tool=$root/build/mlpbwd

install_packages build-essential cmake pkg-config liblua5.4-dev libsqlite3-dev libjansson-dev nettle-dev
if ! configured_here "$root/build"; then # else as tests/run.sh, a packager or an earlier run did it
    configure "$root/build" -DCMAKE_BUILD_TYPE=Release -DMLPBWD_TESTS=OFF
fi
build "$root/build" mlpbwd_tool mlpbwd || exit 1

database=
if [ -z "${MLPBWD_DATABASE:-}${XDG_DATA_HOME:-}${HOME:-}" ]; then
    database=$root/build/tuning.sqlite
    say "There is no home folder: the database is $database"
fi

# The query at the end asks the database that the rows go to.
before=
for word; do
    [ "$before" != --db ] || database=$word
    case $word in --db=*) database=${word#--db=} ;; esac
    before=$word
done

"$tool" devices
# The first GPU's name and its last column, the compiler: "-" when there is none.
gpu=$("$tool" devices | awk '$1 ~ /^cuda:/ { print $1, $NF; exit }')
case $gpu in
'')
    device=host
    ;;
*' -')
    say "There is a GPU, but kernels for it cannot be compiled: NVRTC is missing. NVIDIA's package cuda-nvrtc-13-0" \
        "(https://developer.nvidia.com/cuda-downloads) brings it. Tuning the processor instead."
    device=host
    ;;
*)
    device=${gpu%% *}
    ;;
esac
if [ "$device" = host ]; then
    set -- --tokens 256 --budget 3m "$@"
else
    set -- --suite "$@"
fi
if [ -n "$database" ]; then
    set -- --db "$database" "$@"
fi
say "== mlpbwd tune --device $device $*"
"$tool" tune --device "$device" "$@"
say "== mlpbwd query --device $device --tokens 256"
"$tool" query --device "$device" --tokens 256 ${database:+--db "$database"}
