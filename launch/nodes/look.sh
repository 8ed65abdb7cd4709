#!/bin/sh
# Everything that is asked of a node before something is started there, in one go. Changes nothing.
# Words: ENGINE (docker or not) DOCKER_HOST IMAGE MODEL, then `--` PEER…, then `--` FOLDER…; empty words are not asked.
# Each section begins with a line `@ NAME`; the lines of its content begin with a blank. A section of what is not there
# is empty or missing.
set -u
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
docker=${HALLMARK_DOCKER:-docker}
engine=$1 host=$2 image=$3 model=$4
shift 5
peers=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  peers="$peers $1"
  shift
done
[ $# -eq 0 ] || shift

section() { printf '@ %s\n' "$1"; }
content() { tr -d '\r' | sed 's/^/ /'; }
there() { command -v "$1" >/dev/null 2>&1; }
# FREE_KIB SIZE_KIB FOLDER, of the file system where the folder is or would be.
free() {
  at=$1
  while [ ! -d "$at" ] && [ "$at" != / ] && [ "$at" != . ]; do at=$(dirname "$at"); done
  printf '%s %s\n' "$(df -Pk "$at" 2>/dev/null | awk 'END { print $4, $2 }')" "$1"
}
home() {
  case $1 in
    \~) printf '%s\n' "$HOME" ;;
    \~/*) printf '%s\n' "$HOME/${1#\~/}" ;;
    *) printf '%s\n' "$1" ;;
  esac
}

section system
uname -s -m -r | content
section clock
date +%s.%N | content
section user
{ id -u; printf '%s\n' "$HOME"; } | content
section memory
content </proc/meminfo
section shm
df -Pk /dev/shm 2>/dev/null | tail -n 1 | content
section memlock
# Not every sh has -l; the process itself can always be asked.
sed -n 's/^Max locked memory *\([^ ]*\).*/\1/p' /proc/self/limits | content
section programs
if there "$docker"; then echo docker | content; fi
for program in iperf3 ip nvidia-smi python3; do
  if there "$program"; then echo "$program"; fi
done | content

section largest
if there ps; then ps -eo rss=,pid=,args= --sort=-rss 2>/dev/null | head -n 5 | cut -c 1-120 | content; fi

holders=
if there nvidia-smi; then
  section gpus
  fields=index,uuid,name,compute_cap,driver_version,memory.total,memory.used,memory.free
  if ! told=$(nvidia-smi --query-gpu="$fields" --format=csv,noheader,nounits 2>&1); then section gpus-error; fi
  printf '%s\n' "$told" | content
  section gpu-processes
  told=$(nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader,nounits 2>/dev/null)
  printf '%s\n' "$told" | content
  holders=$(printf '%s\n' "$told" | cut -d , -f 2 | grep -o '[0-9]*')
fi

section listeners
# PORT INODE of every socket that listens.
listeners=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == "0A" { split($2, at, ":"); print at[length(at)], $10 }')
printf '%s\n' "$listeners" | content
section sockets
# PID INODE of the sockets that processes of this user have.
# find has no way to print links of folders that vanish while it looks.
# shellcheck disable=SC2012
sockets=$(ls -l /proc/[0-9]*/fd 2>/dev/null | awk -v wanted="$listeners" '
  BEGIN { n = split(wanted, words, /[ \n]+/); for (i = 2; i <= n; i += 2) listens[words[i]] = 1 }
  /^\/proc\// { split($1, parts, "/"); pid = parts[3]; next }
  match($0, /socket:\[[0-9]+\]/) {
    inode = substr($0, RSTART + 8, RLENGTH - 9)
    if (inode in listens) print pid, inode
  }')
printf '%s\n' "$sockets" | content

section processes
# PID CONTAINER MARK COMMAND, with - for none; of those that listen or hold memory of a GPU.
for pid in $({ printf '%s\n' "$sockets" | cut -d ' ' -f 1; printf '%s\n' "$holders"; } | sort -un); do
  [ -d "/proc/$pid" ] || continue
  box=$(grep -oE '[0-9a-f]{64}' "/proc/$pid/cgroup" 2>/dev/null | head -n 1)
  mark=$(tr '\0\n' '\n ' <"/proc/$pid/environ" 2>/dev/null | sed -n 's/^HALLMARK_GROUP=//p' | head -n 1)
  command=$(tr '\0\n' '  ' <"/proc/$pid/cmdline" 2>/dev/null | cut -c 1-100)
  printf '%s %s %s %s\n' "$pid" "${box:--}" "${mark:--}" "${command:-?}"
done 2>/dev/null | content

section interfaces
# NAME STATE MTU SPEED, the speed in Mbit/s.
for folder in /sys/class/net/*; do
  [ -d "$folder" ] || continue
  state=$(cat "$folder/operstate" 2>/dev/null) mtu=$(cat "$folder/mtu" 2>/dev/null) speed=$(cat "$folder/speed" 2>/dev/null)
  printf '%s %s %s %s\n' "${folder##*/}" "${state:--}" "${mtu:--}" "${speed:--}"
done | content
if there ip; then
  section addresses
  ip -o addr show 2>/dev/null | content
  section routes
  for peer in $peers; do printf '%s %s\n' "$peer" "$(ip -o route get "$peer" 2>&1 | head -n 1)"; done | content
fi

section rdma
for folder in /sys/class/infiniband/*; do
  [ -d "$folder" ] || continue
  name=${folder##*/}
  slot=$(readlink -f "$folder/device")
  echo "device $name ${slot##*/} $(cat "$folder/sys_image_guid" 2>/dev/null)"
  for port in "$folder"/ports/*; do
    echo "port $name ${port##*/} $(cut -d ' ' -f 2 "$port/state") $(cat "$port/link_layer") $(cat "$port/rate")"
    # One program for all entries; most of the 256 are empty.
    (cd "$port" && grep -H . gids/* gid_attrs/types/* gid_attrs/ndevs/* 2>/dev/null) |
      grep -v ':0000:0000:0000:0000:0000:0000:0000:0000$' | sed "s/^/entry $name ${port##*/} /"
  done
