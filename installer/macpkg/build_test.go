package macpkg

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// installed is what the package installs, written out by hand: mode and path, and where a link points.
var installed = strings.Fields(`
	40755 .
	40755 ./Library
	40755 ./Library/LaunchDaemons
	100644 ./Library/LaunchDaemons/io.pace.node.plist
	100644 ./Library/LaunchDaemons/io.pace.node.rotate.plist
	40755 ./opt
	40755 ./opt/pace-node
	40755 ./opt/pace-node/bin
	100755 ./opt/pace-node/bin/pace-node
	100755 ./opt/pace-node/bin/pace-node-uninstall
	120755 ./opt/pace-node/bin/pacectl>pace-node
	40755 ./opt/pace-node/libexec
	100644 ./opt/pace-node/libexec/launchd.sh
	100755 ./opt/pace-node/libexec/rotate-log
	40755 ./opt/pace-node/share
	100644 ./opt/pace-node/share/LICENSE
	40755 ./opt/pace-node/share/man
	40755 ./opt/pace-node/share/man/man1
	100644 ./opt/pace-node/share/man/man1/pacectl.1
	40755 ./opt/pace-node/share/man/man8
	100644 ./opt/pace-node/share/man/man8/pace-node.8
	100644 ./opt/pace-node/share/pace-node.env
	40755 ./private
	40755 ./private/etc
	40755 ./private/etc/manpaths.d
	100644 ./private/etc/manpaths.d/io.pace.node
`)

func checkPayload(p Plan) error {
	list, err := Payload(p)
	if err != nil {
		return err
	}
	var got []string
	for _, e := range list {
		name := e.Path
		if e.Link != "" {
			name += ">" + e.Link
		}
		got = append(got, fmt.Sprintf("%o", e.Mode), name)
		if e.UID != 0 || e.GID != 0 || e.MTime != made {
			return fmt.Errorf("%s: owner %d:%d, time %d", e.Path, e.UID, e.GID, e.MTime)
		}
		if e.Mode&typeMask == typeFile && len(e.Data) == 0 {
			return fmt.Errorf("%s is empty", e.Path)
		}
	}
	if !slices.Equal(got, installed) {
		return fmt.Errorf("got %v", got)
	}
	return nil
}

func TestPayload(t *testing.T) {
	if err := checkPayload(plan(t)); err != nil {
		t.Error(err)
	}
}

func TestMutationPayload(t *testing.T) {
	p := plan(t)
	for i, r := range payload {
		for what, changed := range map[string]row{
			"mode": {r.path, r.mode ^ 0o020, r.from},
			"path": {r.path + "x", r.mode, r.from},
		} {
			payload[i] = changed
			if checkPayload(p) == nil {
				t.Errorf("%s with another %s goes unseen", r.path, what)
			}
		}
		payload[i] = r
	}
}

// TestRoundTrip reads a package back and finds what went in: every path, mode, owner, time, size, byte and link.
func TestRoundTrip(t *testing.T) {
	p := plan(t)
	want, err := Payload(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Open(built(t))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Payload, want) {
		t.Error("the payload that is read is not the one that was written")
	}
	if got.Version != "1.2.3.1000.5" {
		t.Errorf("version %q", got.Version)
	}
	if len(got.Bom) != len(installed)/2 {
		t.Errorf("the bill of materials has %d paths", len(got.Bom))
	}
	var names []string
	for _, m := range got.Members {
		names = append(names, m.Path)
		if m.UID != 0 || m.GID != 0 || m.MTime != made || m.Mode != map[bool]uint32{true: 0o755, false: 0o644}[m.Dir] {
			t.Errorf("%s: owner %d:%d, mode %o, time %d", m.Path, m.UID, m.GID, m.Mode, m.MTime)
		}
	}
	wantNames := []string{
		"Distribution", "Resources", "Resources/LICENSE", "Resources/conclusion.html",
		"pace-node.pkg", "pace-node.pkg/Bom", "pace-node.pkg/PackageInfo", "pace-node.pkg/Payload", "pace-node.pkg/Scripts",
	}
	if !slices.Equal(names, wantNames) {
		t.Errorf("members %v", names)
	}
	for i, want := range []string{"40755 .", "100755 ./postinstall", "100755 ./preinstall"} {
		if e := got.Scripts[i]; fmt.Sprintf("%o %s", e.Mode, e.Path) != want {
			t.Errorf("script %o %s, not %s", e.Mode, e.Path, want)
		}
	}
}

