#!/bin/sh
# One node's model folder, read only. Words: FOLDER HASH; FOLDER may begin with ~; HASH is yes or no.
# Lines, their fields between tabs: `folder PATH`, `owner FOLDER'S ASKER'S`, `file SIZE PATH`, `time SECONDS PATH` (when it
# was written), `broken PATH TARGET`, `sha256 HEX PATH`, `sha1 HEX PATH` (git's of a blob, of small files), `unfinished` where
# a fetch did not end; then the index, what was fetched and when that was written, each on one line in base64.
set -u
export LC_ALL=C
folder=$1
case $folder in
  \~/*) folder=$HOME/${folder#\~/} ;;
esac
printf 'folder\t%s\n' "$folder"
cd "$folder" 2>/dev/null || exit 0
# A name with one would be several lines here; no model has such.
odd='*
*'
tab=$(printf '\t')
root=$(pwd -P)
printf 'there\t%s\n' "$root"
if [ -d .hallmark-parts ]; then printf 'unfinished\t\n'; fi
printf 'owner\t%s\t%s\n' "$(stat -L -c %u .)" "$(id -u)"
find . \( -path ./.hallmark-parts -o -name "$odd" \) -prune -o -type f ! -name '.hallmark-model.json*' -printf 'file\t%s\t%P\ntime\t%T@\t%P\n'
# A container sees the folder alone: what a link leads to must be in it.
find . \( -path ./.hallmark-parts -o -name "$odd" \) -prune -o -type l -print | while IFS= read -r link; do
  to=$(realpath -m -- "$link")
  case $to in
    "$root"/*)
      if [ -f "$to" ]; then
        printf 'file\t%s\t%s\n' "$(stat -L -c %s -- "$link")" "${link#./}"
        continue
      fi
      [ -d "$to" ] && continue
      ;;
  esac
  printf 'broken\t%s\t%s\n' "${link#./}" "$to"
done
for name in model.safetensors.index.json .hallmark-model.json .hallmark-model.json.times; do
  if [ -r "$name" ]; then printf '%s\t%s\n' "$name" "$(base64 -w 0 <"$name")"; fi
done
if [ "$2" = yes ]; then
  find -L . \( -path ./.hallmark-parts -o -name "$odd" \) -prune -o -type f ! -name '.hallmark-model.json*' -exec sha256sum {} + | while read -r hash path; do
    path=${path#\*}
    printf 'sha256\t%s\t%s\n' "$hash" "${path#./}"
  done
  # What hubs keep in git itself, of which they know no other hash.
  find -L . \( -path ./.hallmark-parts -o -name "$odd" \) -prune -o -type f -size -32768k ! -name '.hallmark-model.json*' -printf '%s\t%P\n' | while IFS= read -r line; do
    path=./${line#*"$tab"}
    printf 'sha1\t%s\t%s\n' "$({ printf 'blob %s\0' "${line%%"$tab"*}"; cat "$path"; } | sha1sum | cut -d ' ' -f 1)" "${path#./}"
  done
fi