done | content
section rdma-devices
if [ -d /dev/infiniband ]; then (cd /dev/infiniband && echo *) | content; fi

section disks
for folder; do
  free "$(home "$folder")"
done | content

if [ -n "$model" ]; then
  model=$(home "$model")
  section model
  printf '%s\n' "$model" | content
  if [ -d "$model" ]; then
    # A name with one would be several lines here; no model has such.
    odd='*
*'
    section model-files
    # SIZE OWNER PATH, of what a reader gets: links are followed.
    (cd "$model" && find -L . -name "$odd" -prune -o -type f -printf '%s %U %P\n' 2>/dev/null) | content
    section model-links
    # FROM -> TO, the end of a chain of links; nothing behind the arrow when there is no file.
    (cd "$model" && find . -name "$odd" -prune -o -type l -print | while IFS= read -r link; do
      printf '%s -> %s\n' "${link#./}" "$(readlink -e "$link")"
    done) | content
    section model-root
    (cd "$model" && pwd -P) | content
    section model-shards
    cat "$model"/*.safetensors.index.json 2>/dev/null | grep -oE '"[^"/]+\.safetensors"' | tr -d '"' | sort -u | content
    section model-revision
    # What `hallmark model fetch` leaves, else what the hub's own program leaves beside a file that it fetched.
    {
      sed -n 's/.*"revision": *"\([^"]*\)".*/\1/p' "$model/.hallmark-model.json"
      # sed ends its last line as the file does.
      echo
      head -n 1 "$model/.cache/huggingface/download/config.json.metadata"
    } 2>/dev/null | grep . | head -n 1 | content
  fi
fi

if [ "$engine" = docker ] && there "$docker"; then
  docker() { command "$docker" ${host:+--host "$host"} "$@"; }
  section engine
  if told=$(docker version --format '{{json .Server}}' 2>&1); then
    printf '%s\n' "$told" | content
    section engine-info
    docker info --format '{{json .}}' 2>/dev/null | content
    section engine-disk
    free "$(docker info --format '{{.DockerRootDir}}' 2>/dev/null)" | content
    section containers
    docker ps --all --no-trunc --format '{{.ID}} {{.State}} {{.Names}} {{.Label "dev.hallmark.group"}}' 2>/dev/null | content
    if [ -n "$image" ]; then
      section image
      docker image inspect --format '{{json .Config.Env}}' "$image" 2>/dev/null | content
    fi
  else
    section engine-error
    printf '%s\n' "$told" | content
  fi
fi
section end
