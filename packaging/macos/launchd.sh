# Functions over launchctl for postinstall and pace-node-uninstall. They expect say, and labels of the system's domain.
# shellcheck shell=sh

gone_seconds=40 # the plist's ExitTimeOut is 20

# running: whether there is a launchd to talk to. There is none in a folder that is made into an image.
launchd_runs() { launchctl print system >/dev/null 2>&1; }

loaded() { launchctl print "system/$1" >/dev/null 2>&1; }

# disabled: an administrator said `launchctl disable`. Before macOS 13 it reads true.
disabled() {
	launchctl print-disabled system 2>/dev/null | grep -E "\"$1\" => (disabled|true)" >/dev/null
}

# boot_out LABEL: ends it and waits until it is gone. Its own answer says little: a daemon that takes its time to end makes
# bootout say "Operation now in progress".
boot_out() {
	loaded "$1" || return 0
	launchctl bootout "system/$1" || :
	waited=0
	while loaded "$1"; do
		if [ "$waited" -ge "$gone_seconds" ]; then
			say "$1 did not end within $gone_seconds seconds"
			return 1
		fi
		sleep 1
		waited=$((waited + 1))
	done
}
