#!/bin/sh
# NVIDIA's own diagnosis of the GPUs of a node: `dcgmi diag -r 2` takes about 2 minutes, level 3 about 15.
# Exits with 1 only where a test has failed. Where DCGM is missing, or does not answer, the check cannot tell.
command -v dcgmi >/dev/null || { echo "dcgmi is not installed" >&2; exit 127; }
said=$(dcgmi diag -r "${DCGM_LEVEL:-2}" 2>&1)
status=$?
echo "$said" | grep -E '\|.*Fail' >&2 && exit 1
[ "$status" -eq 0 ] && exit 0
echo "$said" | tail -n 5 >&2
exit 2
