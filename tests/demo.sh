#!/bin/sh
# The main job on this machine: two slices of two nodes, each slice in one local rack, with real Ray.
# usage: demo.sh path/to/nvlaunch
set -eu
nvlaunch=$1
NVLAUNCH_HOME=$(mktemp -d "${TMPDIR:-/tmp}/nvdemo.XXXXXX")
export NVLAUNCH_HOME
unset NVLAUNCH_INVENTORY

finish() {
    status=$?
    trap - EXIT INT TERM
    "$nvlaunch" down --all -y >/dev/null 2>&1 || status=1
    rm -rf "$NVLAUNCH_HOME"
    if [ $status -eq 0 ]; then printf '\n== demo: all went well\n'; else printf '\n== demo: failed (%s)\n' $status >&2; fi
    exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

run() {
    printf '\n$ nvlaunch %s\n' "$*"
    "$nvlaunch" "$@"
}

run up -y -d examples/demo.yaml

printf '\n== waiting until all four ranks run (a Ray head and four Ray nodes start on this machine)\n'
patience=120
until "$nvlaunch" status demo | grep -q '4 of 4 ranks running'; do
    patience=$((patience - 1))
    if [ $patience -eq 0 ]; then run events demo; exit 1; fi
    sleep 1
done

run status
run racks
run logs demo --tail 3

printf '\n== where Ray itself has each slot\n'
run events demo | grep 'verified.*Ray has'

run down demo -y
run status
