#!/usr/bin/env bash
# Clears a slot when its guard is killed:  undertaker.sh BASE LEVEL SLOT
# The kernel tells it of the guard's death; until it is done, it holds the slot's lock, which it inherits.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
base=$1 level=$2
PATH=$PATH:/usr/sbin:/sbin
. "$here/slots.sh"
slot_of "$3"
sleep infinity 9>&- &
trap 'kill $!; clear_slot "$slot"; exit 0' TERM
wait
