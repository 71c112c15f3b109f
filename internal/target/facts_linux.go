package target

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const maxOSRelease = 64 << 10 // bytes; the file is some hundred

// systemFacts are those that each system tells in its own way. One that it does not tell is left out.
func systemFacts() map[string]any {
	f := map[string]any{}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		f["kernel"] = unix.ByteSliceToString(u.Release[:])
	}
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) == nil {
		f["memory"] = uint64(s.Totalram) * uint64(s.Unit) // bytes
	}
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		for key, value := range osRelease(io.LimitReader(file, maxOSRelease)) {
			f[key] = value
		}
		file.Close()
		break
	}
	return f
}

// osReleaseKeys are the keys of os-release that become facts.
var osReleaseKeys = map[string]string{"ID": "distribution", "VERSION_ID": "distribution_version", "PRETTY_NAME": "distribution_name"}

func osRelease(r io.Reader) map[string]any {
	f := map[string]any{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		key, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), "=")
		name := osReleaseKeys[key]
		if !ok || name == "" {
			continue
		}
		if plain, err := strconv.Unquote(value); err == nil {
			value = plain
		}
		f[name] = strings.Trim(value, "'")
	}
	return f
}
