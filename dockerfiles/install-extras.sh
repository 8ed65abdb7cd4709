# shellcheck shell=sh disable=SC2154,SC2086
# Sourced by the step that installs a build's extra packages, behind find-python.sh. The pip that comes with the wheels
# is used: an image may have none, or an old one. What was written gets the image's own time, so that two builds make
# the same layer; the stamp is below /dev, which is no part of the layer.
stamp=$(mktemp /dev/hallmark.XXXXXX)
$python -B /dev/hallmark/extras/pip.whl/pip --isolated install --quiet --no-input --disable-pip-version-check \
  --root-user-action ignore --break-system-packages --no-cache-dir --no-compile --no-index --no-deps \
  --find-links /dev/hallmark/extras --only-binary :all: --require-hashes \
  --requirement /dev/hallmark/extras/requirements.txt || exit 2
find / -xdev -newer "$stamp" -exec $python -B -c 'import os, sys
for path in sys.argv[1:]:
    os.utime(path, (int(os.environ["SOURCE_DATE_EPOCH"]),) * 2, follow_symlinks=False)' {} +
