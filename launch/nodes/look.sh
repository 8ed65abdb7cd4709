#!/bin/sh
# Everything that is asked of a node before something is started there, in one go. Changes nothing.
# Words: ENGINE (docker or not) DOCKER_HOST IMAGE MODEL, then `--` PEER…, then `--` FOLDER…, then `--` PORT…, whose listeners
# are named (none: of all ports); empty words are not asked.
# Each section begins with a line `@ NAME`; the lines of its content begin with a blank. A section of what is not there
# is empty or missing.
# Programs are what a look costs, so there is one for many files where that is possible, and one sed for all that is said.
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
# Set in front of this script: a word that nobody else knows, which begins a section; and the memory that is wanted, as a
# share of all and in KiB: the processes that take the most are only told where less is available.
: "${mark:=@}" "${share:=0}" "${least:=0}"
nl='
'
cr=$(printf '\r')

section() { printf '%s %s\n' "$mark" "$1"; }
there() { command -v "$1" >/dev/null 2>&1; }
# FOLDER, or what is above it where it would be; sets `at`.
above() {
  at=$1
  while [ ! -d "$at" ]; do
    case $at in
      */*) at=${at%/*} ;;
      *) at=. ;;
    esac
    [ -n "$at" ] || at=/
  done
}
# Sets `at` to the folder that a `~` in front stands for.
home() {
  case $1 in
    \~) at=$HOME ;;
    \~/*) at=$HOME/${1#\~/} ;;
    *) at=$1 ;;
  esac
}
# FREE_KIB SIZE_KIB FOLDER, of the file systems where these folders are or would be.
free() {
  wanted=""
  left=$#
  while [ "$left" -gt 0 ]; do
    above "$1"
    wanted=$wanted$1$nl
    shift
    set -- "$@" "$at"
    left=$((left - 1))
  done
  # All at once; one by one where df has nothing to say of one of them.
  df -Pk "$@" 2>/dev/null | wanted=$wanted awk '
    NR > 1 { row[NR - 1] = $4 " " $2 }
    END {
      n = split(ENVIRON["wanted"], folder, "\n")
      if (NR != n) exit 1
      for (i = 1; i < n; i++) print row[i], folder[i]
    }' ||
    for at; do
      df -Pk "$at" 2>/dev/null | folder=${wanted%%"$nl"*} awk 'END { print $4, $2, ENVIRON["folder"] }'
      wanted=${wanted#*"$nl"}
    done
}
# The content of a file of one line, in `line`; a dash when it says nothing.
one() {
  { read -r line <"$1"; } 2>/dev/null || :
  : "${line:=-}"
}

kernel() {
  section system
  uname -s -m -r
  section clock
  date +%s.%N
  section user
  id -u
  printf '%s\n' "$HOME"
  section programs
  if there "$docker"; then echo docker; fi
  for program in all_reduce_perf all_reduce_perf_mpi iperf3 ip mpirun nvidia-smi python3; do
    if there "$program"; then echo "$program"; fi
  done
}

# Memory, limits, listeners, and the processes that take the most memory where that is short.
# Files that vanish while they are read are no error to getline.
files() {
  awk -v mark="$mark" -v ss="$(there ss && echo 1)" -v share="$share" -v least="$least" -v wanted="$1" -v hex="$(for port in $1; do printf '%04X ' "$port"; done)" '
    function section(name) { print mark, name }
    # PORT INODE of every socket that listens, the port in hexadecimal digits.
    function listener(port, inode) {
      print port, inode
      if (wanted == "" || port in asked) inodes = inodes " " inode
    }
    # ss asks for these alone; a kernel that writes /proc/net/tcp looks through the table of all connections.
    function told(   command, line, field, at, n, some) {
      command = "ss -H -l -t -n -e 2>/dev/null"
      while ((command | getline line) > 0) {
        split(line, field, " ")
        n = split(field[4], at, ":")
        if (field[1] != "LISTEN" || !match(line, / ino:[0-9]+/)) continue
        listener(sprintf("%04X", at[n]), substr(line, RSTART + 5, RLENGTH - 5))
        some = 1
      }
      close(command)
      return some
    }
    function listening(file,   line, field, at, n) {
      while ((getline line < file) > 0) {
        split(line, field, " ")
        if (field[4] != "0A") continue
        n = split(field[2], at, ":")
        listener(at[n], field[10])
      }
      close(file)
    }
    BEGIN {
      n = split(hex, words, " ")
      for (i = 1; i <= n; i++) asked[words[i]] = 1
      section("memory")
      while ((getline line < "/proc/meminfo") > 0) {
        print line
        split(line, field, " ")
        memory[field[1]] = field[2]
      }
      section("memlock")
      while ((getline line < "/proc/self/limits") > 0) if (sub(/^Max locked memory */, "", line)) {
        split(line, field, " ")
        print field[1]
      }
      section("listeners")
      if (!ss || !told()) {
        listening("/proc/net/tcp")
        listening("/proc/net/tcp6")
      }
      section("for-this-script")
      available = memory["MemAvailable:"] + 0
      print (available < memory["MemTotal:"] * share || available < least + 0) inodes
    }'
}

