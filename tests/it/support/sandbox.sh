# Builds a place where generated text may be run, and runs it there. Started inside namespaces of its own.
# Arguments: an empty folder, a file for the log, the text, names of stand-ins, "--", real programs.
set -eu
root=$1 log=$2 text=$3
shift 3
mount -t tmpfs -o size=8m,mode=755 none "$root"
cd "$root"
mkdir -p stand-ins real work tmp proc dev usr
for folder in /lib /lib64 /usr/lib /usr/lib64; do
    if [ -L "$folder" ]; then
        ln -s "$(readlink "$folder")" ".$folder"
    elif [ -d "$folder" ]; then
        mkdir -p ".$folder"
        mount --bind -o ro "$folder" ".$folder"
    fi
done
mount --rbind /proc proc
touch dev/null log
mount --bind /dev/null dev/null
mount --bind "$log" log
# What a stand-in was called with, as words that a shell reads back: one write, so that lines stay whole.
printf '#!/real/bash -p\nprintf -v line "%%q " "${0##*/}" "$@"\nprintf "%%s\\n" "$line" >>/log\n' >stand-in
chmod 755 stand-in
while [ "$1" != -- ]; do
    ln -s ../stand-in "stand-ins/$1"
    shift
done
shift
for program in "$@"; do
    path=$(command -v "$program") || { echo "$program is missing" >&2; exit 1; }
    touch "real/$program"
    mount --bind -o ro "$path" "real/$program"
done
mount -t tmpfs -o size=1m none work
mount -t tmpfs -o size=1m none tmp
mount -o remount,ro .
echo ready >&2
exec chroot . /real/env -i PATH=/stand-ins:/real HOME=/work \
    /real/bash -c 'ulimit -t 1 -u 1000 -f 1024; cd /work; exec bash -c "$1"' bash "$text" >/dev/null 2>/dev/null
