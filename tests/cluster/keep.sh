#!/usr/bin/env bash
# Runs one program of the cluster, again when it ends, and dies with its parent:  keep.sh STATE NAME COMMAND...
# While the file hold/NAME is there, the program is not started.
S=$1 name=$2
shift 2
for _ in $(seq 100); do
	while [ -e "$S/hold/$name" ]; do sleep 0.05; done
	setpriv --pdeathsig KILL "$@" </dev/null >>"$S/log/$name.log" 2>&1 &
	echo $! >"$S/pid/$name.new" && mv "$S/pid/$name.new" "$S/pid/$name"
	wait $!
	sleep 0.1
done
