#!/bin/sh
# Static checks of the packages: lint.sh FOLDER, where make packages left them. Every tool that is missing is named first.
set -eu

dist=${1:?the folder with the packages}
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"

missing=
for tool in lintian rpmlint rpm shellcheck systemd-analyze dpkg-deb rpm2cpio cpio msiinfo; do
	command -v $tool >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
	echo "lint-packages: not installed:$missing" >&2
	echo "lint-packages: apt-get install --no-install-recommends lintian rpmlint rpm shellcheck systemd cpio dpkg msitools" >&2
	exit 2
fi
ls "$dist"/pace-node*.deb "$dist"/pace-node*.rpm >/dev/null || {
	echo "lint-packages: $dist has no packages: run make packages" >&2
	exit 2
}

# machine lists what the packages would put on this machine: no check may do that.
machine() {
	ls -ldn --time-style=full-iso /etc/default/pace-node /etc/pace-node /etc/ufw/applications.d/pace-node /usr/bin/pace-node /usr/bin/pacectl \
		/usr/lib/systemd/system/pace-node* /usr/lib/sysusers.d/pace-node* /usr/libexec/pace-node /usr/share/pace-node /usr/share/doc/pace-node \
		/usr/share/licenses/pace-node /var/lib/pace-node 2>/dev/null || :
}
before=$(machine)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
fail() {
	echo "lint-packages: $*" >&2
	failed=1
}

echo "== shellcheck"
shellcheck -x -e SC1091,SC2119 -s sh packaging/linux/store-settings packaging/linux/deb/config packaging/linux/deb/postinst \
	packaging/linux/deb/prerm packaging/linux/deb/postrm packaging/linux/rpm/* test/packages/lint.sh test/packages/prepare.sh ||
	fail "shellcheck found something"
shellcheck -s bash -e SC2207 test/packages/hosts.sh packaging/linux/completions/pace-node.bash || fail "shellcheck found something"

echo "== checksums"
(cd "$dist" && sha256sum --quiet -c SHA256SUMS) || fail "SHA256SUMS differs from the files"

echo "== size"
for deb in "$dist"/pace-node*.deb; do
	size=$(stat -c %s "$deb")
	[ "$size" -le 8388608 ] || fail "$deb has $size bytes, more than 8 MB"
	rm -rf "$scratch/size" && dpkg-deb -x "$deb" "$scratch/size"
	size=$(stat -c %s "$scratch/size/usr/bin/pace-node")
	[ "$size" -le 20971520 ] || fail "the program in $deb has $size bytes, more than 20 MB"
	echo "$size bytes of program in $deb"
done
for msi in "$dist"/pace-node*.msi; do
	size=$(msiinfo export "$msi" File | awk -F'\t' '$1 == "pace_node.exe" { print $4 }')
	[ "${size:-20971521}" -le 20971520 ] || fail "the program in $msi has $size bytes, more than 20 MB"
	echo "$size bytes of program in $msi"
done

# systemd-analyze verify exits 0 on an unknown key, so any output fails. It wants the program and the man page in place.
echo "== systemd-analyze"
for deb in "$dist"/pace-node*_amd64.deb; do
	dpkg-deb -x "$deb" "$scratch/deb"
done
# Where this machine has the package, or a service of that name, it would be read instead.
mkdir -p "$scratch/unit"
for unit in "$scratch"/deb/usr/lib/systemd/system/*; do
	sed "s#/usr/bin/pace-node#$scratch/deb&#g; s#/usr/libexec/pace-node/#$scratch/deb&#g" "$unit" >"$scratch/unit/${unit##*/}"
done
said=$(MANPATH="$scratch/deb/usr/share/man" systemd-analyze verify "$scratch"/unit/* 2>&1 || true)
[ -z "$said" ] || fail "systemd-analyze verify: $said"
for unit in pace-node.service pace-node-upgrade.service; do
	systemd-analyze security --no-pager --offline=true --threshold=15 "$scratch/unit/$unit" >"$scratch/score" || fail "the sandbox of $unit is weaker than 1.5"
done
# What others do for the service, with its privileges or more, is scored for the reader.
for unit in "$scratch"/unit/*.service; do
	systemd-analyze security --no-pager --offline=true "$unit" | tail -n 1
done
systemd-sysusers --dry-run --root="$scratch/deb" >/dev/null 2>"$scratch/sysusers" || fail "sysusers: $(cat "$scratch/sysusers")"

# Overridden tags are argued in packaging/linux/lintian-overrides. Warnings are printed and do not fail.
echo "== lintian"
lintian --fail-on error --allow-root --tag-display-limit 0 "$dist"/pace-node*.deb || fail "lintian found an error"

# rpmlint unpacks a package with plain cpio -id: as root, a name that begins with a slash would be put in place on this machine.
echo "== rpmlint"
for rpm in "$dist"/pace-node*.rpm; do
	if rpm2cpio "$rpm" | cpio -it --quiet | grep -v '^\./'; then
		echo "lint-packages: $rpm has these names in its archive, which should begin with ./" >&2
		exit 1
	fi
done
status=0
rpmlint -c packaging/linux/rpmlint.toml "$dist"/pace-node*.rpm >"$scratch/rpmlint" 2>&1 || status=$?
cat "$scratch/rpmlint"
[ $status -eq 0 ] || fail "rpmlint found an error"
grep -q ' 0 errors' "$scratch/rpmlint" || fail "rpmlint does not say that there are no errors"

[ "$(machine)" = "$before" ] || fail "the checks changed this machine; before them it had:
$before
and after them:
$(machine)"

[ $failed -eq 0 ] && echo "lint-packages: nothing to mend"
exit $failed
