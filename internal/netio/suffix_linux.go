package netio

import (
	"context"
	"os"
)

// DNSSuffix is this machine's own DNS suffix, empty if it has none. It is read anew at each call: DHCP changes it.
func DNSSuffix(context.Context) string {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return ""
	}
	host, _ := os.Hostname()
	return resolvSuffix(string(text), host)
}