func TestReproducible(t *testing.T) {
	first := built(t)
	if second, err := Build(plan(t)); err != nil || !bytes.Equal(first, second) {
		t.Errorf("two packages of one plan differ: %v", err)
	}
	later := plan(t)
	later.Made++
	if third, err := Build(later); err != nil || bytes.Equal(first, third) {
		t.Errorf("the time is not in it: %v", err)
	}
}

func TestBuildRefuses(t *testing.T) {
	_, arm64 := programs(t)
	unsigned, err := Universal(unsign(t, arm64))
	if err != nil {
		t.Fatal(err)
	}
	daemon := "io.pace.node.plist"
	for name, c := range map[string]struct {
		change func(*Plan)
		says   string
	}{
		"version":          {func(p *Plan) { p.Describe = "soon" }, `"soon" is no version`},
		"no program":       {func(p *Plan) { p.Binary = []byte("#!/bin/sh\n") }, "no universal program"},
		"thin program":     {func(p *Plan) { p.Binary = arm64 }, "no universal program"},
		"unsigned program": {func(p *Plan) { p.Binary = unsigned }, "arm64 is not signed"},
		"no license":       {func(p *Plan) { p.License = nil }, "LICENSE is empty"},
		"page":             {func(p *Plan) { p.Pages["../x.8"] = []byte("x") }, `"../x.8" is no page`},
		"empty page":       {func(p *Plan) { p.Pages["x.8"] = nil }, `"x.8" is no page`},
		"no data": {func(p *Plan) {
			p.Data = edited(t, func(name, text string) *string { return without(name, text, daemon) })
		}, daemon},
		"no resource": {func(p *Plan) {
			p.Data = edited(t, func(n, s string) *string { return without(n, s, "Resources/conclusion.html") })
		}, "conclusion.html"},
		"no script": {func(p *Plan) {
			p.Data = edited(t, func(n, s string) *string { return without(n, s, "scripts/postinstall") })
		}, "postinstall"},
		"placeholder": {func(p *Plan) { p.Data = replacing(t, "Distribution", "@ARCHS@", "@NOTHING@") }, "@NOTHING@"},
		"label":       {func(p *Plan) { p.Data = replacing(t, daemon, "<string>io.pace.node<", "<string>io.pace.nod<") }, "has the label io.pace.nod"},
		"daemon's program": {func(p *Plan) {
			p.Data = replacing(t, daemon, "/opt/pace-node/bin/pace-node", "/usr/local/bin/pace-node")
		}, "no program of the payload"},
		"starts a folder": {func(p *Plan) { p.Data = replacing(t, daemon, "/opt/pace-node/bin/pace-node", "/opt/pace-node/bin") }, "no program of the payload"},
		"starts nothing":  {func(p *Plan) { p.Data = replacing(t, daemon, "ProgramArguments", "Program") }, "starts nothing"},
		"plist":           {func(p *Plan) { p.Data = replacing(t, daemon, "</dict>", "") }, daemon},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(t)
			c.change(&p)
			_, err := Build(p)
			if !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func without(name, text, left string) *string {
	if name == left {
		return nil
	}
	return &text
}

// TestOpenSees changes one part of a good package at a time.
func TestOpenSees(t *testing.T) {
	good, err := ReadXar(built(t))
	if err != nil {
		t.Fatal(err)
	}
	// again packs members with one of them changed, or left out where the change is nil.
	again := func(t *testing.T, name string, change func([]byte) []byte) []byte {
		var members []Member
		found := false
		for _, m := range good {
			if m.Path == name {
				found = true
				if m.Data = change(m.Data); m.Data == nil {
					continue
				}
			}
			members = append(members, m)
		}
		if !found {
			t.Fatalf("there is no %s", name)
		}
		out, err := WriteXar(members, made)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	swap := func(old, with string) func([]byte) []byte {
		return func(b []byte) []byte {
			if !bytes.Contains(b, []byte(old)) {
				t.Fatalf("there is no %q", old)
			}
			return bytes.ReplaceAll(b, []byte(old), []byte(with))
		}
	}
	gone := func([]byte) []byte { return nil }
	repack := func(change func([]Entry) []Entry) func([]byte) []byte {
		return func(b []byte) []byte {
			list, err := unpacked(b)
			if err != nil {
				t.Fatal(err)
			}
			out, err := packed(change(list))
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
	info, payload, scripts := Component+"/PackageInfo", Component+"/Payload", Component+"/Scripts"
	for name, c := range map[string]struct {
		member string
		change func([]byte) []byte
		says   string
	}{
		"no payload":     {payload, gone, "Payload"},
		"no scripts":     {scripts, gone, "Scripts"},
		"no bom":         {Component + "/Bom", gone, "bom"},
		"no info":        {info, gone, "PackageInfo"},
		"no description": {"Distribution", gone, "Distribution"},
		"no license":     {"Resources/LICENSE", gone, `shows "LICENSE"`},
		"files":          {info, swap(`numberOfFiles="26"`, `numberOfFiles="27"`), "counts 27 files"},
		"size":           {info, swap(`installKBytes="`, `installKBytes="1`), "KiB"},
		"identifier":     {info, swap(Label, "io.pace.other"), "installs"},
		"location":       {info, swap(`location="/"`, `location="/tmp"`), "installs"},
		"version":        {info, swap("1.2.3.1000.5", "1.2.3.1000.6"), "Distribution does not name"},
		"reference":      {"Distribution", swap("#pace-node.pkg", "#other.pkg"), "Distribution does not name"},
		"processors":     {"Distribution", swap("x86_64,arm64", "x86_64"), "asks for x86_64"},
		"macOS":          {"Distribution", swap(`min="`, `min="1`), "and macOS 1"},
		"script":         {info, swap("./postinstall", "./postinstal"), "no script"},
		"script's mode":  {scripts, repack(func(l []Entry) []Entry { l[1].Mode &^= 0o111; return l }), "no script"},
		"script's shell": {scripts, repack(func(l []Entry) []Entry { l[1].Data = l[1].Data[1:]; return l }), "no script"},
		"a byte more": {payload, repack(func(l []Entry) []Entry {
			l[len(l)-1].Data = append(slices.Clone(l[len(l)-1].Data), 'x')
			return l
		}), "bill of materials"},
		"a path more": {payload, repack(func(l []Entry) []Entry {
			return append(l, Entry{Path: "./opt/x", Mode: typeFile | 0o644})
		}), "./opt/x is in the payload and not"},
		"a path less": {payload, repack(func(l []Entry) []Entry { return l[:len(l)-1] }), "and not in the payload"},
		"an owner":    {payload, repack(func(l []Entry) []Entry { l[3].UID = 501; return l }), "bill of materials"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(again(t, c.member, c.change))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCompareSees changes each fact of each listed path.
func TestCompareSees(t *testing.T) {
	p, err := Open(built(t))
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string]func(*BomEntry){
		"path": func(b *BomEntry) { b.Path += "x" }, "mode": func(b *BomEntry) { b.Mode ^= 1 }, "owner": func(b *BomEntry) { b.UID++ },
		"group": func(b *BomEntry) { b.GID++ }, "time": func(b *BomEntry) { b.MTime++ }, "size": func(b *BomEntry) { b.Size++ },
		"checksum": func(b *BomEntry) { b.Checksum++ }, "link": func(b *BomEntry) { b.Link += "x" },
	}
	for i := range p.Bom {
		for what, change := range changes {
			bom := slices.Clone(p.Bom)
			change(&bom[i])
			if !errors.Is(Compare(p.Payload, bom), ErrDiffers) {
				t.Errorf("another %s of %s goes unseen", what, p.Bom[i].Path)
			}
		}
	}
}

// TestDataIsPacked: each file of packaging/macos is in the package or fills a part of it.
func TestDataIsPacked(t *testing.T) {
	used := map[string]bool{"Distribution": true, "PackageInfo": true}
	for _, r := range slices.Concat(payload, scripts) {
		used[r.from] = true
	}
	for _, name := range resources {
		used["Resources/"+name] = true
	}
	err := fs.WalkDir(data, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !used[name] {
			t.Errorf("%s is packed nowhere", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
