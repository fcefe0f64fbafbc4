# Makes a container of the namespaces that this runs in, and becomes its command. Nothing is written to the machine's own
# folders: a folder in which something has to appear is first covered by one in memory, with links to what was there.
# Arguments: ADDRESS HOSTNAME FOLDER IMAGE WORKDIR, `SOURCE:TARGET[:ro]` for each mount, `--`, and the command.
set -e
path=$PATH
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
address=$1 name=$2 folder=$3 image=$4 workdir=$5
shift 5

until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
ip link set lo up
ip address add "$address/24" dev eth0
ip link set eth0 up
hostname "$name"

shopt -s dotglob nullglob
mount -t tmpfs none /mnt
declare -A ours=([/mnt]=1)

link_all() {
    local one
    for one in "$1"/*; do ln -s "$one" "$2/"; done
}

# Makes a folder that may be written to.
make() {
    [[ -z ${ours[$1]} ]] || return 0
    local parent=${1%/*} was
    if [[ -z $parent ]]; then
        was=/mnt/kept/${#ours[@]}
        mkdir -p "$was"
        mount --rbind "$1" "$was"
        mount -t tmpfs none "$1"
        link_all "$was" "$1"
    else
        make "$parent"
        if [[ -L $1 ]]; then
            was=$(readlink "$1")
            rm "$1"
            mkdir "$1"
            link_all "$was" "$1"
        else
            mkdir -p "$1"
        fi
    fi
    ours[$1]=1
}

for file in hosts passwd resolv.conf; do mount --bind "$folder/$file" /etc/$file; done
for part in "$image"/*/*; do
    to=/${part#"$image"/}
    make "${to%/*}"
    rm -f "$to"
    cp -a "$part" "${to%/*}/"
done
for mounted in "$@"; do
    shift
    [[ $mounted != -- ]] || break
    IFS=: read -r source target how <<<"$mounted"
    if [[ -d $source ]]; then
        make "$target"
    else
        make "${target%/*}"
        : >"$target"
    fi
    mount --bind ${how:+-o "$how"} "$source" "$target"
done
make /run/postgresql
make /tmp
make "$workdir"

cd "$workdir"
PATH=$path
exec "$@"
