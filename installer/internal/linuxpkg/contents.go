package linuxpkg

import (
	"io/fs"
	"strings"

	"github.com/goreleaser/nfpm/v2/files"
)

// Formats are the packages that are built.
var Formats = []string{"deb", "rpm"}

// Architectures are the processors, as Go names them, and as each format does.
var Architectures = []struct{ Go, Deb, RPM string }{
	{"amd64", "amd64", "x86_64"},
	{"arm64", "arm64", "aarch64"},
}

// kind of a row.
const (
	kindFile   = ""                 // replaced by an upgrade
	kindConfig = "config|noreplace" // an administrator's edit stays
	kindLink   = "symlink"
	kindDir    = "dir"
)

// from says below which folder a row's source is.
type from int

const (
	packaging from = iota // packaging/linux
	made                  // made by this program
	text                  // it is the link's text
)

// row is one file of the packages.
type row struct {
	from from
	src  string
	dst  string
	kind string
	mode fs.FileMode
	only string // "" = both formats
}

// Contents is what goes where. Neither the state directory nor an account's files are in it: systemd makes the directory,
// at the first start, and nothing of it belongs to a package.
var contents = []row{
	{made, "pace-node", "/usr/bin/pace-node", kindFile, 0o755, ""},
	{text, "pace-node", "/usr/bin/pacectl", kindLink, 0, ""},
	{packaging, "pace-node.service", "/usr/lib/systemd/system/pace-node.service", kindFile, 0o644, ""},
	{packaging, "pace-node-hooks.path", "/usr/lib/systemd/system/pace-node-hooks.path", kindFile, 0o644, ""},
	{packaging, "pace-node-hooks.service", "/usr/lib/systemd/system/pace-node-hooks.service", kindFile, 0o644, ""},
	{packaging, "pace-node-upgrade.path", "/usr/lib/systemd/system/pace-node-upgrade.path", kindFile, 0o644, ""},
	{packaging, "pace-node-upgrade.service", "/usr/lib/systemd/system/pace-node-upgrade.service", kindFile, 0o644, ""},
	{packaging, "pace-node.preset", "/usr/lib/systemd/system-preset/80-pace-node.preset", kindFile, 0o644, "rpm"},
	{packaging, "pace-node.sysusers", "/usr/lib/sysusers.d/pace-node.conf", kindFile, 0o644, ""},
	{packaging, "store-settings", "/usr/libexec/pace-node/store-settings", kindFile, 0o755, ""},
	{packaging, "pace-node.default", "/etc/default/pace-node", kindConfig, 0o644, ""},
	{text, "", "/etc/pace-node", kindDir, 0o755, ""},
	{text, "", "/etc/pace-node/hooks.d", kindDir, 0o755, ""},
	{packaging, "pace-node.yaml", "/etc/pace-node/pace-node.yaml", kindConfig, 0o644, ""},
	{packaging, "firewalld/pace-node.xml", "/usr/lib/firewalld/services/pace-node.xml", kindFile, 0o644, ""},
	{packaging, "ufw/pace-node", "/etc/ufw/applications.d/pace-node", kindConfig, 0o644, ""},
	{packaging, "nftables/pace-node.nft", "/usr/share/pace-node/pace-node.nft", kindFile, 0o644, ""},
	{packaging, "nftables/pace-node-ports.nft", "/usr/share/pace-node/pace-node-ports.nft", kindFile, 0o644, ""},
	{packaging, "completions/pace-node.bash", "/usr/share/bash-completion/completions/pace-node", kindFile, 0o644, ""},
	{text, "pace-node", "/usr/share/bash-completion/completions/pacectl", kindLink, 0, ""},
	{packaging, "completions/_pace-node", "/usr/share/zsh/vendor-completions/_pace-node", kindFile, 0o644, "deb"},
	{packaging, "completions/_pace-node", "/usr/share/zsh/site-functions/_pace-node", kindFile, 0o644, "rpm"},
	{packaging, "completions/pace-node.fish", "/usr/share/fish/vendor_completions.d/pace-node.fish", kindFile, 0o644, ""},
	{packaging, "completions/pacectl.fish", "/usr/share/fish/vendor_completions.d/pacectl.fish", kindFile, 0o644, ""},
	{made, "pace-node.8.gz", "/usr/share/man/man8/pace-node.8.gz", kindFile, 0o644, ""},
	{made, "pacectl.1.gz", "/usr/share/man/man1/pacectl.1.gz", kindFile, 0o644, ""},
	{made, "changelog.gz", "/usr/share/doc/pace-node/changelog.gz", kindFile, 0o644, ""},
	{made, "changelog.Debian.gz", "/usr/share/doc/pace-node/changelog.Debian.gz", kindFile, 0o644, "deb"},
	{packaging, "copyright", "/usr/share/doc/pace-node/copyright", kindFile, 0o644, ""},
	{packaging, "lintian-overrides", "/usr/share/lintian/overrides/pace-node", kindFile, 0o644, "deb"},
	{made, "LICENSE", "/usr/share/licenses/pace-node/LICENSE", kindFile, 0o644, "rpm"},
}

// Scripts of a format, below packaging/linux.
var scripts = map[string]struct{ postinstall, preremove, postremove, config, templates string }{
	"deb": {"deb/postinst", "deb/prerm", "deb/postrm", "deb/config", "deb/templates"},
	"rpm": {"rpm/post", "rpm/preun", "rpm/postun", "", ""},
}

// Depends of a format. The deb's scripts make the account with what passwd has where systemd-sysusers is missing.
var depends = map[string][]string{
	"deb": {"debconf (>= 0.5) | debconf-2.0", "init-system-helpers (>= 1.52)", "passwd"},
	"rpm": {"/bin/sh", "systemd", "shadow-utils"},
}

// in gives each row its place on this machine.
func (r row) in(b *Build, format string) *files.Content {
	src := r.src
	switch r.from {
	case packaging:
		src = b.path("packaging", "linux", r.src)
	case made:
		src = b.temp(r.src)
	}
	c := &files.Content{Source: src, Destination: r.dst, Type: r.kind, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: r.mode, MTime: b.Time}}
	switch {
	case r.kind == kindDir:
		c.Source = ""
	case format == "rpm" && r.kind == kindFile && (strings.HasPrefix(r.dst, "/usr/share/doc/") || strings.HasPrefix(r.dst, "/usr/share/man/")):
		c.Type = files.TypeRPMDoc // rpm marks documentation, so that --nodocs leaves it out
	case format == "rpm" && strings.HasPrefix(r.dst, "/usr/share/licenses/"):
		c.Type = files.TypeRPMLicense
	}
	return c
}
