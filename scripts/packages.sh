# What ./demo and ./test share: installing the Debian packages that are missing. Sourced, not run.
#
#   need PACKAGES... -- COMMAND...   notes the packages as missing if the command fails
#   install_needed WHAT              installs what was noted, or says that WHAT is here

missing=()

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

need() {
    local packages=()
    while [ "$1" != -- ]; do
        packages+=("$1")
        shift
    done
    shift
    "$@" >/dev/null 2>&1 || missing+=("${packages[@]}")
}

# A compiler without the headers of the C library cannot compile SQLite.
has_c_compiler() { echo '#include <stdlib.h>' | cc -E -; }

install_needed() {
    if [ "${#missing[@]}" -eq 0 ]; then
        say "Nothing to install: $1 here"
        return
    fi
    if ! command -v apt-get >/dev/null; then
        echo "Missing: ${missing[*]} (the names of Debian packages). There is no apt-get here; install them, then run this again." >&2
        exit 1
    fi
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        echo "Missing: ${missing[*]}. Neither root nor sudo is here; as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    say "Installing the packages ${missing[*]}"
    as_root apt-get update -qq
    install_without_starting "${missing[@]}"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# Debian starts what it installs, and makes a PostgreSQL cluster to start. The tests start their own, so neither is
# wanted; where either question is settled already, it stays settled.
install_without_starting() (
    clusters=/etc/postgresql-common/createcluster.conf
    policy=/usr/sbin/policy-rc.d
    case " $* " in
        *" postgresql "*) [ -e "$clusters" ] || echo "create_main_cluster = false" | as_root install -D -m 644 /dev/stdin "$clusters" ;;
    esac
    if [ ! -e "$policy" ]; then
        trap 'as_root rm "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' | as_root install -m 755 /dev/stdin "$policy"
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
)
