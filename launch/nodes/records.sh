#!/bin/sh
# One cluster's records and lock on a node. Words: STATE NAME ACTION …; STATE may begin with ~.
# Every action may be repeated: what was done already is found done. Ends with 3 when the lock is another's, with 4 when
# the journal is not the one that the caller read, with 5 when it cannot be written, with 6 when a record cannot be read.
set -eu
umask 077
export LC_ALL=C
state=$1 name=$2 action=$3
shift 3
case $state in
  \~) state=$HOME ;;
  \~/*) state=$HOME/${state#\~/} ;;
esac
folder=$state/clusters/$name
journal=$folder/journal.jsonl

guard() {
  mkdir -p "$folder"
  exec 9>"$folder/.guard"
  flock -w 20 9
}

# The lock's first line is a number that its owner chose; the second says who that is.
held() {
  if [ -f "$folder/lock" ]; then sed -n 1p "$folder/lock"; fi
}

# The archive on standard input into a folder, each file whole or not at all.
unpack() {
  fresh=$1/.fresh.$$
  trap 'rm -rf "$fresh"' EXIT
  mkdir -p "$fresh"
  base64 -d | tar -xzf - -C "$fresh"
  (cd "$fresh" && find . -type f) | while IFS= read -r file; do
    mkdir -p "$1/${file%/*}"
    [ "$2" = fast ] || sync "$fresh/$file"
    mv -f "$fresh/$file" "$1/$file"
  done
}

case $action in
  fetch)
    echo "$folder"
    # Whatever is there and cannot be read ends this: what is left out would count as gone.
    case $(ls -dL -- "$folder" 2>&1 >/dev/null) in
      *'No such file'*) [ -L "$folder" ] || exit 0 ;;
    esac
    cd "$folder"
    # What begins with a dot comes and goes meanwhile.
    found=$(find . -ignore_readdir_race \( -path ./logs -o -name '.?*' \) -prune -o -type f ! -name lock -print)
    [ -n "$found" ] || exit 0
    exec 4>&1
    status=$({ { printf '%s\n' "$found" | tar -czf - -T - || echo $? >&3; } | base64 >&4; } 3>&1)
    # 1: a file grew while it was read, as the journal does; what stood in it before is there.
    [ "${status:-0}" -le 1 ] || exit 6
    ;;
  append) # SIZE LOCK FILES; the line, then an archive of so many new files
    guard
    if [ "$(held)" != "$2" ]; then
      sed -n 2p "$folder/lock" 2>/dev/null || true
      exit 3
    fi
    IFS= read -r line
    if [ "$3" -ne 0 ]; then
      rm -rf "$folder"/.fresh.*
      unpack "$folder" durable
    fi
    if [ ! -e "$journal" ]; then
      : >"$journal"
      sync "$folder"
    fi
    size=$(wc -c <"$journal")
    there=$(tail -c "+$(($1 + 1))" "$journal")
    if [ "$there" = "$line" ] && [ "$size" -eq $(($1 + ${#line} + 1)) ]; then exit 0; fi
    # What was torn off in the middle never took effect; a whole line is somebody's.
    if [ "$size" -lt "$1" ] || [ "$(tail -c "+$(($1 + 1))" "$journal" | wc -l)" -ne 0 ]; then exit 4; fi
    truncate -s "$1" "$journal"
    if ! printf '%s\n' "$line" | dd of="$journal" oflag=append conv=notrunc,fsync status=none; then
      truncate -s "$1" "$journal"
      exit 5
    fi
    ;;
  copy) # OWNER; an archive
    mkdir -p "$state/copies/$1"
    unpack "$state/copies/$1" fast
    ;;
  copied) # OWNER; the copy of the journal
    if [ -f "$state/copies/$1/journal.jsonl" ]; then cat "$state/copies/$1/journal.jsonl"; fi
    ;;
  copies)
    for found in "$state/copies/$name"-* "$folder/journal.jsonl"; do
      if [ -e "$found" ]; then echo "$found"; fi
    done
    ;;
  take) # LOCK OVER; who takes it. OVER: the number of one that may be taken over
    guard
    now=$(held)
    if [ -n "$now" ] && [ "$now" != "$1" ] && [ "$now" != "$2" ]; then
      cat "$folder/lock"
      exit 3
    fi
    { echo "$1"; cat; } >"$folder/.lock"
    sync "$folder/.lock"
    mv -f "$folder/.lock" "$folder/lock"
    ;;
  release) # LOCK
    guard
    if [ "$(held)" = "$1" ]; then rm -f "$folder/lock"; fi
    ;;
  owner)
    if [ -f "$folder/lock" ]; then cat "$folder/lock"; fi
    ;;
esac
