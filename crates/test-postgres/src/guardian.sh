# Waits until the owner of a server is gone, then stops the server at once and removes its folder.
#
# Standard input is a pipe that the owner holds open and never writes to: it ends when the owner closes it, exits, or is
# killed. A process belongs to the server if it works in the data folder, as every process of PostgreSQL does, or in the
# folder around it, as the programs do that create the data. A process id in a stale file may belong to another process.
folder=$1
data=$folder/data

trap '' HUP INT TERM
read -r _

signal_all() {
    found=
    for process in /proc/[0-9]*; do
        [ "$process/cwd" -ef "$data" ] || [ "$process/cwd" -ef "$folder" ] || continue
        found=yes
        kill -s "$1" "${process#/proc/}"
    done
    [ "$found" ]
}

# On QUIT the server cleans up its shared memory. Processes that are left after ten seconds are killed; the server
# itself gives its children five.
tries=0
while [ "$tries" -lt 500 ] && signal_all QUIT; do
    tries=$((tries + 1))
    sleep 0.02
done
while signal_all KILL; do sleep 0.02; done

# A killed server leaves the shared memory segment with which it detects a second instance.
segment=$(sed -n '7s/.* //p' "$data/postmaster.pid")
[ -z "$segment" ] || ipcrm --shmem-id "$segment"

rm -rf "$folder"
