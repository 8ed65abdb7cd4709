# How the process `root` is, with all its descendants. One line, or none when it is gone: its number, when it began in
# ticks, the processor's ticks (100 a second) that all of them took, 1 when one waits for a disk, and what is held: the
# number of a process that a signal stopped, `frozen` for a paused container, else 0.
# With `ask`, a second line: `resent` and how many packets the kernel has sent again so far. When that is another number
# than `ask`, a line for each of their connections whose other end does not confirm what was sent: address and port as
# /proc/net/tcp has them, and `own`, or `any` where it cannot be seen whose it is.
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
# How many packets were sent again in the network that the process is in. Columns have their names in the line before.
function again_so_far(   file, line, field, name, i, n) {
  file = "/proc/" root "/net/snmp"
  while ((getline line < file) > 0) {
    if (line !~ /^Tcp:/) continue
    n = split(line, field, " ")
    for (i = 2; i <= n; i++) if (name[i] == "RetransSegs") { close(file); return field[i] }
    split(line, name, " ")
  }
  close(file)
  return "?"
}
# By inode, the other end of connections that the kernel sends to again. To read the list takes milliseconds, also where
# it is short: the kernel looks through a table that is as large as the memory allows.
function resent(file,   line, field) {
  while ((getline line < file) > 0) {
    split(line, field, " ")
    if (field[4] != "06" && field[6] ~ /^01:/ && field[7] !~ /^0*$/) again[field[10]] = field[3]
  }
  close(file)
}
function unanswered(   inode, pid, command, line, seen, some) {
  resent("/proc/" root "/net/tcp")
  resent("/proc/" root "/net/tcp6")
  for (inode in again) some = 1
  if (!some) return
  for (pid in ours) {
    command = "ls -l /proc/" pid "/fd 2>/dev/null"
    while ((command | getline line) > 0) {
      if (line ~ / -> /) seen = 1
      if (!match(line, /socket:\[[0-9]+\]/)) continue
      inode = substr(line, RSTART + 8, RLENGTH - 9)
      if (inode in again) { print again[inode], "own"; delete again[inode] }
    }
    close(command)
  }
  if (!seen) for (inode in again) print again[inode], "any"
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
    ours[pid] = 1
    sum += ticks[pid]
    if (state[pid] == "D") disk = 1
    if (state[pid] == "T" && held == "") held = pid
  }
  print root, began[root], sum + 0, disk + 0, held == "" ? 0 : held
  if (ask != "") {
    so_far = again_so_far()
    print "resent", so_far
    if (so_far != ask) unanswered()
  }
}
