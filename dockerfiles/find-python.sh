# shellcheck shell=sh disable=SC2034,SC2086
# Sourced by the steps of an image build: sets `python` to the interpreter that runs vLLM in this image, and `site`
# to the folder where vLLM is installed. The program `vllm` knows best; an image may have several interpreters.
python='' site=''
for candidate in "$(sed -n '1s/^#!//p' "$(command -v vllm)" 2>/dev/null)" python3 python; do
  # Not quoted: a first line may be `/usr/bin/env python3`. Nothing is imported, only looked up.
  site=$($candidate -B -c 'import importlib.util as u, os; s = u.find_spec("vllm"); print(os.path.dirname(os.path.dirname(s.origin)))' 2>/dev/null) || continue
  python=$candidate
  break
done
if [ -z "$python" ]; then
  echo 'hallmark: no Python in this base image has vLLM — name an image with vLLM as the base' >&2
  exit 1
fi
