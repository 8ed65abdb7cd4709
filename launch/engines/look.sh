#!/bin/sh
# How the process with the number $1 is, with all its descendants. One line, or none when it is gone: its number, when it
# began in ticks, the processor's ticks that all of them took, ticks a second, 1 when one waits for a disk, and what is
# held: the number of a process that a signal stopped, `frozen` for a paused container, else 0.
set -u
export LC_ALL=C
cat /proc/[0-9]*/stat 2>/dev/null | awk -v root="$1" -v second="$(getconf CLK_TCK)" '
  # The name, in parentheses, may have spaces and parentheses.
  match($0, /^[0-9]+ \(/) {
    pid = substr($0, 1, RLENGTH - 2)
    rest = $0
    sub(/^.*\) /, "", rest)
    split(rest, field, " ")
    state[pid] = field[1]
    parent[pid] = field[2]
    # Of children that ended too.
    ticks[pid] = field[12] + field[13] + field[14] + field[15]
    began[pid] = field[20]
  }
  END {
    if (!(root in parent) || state[root] == "Z") exit
    for (pid in parent) {
      for (above = pid; above != root && above in parent; above = parent[above]);
      if (above != root) continue
      sum += ticks[pid]
      if (state[pid] == "D") disk = 1
      if (state[pid] == "T") held = pid
    }
    while ((getline line < ("/proc/" root "/cgroup")) > 0) {
      split(line, part, ":")
      place = line
      sub(/^[^:]*:[^:]*:/, "", place)
      file = ""
      if (part[2] ~ /(^|,)freezer(,|$)/) file = "/sys/fs/cgroup/freezer" place "/freezer.state"
      if (part[1] == "0") file = "/sys/fs/cgroup" place "/cgroup.freeze"
      if (file != "" && (getline word < file) > 0 && (word == "FROZEN" || word == "FREEZING" || word == "1")) held = "frozen"
    }
    print root, began[root], sum + 0, second, disk + 0, held == "" ? 0 : held
  }
'
