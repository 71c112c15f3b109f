#!/bin/sh
# Makes what the tests of the packages start from, once: build/testhosts/rootfs, a Debian with systemd from this machine's
# own apt sources (again where the list of packages changed), and the packages under two versions, in build/testhosts/old
# and build/testhosts/new; in build/testhosts/next the deb of a version whose fleets know one change more. Needs root.
set -eu

include=systemd,systemd-sysv,dbus,iproute2,iputils-ping,nftables,procps,rpm,ufw,firewalld,libnss-myhostname
suite=bookworm

root=$(cd "$(dirname "$0")/../.." && pwd)
work=$root/build/testhosts
mkdir -p "$work"

missing=
for tool in mmdebstrap systemd-nspawn nsenter ip dnf createrepo_c rpmbuild /usr/lib/wine/wine64 x86_64-w64-mingw32-gcc wixl msibuild msiinfo; do
	command -v $tool >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
	echo "test-packages: not installed:$missing" >&2
	echo "test-packages: apt-get install --no-install-recommends mmdebstrap systemd-container iproute2 util-linux dnf createrepo-c rpm \\" >&2
	echo "test-packages:   wine64 gcc-mingw-w64-x86-64-win32 wixl msitools" >&2
	exit 2
fi
if [ "$(id -u)" != 0 ]; then
	echo "test-packages: booting systems needs root: run it with sudo" >&2
	exit 2
fi

# The first file that has Debian's own sources, in either form.
sources=
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
	if [ -z "$sources" ] && grep -qs debian "$file"; then
		sources=$file
	fi
done
# The packages are built beside: a Debian is mostly waited for.
made=
if [ "$(cat "$work/rootfs.of" 2>/dev/null)" != "$suite $include" ] || [ ! -d "$work/rootfs" ]; then
	rm -rf "$work/rootfs" "$work/rootfs.tmp" "$work/rootfs.of"
	mmdebstrap --variant=minbase --include="$include" --aptopt='Apt::Install-Recommends false' "$suite" "$work/rootfs.tmp" ${sources:+"$sources"} &
	made=$!
	trap 'kill $made 2>/dev/null || :' EXIT
fi

cd "$root/installer"
go build -o ../build/tools/mkpackages ./cmd/mkpackages
cd ..
make_packages() { build/tools/mkpackages -root . -arch amd64 "$@"; }
make_packages -version 0.0.1 -out "$work/old"
make_packages -version 0.0.2 -out "$work/new"
make_packages -version 0.0.3 -out "$work/next" -format deb -tags formatnext

if [ -n "$made" ]; then
	wait $made
	trap - EXIT
	mv "$work/rootfs.tmp" "$work/rootfs"
	echo "$suite $include" >"$work/rootfs.of"
fi