# RSS PID COMMAND of the five processes that take the most memory.
largest() {
  top=$(awk '
    BEGIN {
      for (i = 1; i < ARGC; i++) if ((getline line < (file = ARGV[i] "/statm")) > 0) {
        close(file)
        split(line, field, " ")
        for (k = 5; k > 0 && field[2] + 0 > size[k] + 0; k--) { size[k + 1] = size[k]; top[k + 1] = top[k] }
        size[k + 1] = field[2]
        top[k + 1] = substr(ARGV[i], 7)
      }
      for (k = 1; k <= 5; k++) if (size[k] + 0 > 0) list = list "," top[k]
      print substr(list, 2)
    }' /proc/[0-9]*)
  ps -o rss=,pid=,args= --cols 120 --sort=-rss -p "$top" 2>/dev/null
}

# Whose the listening sockets with these inodes are, and what the processes are that listen or hold memory of a GPU.
owners() {
  section sockets
  # PID INODE of the sockets that processes of this user have.
  # find has no way to print links of folders that vanish while it looks.
  # shellcheck disable=SC2012
  sockets=$([ -z "$1" ] || ls -l /proc/[0-9]*/fd 2>/dev/null | awk -v wanted="$1" '
    BEGIN { n = split(wanted, words, " "); for (i = 1; i <= n; i++) listens[words[i]] = 1 }
    /^\/proc\// { split($1, parts, "/"); pid = parts[3]; next }
    match($0, /socket:\[[0-9]+\]/) {
      inode = substr($0, RSTART + 8, RLENGTH - 9)
      if (inode in listens) print pid, inode
    }')
  printf '%s\n' "$sockets"
  section processes
  # PID CONTAINER MARK COMMAND, with - for none.
  seen=' '
  for pid in $(printf '%s\n' "$sockets" | cut -d ' ' -f 1) $2; do
    case $seen in *" $pid "*) continue ;; esac
    seen="$seen$pid "
    [ -d "/proc/$pid" ] || continue
    box=$(grep -oE '[0-9a-f]{64}' "/proc/$pid/cgroup" 2>/dev/null | head -n 1)
    group=$(tr '\0\n' '\n ' <"/proc/$pid/environ" 2>/dev/null | sed -n 's/^HALLMARK_GROUP=//p' | head -n 1)
    command=$(tr '\0\n' '  ' <"/proc/$pid/cmdline" 2>/dev/null | cut -c 1-100)
    printf '%s %s %s %s\n' "$pid" "${box:--}" "${group:--}" "${command:-?}"
  done 2>/dev/null
}

gpus() {
  section gpus
  fields=index,uuid,name,compute_cap,driver_version,memory.total,memory.used,memory.free
  if ! told=$(nvidia-smi --query-gpu="$fields" --format=csv,noheader,nounits 2>&1); then section gpus-error; fi
  printf '%s\n' "$told"
  section gpu-processes
  told=$(nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader,nounits 2>/dev/null)
  printf '%s\n' "$told"
  holders=$(printf '%s\n' "$told" | cut -d , -f 2 | grep -o '[0-9]*')
}

interfaces() {
  section interfaces
  # NAME STATE MTU SPEED, the speed in Mbit/s.
  for folder in /sys/class/net/*; do
    [ -d "$folder" ] || continue
    told=${folder##*/}
    for file in operstate mtu speed; do
      line=
      one "$folder/$file"
      told="$told $line"
    done
    printf '%s\n' "$told"
  done
}

ways() {
  section addresses
  ip -o addr show 2>/dev/null
  section routes
  for peer in $peers; do
    told=$(ip -o route get "$peer" 2>&1)
    printf '%s %s\n' "$peer" "${told%%"$nl"*}"
  done
}

rdma() {
  section rdma
  for folder in /sys/class/infiniband/*; do
    [ -d "$folder" ] || continue
    name=${folder##*/}
    slot=$(readlink -f "$folder/device")
    line=
    one "$folder/sys_image_guid"
    echo "device $name ${slot##*/} $line"
    for port in "$folder"/ports/*; do
      line= && one "$port/state"
      state=${line#*: }
      line= && one "$port/link_layer"
      layer=$line
      line= && one "$port/rate"
      echo "port $name ${port##*/} $state $layer $line"
      # One program for all entries; most of the 256 are empty.
      (cd "$port" && grep -H . gids/* gid_attrs/types/* gid_attrs/ndevs/* 2>/dev/null) |
        sed -e '/:0000:0000:0000:0000:0000:0000:0000:0000$/d' -e "s/^/entry $name ${port##*/} /"
    done
  done
  section rdma-devices
  if [ -d /dev/infiniband ]; then (cd /dev/infiniband && echo *); fi
}

