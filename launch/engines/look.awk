# How the process `root` is, with all its descendants. One line, or none when it is gone: its number, when it began in
# ticks, the processor's ticks (100 a second) that all of them took, 1 when one waits for a disk, and what is held: the
# number of a process that a signal stopped, `frozen` for a paused container, else 0.
# One program that reads only what it needs: it runs on every node once a second while a group starts.
function stat(pid,   file, line, field) {
  file = "/proc/" pid "/stat"
  line = ""
  if ((getline line < file) <= 0) return 0
  close(file)
  # The name, in parentheses, may have spaces and parentheses.
  sub(/^.*\) /, "", line)
  split(line, field, " ")
  state[pid] = field[1]
  parent[pid] = field[2]
  # Of children that ended too.
  ticks[pid] = field[12] + field[13] + field[14] + field[15]
  began[pid] = field[20]
  return 1
}
BEGIN {
  if (!stat(root) || state[root] == "Z") exit
  file = "/proc/" root "/cgroup"
  while ((getline line < file) > 0) {
    split(line, part, ":")
    place = line
    sub(/^[^:]*:[^:]*:/, "", place)
    # The first version has a folder for each controller, the second one for all.
    if (part[2] ~ /(^|,)freezer(,|$)/) { group = "/sys/fs/cgroup/freezer" place; freezer = group "/freezer.state" }
    else if (part[1] == "0" && group == "") { group = "/sys/fs/cgroup" place; freezer = group "/cgroup.freeze" }
  }
  if (freezer != "" && (getline word < freezer) > 0 && (word == "FROZEN" || word == "FREEZING" || word == "1")) held = "frozen"
  if (group != "") while ((getline pid < (group "/cgroup.procs")) > 0) if (pid != root) stat(pid)
  for (pid in parent) {
    for (above = pid; above != root && above in parent; above = parent[above]);
    if (above != root) continue
    sum += ticks[pid]
    if (state[pid] == "D") disk = 1
    if (state[pid] == "T" && held == "") held = pid
  }
  print root, began[root], sum + 0, disk + 0, held == "" ? 0 : held
}
