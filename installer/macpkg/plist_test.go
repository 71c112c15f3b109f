package macpkg

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// daemonPlists are what launchd is told, written out by hand.
var daemonPlists = map[string]map[string]any{
	"io.pace.node.plist": {
		"Label":              "io.pace.node",
		"ProgramArguments":   []any{"/opt/pace-node/bin/pace-node"},
		"UserName":           "root",
		"GroupName":          "wheel",
		"Umask":              int64(0o077),
		"WorkingDirectory":   "/",
		"RunAtLoad":          true,
		"KeepAlive":          map[string]any{"SuccessfulExit": false},
		"ThrottleInterval":   int64(10),
		"ExitTimeOut":        int64(20),
		"ProcessType":        "Standard",
		"SoftResourceLimits": map[string]any{"NumberOfFiles": int64(16384)},
		"HardResourceLimits": map[string]any{"NumberOfFiles": int64(16384)},
		"StandardOutPath":    "/var/log/pace-node.log",
		"StandardErrorPath":  "/var/log/pace-node.log",
	},
	"io.pace.node.rotate.plist": {
		"Label":            "io.pace.node.rotate",
		"ProgramArguments": []any{"/opt/pace-node/libexec/rotate-log"},
		"UserName":         "root",
		"GroupName":        "wheel",
		"Umask":            int64(0o077),
		"StartInterval":    int64(3600),
		"ProcessType":      "Background",
		"LowPriorityIO":    true,
	},
}

func TestDaemonPlists(t *testing.T) {
	found, err := fs.Glob(data, "*.plist")
	if err != nil || len(found) != len(daemonPlists) {
		t.Fatalf("%v, %v", found, err)
	}
	for name, want := range daemonPlists {
		text, err := fs.ReadFile(data, name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadPlist(text); err != nil || !reflect.DeepEqual(got, any(want)) {
			t.Errorf("%s: %v\n%v", name, got, err)
		}
	}
}

// TestPlistsByOthers: Python's plistlib finds the same values, and plistutil, of libimobiledevice, reads the plists.
func TestPlistsByOthers(t *testing.T) {
	t.Run("plistlib", func(t *testing.T) {
		python := tool(t, "python3", "python3", "what plistlib makes of the plists")
		for name, want := range daemonPlists {
			file := filepath.Join("..", "..", "packaging", "macos", name)
			text := output(t, exec.Command(python, "-c", "import json,plistlib,sys; json.dump(plistlib.load(open(sys.argv[1],'rb')),sys.stdout)", file))
			wantText, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			var a, b any
			if json.Unmarshal([]byte(text), &a) != nil || json.Unmarshal(wantText, &b) != nil || !reflect.DeepEqual(a, b) {
				t.Errorf("%s: %s", name, text)
			}
		}
	})
	t.Run("plistutil", func(t *testing.T) {
		plistutil := tool(t, "plistutil", "libplist-utils", "what plistutil makes of the plists")
		for name := range daemonPlists {
			out := filepath.Join(t.TempDir(), "x.plist")
			// It ends with status 0 on a bad one too: what it wrote is looked at.
			said := output(t, exec.Command(plistutil, "-f", "xml", "-i", filepath.Join("..", "..", "packaging", "macos", name), "-o", out))
			text, err := os.ReadFile(out)
			if err != nil || said != "" {
				t.Fatalf("%s: %s, %v", name, said, err)
			}
			if got, err := ReadPlist(text); err != nil || !reflect.DeepEqual(got, any(daemonPlists[name])) {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
	})
}

func TestPlistRefuses(t *testing.T) {
	const head, tail = `<?xml version="1.0"?><plist version="1.0">`, `</plist>`
	for text, says := range map[string]string{
		"":                     "EOF",
		"<html></html>":        "begin with <plist>",
		head + tail:            "is empty",
		head + "<dict>" + tail: "syntax error",
		head + "<dict><string>a</string></dict>" + tail:                              "where a key is meant",
		head + "<dict><key>a</key></dict>" + tail:                                    "has no value",
		head + "<dict><key>a</key><true/><key>a</key><true/></dict>" + tail:          "comes twice",
		head + "<dict>text</dict>" + tail:                                            "text outside",
		head + "<integer>1x</integer>" + tail:                                        "the integer",
		head + "<date>2026-01-01T00:00:00Z</date>" + tail:                            "<date> is not read",
		head + "<true>no</true>" + tail:                                              "<true> with text",
		head + "<string>a<b/></string>" + tail:                                       "inside text",
		head + "<true/><true/>" + tail:                                               "follows the value",
		head + "<true/>" + tail + "x":                                                "follows </plist>",
		head + strings.Repeat("<array>", 40) + strings.Repeat("</array>", 40) + tail: "in one another",
	} {
		if _, err := ReadPlist([]byte(text)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