model() {
  section model
  printf '%s\n' "$model"
  cd "$model" 2>/dev/null || return
  # A name with one would be several lines here; no model has such.
  odd="*$nl*"
  section model-files
  # SIZE OWNER PATH, of what a reader gets: links are followed.
  find -L . -name "$odd" -prune -o -type f -printf '%s %U %P\n' 2>/dev/null
  section model-links
  # FROM -> TO, the end of a chain of links; nothing behind the arrow when there is no file.
  find . -name "$odd" -prune -o -type l -print | while IFS= read -r link; do
    printf '%s -> %s\n' "${link#./}" "$(readlink -e "$link")"
  done
  section model-root
  pwd -P
  section model-shards
  cat ./*.safetensors.index.json 2>/dev/null | grep -oE '"[^"/]+\.safetensors"' | tr -d '"' | sort -u
  section model-revision
  # What `hallmark model fetch` leaves, else what the hub's own program leaves beside a file that it fetched.
  revision=
  if [ -r .hallmark-model.json ]; then
    revision=$(sed -n 's/.*"revision": *"\([^"]*\)".*/\1/p' .hallmark-model.json)
  fi
  if [ -z "$revision" ]; then
    line=
    one .cache/huggingface/download/config.json.metadata
    [ "$line" = - ] || revision=$line
  fi
  printf '%s\n' "${revision%%"$nl"*}"
}

containers() {
  docker() { timeout 15 "$docker" ${host:+--host "$host"} "$@"; }
  box='{{.ID}} {{.State}} {{.Names}} {{.Label "dev.hallmark.group"}}'
  # Where its files are, what it is, and everything else that it says.
  is='{"Version":{{json .ServerVersion}},"Os":{{json .OSType}},"Arch":{{json .Architecture}}}'
  told=$(docker info --format "{{.DockerRootDir}}$nl$is$nl{{json .}}" 2>/dev/null)
  answered=$?
  # One container that the engine cannot let go of is enough for a list that never comes.
  [ $answered -ne 0 ] || { boxes=$(docker ps --all --no-trunc --format "$box" 2>/dev/null); answered=$?; }
  # An engine that hangs is told as that.
  if [ $answered -eq 124 ]; then
    section engine-error
    echo 'it did not answer within 15 s'
    return
  fi
  root=${told%%"$nl"*} told=${told#*"$nl"}
  if [ -z "$root" ]; then
    section engine-error
    docker version --format '{{json .Server}}' 2>&1
    return
  fi
  section engine
  printf '%s\n' "${told%%"$nl"*}"
  section engine-info
  printf '%s\n' "${told#*"$nl"}"
  section engine-disk
  free "$root"
  section containers
  [ -z "$boxes" ] || printf '%s\n' "$boxes"
  if [ -n "$image" ]; then
    section image
    docker image inspect --format '{{json .Config.Env}}' "$image" 2>/dev/null
  fi
}

everything() {
  kernel
  section shm
  df -Pk /dev/shm 2>/dev/null | tail -n 1
  # The folders go to the end, behind the ports.
  count=0 all=$#
  while [ "$count" -lt "$all" ] && [ "$1" != -- ]; do
    home "$1"
    shift
    set -- "$@" "$at"
    count=$((count + 1))
  done
  [ "$count" -eq "$all" ] || shift
  ports=
  while [ $# -gt "$count" ]; do
    ports="$ports $1"
    shift
  done
  section disks
  [ $# -eq 0 ] || free "$@"
  told=$(files "$ports")
  mine=${told#*"$mark for-this-script$nl"}
  printf '%s\n' "${told%%"$nl$mark for-this-script"*}"
  if [ "${mine%% *}" = 1 ] && there ps; then
    section largest
    largest
  fi
  holders=
  if there nvidia-smi; then gpus; fi
  case $mine in *" "*) mine=${mine#* } ;; *) mine= ;; esac
  owners "$mine" "$holders"
  interfaces
  if there ip; then ways; fi
  rdma
  if [ -n "$model" ]; then
    home "$model"
    model=$at
    (model)
  fi
  if [ "$engine" = docker ] && there "$docker"; then containers; fi
  section end
}

everything "$@" | sed -e "s/$cr//g" -e 's/^/ /' -e "s/^ $mark /@ /"
