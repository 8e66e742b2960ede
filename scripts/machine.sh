# Sourced by the benchmarks: what they say of the machine and of its state.

commit() { echo "$(git rev-parse --short HEAD)$(git diff --quiet HEAD -- || echo ', with changes')"; }

processor() {
	local model
	model=$(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo 2>/dev/null || true)
	echo "${model:-$(uname -m)}, $(getconf _NPROCESSORS_ONLN) cores$(grep -qw hypervisor /proc/cpuinfo 2>/dev/null && echo ', of a virtual machine, which may share them with others')"
}

system() { echo "$(. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME, ")$(uname -sr)"; }

# averages is how busy the machine has been.
averages() { cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || echo unknown; }

# ticks is the processors' time since boot: what the host of a virtual machine gave
# to others, and all of it.
ticks() { awk '/^cpu / { print $9, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9 }' /proc/stat 2>/dev/null || echo 0 0; }

# stolen BEFORE is the share that went to others since BEFORE, of ticks.
stolen() { echo "$1 $(ticks)" | awk '{ if ($4 > $2) printf "%.1f %%\n", 100 * ($3 - $1) / ($4 - $2); else print "unknown" }'; }

# polls says whether a core without work can be made to poll for some.
polls() { (: >/dev/cpu_dma_latency) 2>/dev/null && grep -qsx POLL /sys/devices/system/cpu/cpu0/cpuidle/state0/name; }
