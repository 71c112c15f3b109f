package target

import "golang.org/x/sys/unix"

// systemFacts are those that each system tells in its own way. One that it does not tell is left out.
func systemFacts() map[string]any {
	f := map[string]any{"distribution": "macos"}
	for name, key := range map[string]string{"kernel": "kern.osrelease", "distribution_version": "kern.osproductversion"} {
		if v, err := unix.Sysctl(key); err == nil {
			f[name] = v
		}
	}
	if v, err := unix.SysctlUint64("hw.memsize"); err == nil {
		f["memory"] = v // bytes
	}
	return f
}
