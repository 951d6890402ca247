# Sourced by guard.sh: slots, their addresses and state folders, and their end.
# Sets: slot S (state folder) address service_cidr service_address pod_prefix other_address host_address cgroup link.

slot_of() { # N: everything that a slot's number gives
	slot=$1 S=$base/slot-$1 cgroup=modelway-test-$1 link=mwtest$1
	if [ "$level" = node ]; then
		pod_prefix=10.$((200 + slot))
		address=$pod_prefix.0.1 other_address=$pod_prefix.0.11 host_address=$pod_prefix.0.2
		service_cidr=$pod_prefix.128.0/20 service_address=$pod_prefix.128.1 dns_address=$pod_prefix.128.10
	else
		address=127.77.$slot.1 other_address=127.77.$slot.2 service_cidr=10.96.0.0/16 service_address=10.96.0.1
	fi
}
free() { # the slot's addresses are in nobody's use
	if [ "$level" = node ]; then
		[ -z "$(ip -4 route show match "$address" | grep -v ^default; ip -4 route show root "$pod_prefix.0.0/16")" ]
	else
		! (exec 5<>"/dev/tcp/$address/6443") 2>/dev/null
	fi
}
take_slot() {
	for n in $(seq 50); do
		slot_of "$n"
		exec 9>>"$base/slot-$n.lock"
		if flock -n 9; then
			clear_slot "$n"
			if free; then
				mkdir -p "$S"/{log,pid,hold,volumes}
				echo "$(date -u +%Y%m%dT%H%M%S)-$level-$slot" >"$S/name"
				return
			fi
		fi
		exec 9>&-
	done
	return 1
}
sweep_slots() { # what killed guards left
	local folder
	for folder in "$base"/slot-*/; do
		[ -d "$folder" ] || continue
		folder=${folder%/}
		(exec 9>>"$folder.lock"; ! flock -n 9 || { slot_of "${folder##*-}"; clear_slot "$slot"; })
	done
}

lives() { # PID: the process is still one of this slot
	{ tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null | grep -q -e "$S[/ ]"
}
clear_slot() { # N
	trap '' TERM HUP INT
	trap - EXIT
	[ -e "$S" ] || return 0
	local pids=() pid
	for pid in $(cat "$S"/pid/* 2>/dev/null); do ! lives "$pid" || pids+=("$pid"); done
	[ ${#pids[@]} = 0 ] || kill -9 "${pids[@]}" 2>/dev/null
	for pid in ${pids[@]+"${pids[@]}"}; do
		for _ in $(seq 100); do lives "$pid" || break; sleep 0.05; done
	done
	[ ! -e "$S/machine" ] || { clear_cgroups; ip link del "$link" 2>/dev/null; }
	keep_logs
	rm -rf --one-file-system "$S"
}
clear_cgroups() { # the namespaces took along all but these
	local folder left
	for _ in $(seq 100); do
		left=
		for folder in /sys/fs/cgroup/"$cgroup" /sys/fs/cgroup/*/"$cgroup"; do
			[ -d "$folder" ] || continue
			find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || left=yes
		done
		[ -n "$left" ] || return 0
		sleep 0.05
	done
}
kept_logs() { echo "$base/logs/$(cat "$S/name")"; }
keep_logs() { # the last ten
	[ -e "$S/keep" ] || return 0
	mkdir -p "$base/logs"
	mv "$S/log" "$(kept_logs)"
	ls -dt "$base"/logs/* | tail -n +11 | xargs -r rm -rf
}
