package netio

import (
	"context"
	"os"
	"os/exec"
)

// DNSSuffix is this machine's own DNS suffix, empty if it has none. It is read anew at each call: DHCP changes it. The
// system's store of settings knows it best; the file is what it writes for programs of old.
func DNSSuffix(ctx context.Context) string {
	if out, err := exec.CommandContext(ctx, "/usr/sbin/scutil", "--dns").Output(); err == nil {
		if suffix := scutilSuffix(string(out)); suffix != "" {
			return suffix
		}
	}
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return ""
	}
	return resolvSuffix(string(text), "")
}
