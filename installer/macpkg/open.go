package macpkg

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxUnpacked is how many bytes a payload may have unpacked when it is read.
const maxUnpacked = 1 << 30

// Package is a package that was read.
type Package struct {
	Members []Member
	Version string // of PackageInfo
	Payload []Entry
	Scripts []Entry
	Bom     []BomEntry
}

type packageInfo struct {
	XMLName    xml.Name `xml:"pkg-info"`
	Identifier string   `xml:"identifier,attr"`
	Version    string   `xml:"version,attr"`
	Location   string   `xml:"install-location,attr"`
	Auth       string   `xml:"auth,attr"`
	Payload    struct {
		Files  int `xml:"numberOfFiles,attr"`
		KBytes int `xml:"installKBytes,attr"`
	} `xml:"payload"`
	Scripts struct {
		Pre  script `xml:"preinstall"`
		Post script `xml:"postinstall"`
	} `xml:"scripts"`
}

type script struct {
	File string `xml:"file,attr"`
}

type distribution struct {
	XMLName xml.Name `xml:"installer-gui-script"`
	Title   string   `xml:"title"`
	Options struct {
		Archs string `xml:"hostArchitectures,attr"`
	} `xml:"options"`
	Minimum struct {
		Min string `xml:"min,attr"`
	} `xml:"volume-check>allowed-os-versions>os-version"`
	Refs []struct {
		ID      string `xml:"id,attr"`
		Version string `xml:"version,attr"`
		Text    string `xml:",chardata"`
	} `xml:"pkg-ref"`
	License    named `xml:"license"`
	Conclusion named `xml:"conclusion"`
}

type named struct {
	File string `xml:"file,attr"`
}

func differs(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDiffers}, args...)...)
}

// Open reads a package and checks that its parts agree: every checksum, the bill of materials with the payload, the counts,
// the scripts, the package that Distribution names, and the program with what Distribution asks of the Mac.
func Open(data []byte) (*Package, error) {
	members, err := ReadXar(data)
	if err != nil {
		return nil, err
	}
	out := &Package{Members: members}
	body := func(name string) []byte {
		for _, m := range members {
			if m.Path == name && !m.Dir {
				return m.Data
			}
		}
		return nil
	}
	if out.Payload, err = unpacked(body(Component + "/Payload")); err != nil {
		return nil, fmt.Errorf("the member Payload: %w", err)
	}
	if out.Scripts, err = unpacked(body(Component + "/Scripts")); err != nil {
		return nil, fmt.Errorf("the member Scripts: %w", err)
	}
	if out.Bom, err = ReadBom(body(Component + "/Bom")); err != nil {
		return nil, err
	}
	if err := Compare(out.Payload, out.Bom); err != nil {
		return nil, err
	}
	if err := daemons(out.Payload); err != nil {
		return nil, err
	}
	var info packageInfo
	if err := xml.Unmarshal(body(Component+"/PackageInfo"), &info); err != nil {
		return nil, fmt.Errorf("the member PackageInfo: %w: %w", ErrFormat, err)
	}
	if err := out.agrees(info); err != nil {
		return nil, err
	}
	var d distribution
	if err := xml.Unmarshal(body("Distribution"), &d); err != nil {
		return nil, fmt.Errorf("the member Distribution: %w: %w", ErrFormat, err)
	}
	for _, r := range []named{d.License, d.Conclusion} {
		if body("Resources/"+r.File) == nil {
			return nil, differs("Distribution shows %q, which is not in Resources", r.File)
		}
	}
	return out, out.described(d)
}

// agrees compares PackageInfo with payload and scripts.
func (p *Package) agrees(info packageInfo) error {
	total := 0
	for _, e := range p.Payload {
		total += len(e.body())
	}
	p.Version = info.Version
	switch {
	case info.Identifier != Label || info.Location != "/" || info.Auth != "root":
		return differs("PackageInfo installs %q at %q as %q", info.Identifier, info.Location, info.Auth)
	case info.Payload.Files != len(p.Payload) || info.Payload.KBytes != (total+1023)/1024:
		return differs("PackageInfo counts %d files and %d KiB, and there are %d and %d", info.Payload.Files, info.Payload.KBytes, len(p.Payload), (total+1023)/1024)
	}
	for _, s := range []script{info.Scripts.Pre, info.Scripts.Post} {
		at := slices.IndexFunc(p.Scripts, func(e Entry) bool { return e.Path == s.File })
		if at < 0 || p.Scripts[at].Mode&0o111 != 0o111 || !bytes.HasPrefix(p.Scripts[at].Data, []byte("#!/bin/sh\n")) {
			return differs("PackageInfo runs %q, which is no script of the package", s.File)
		}
	}
	return nil
}

// described compares Distribution with the package in it and the program in that.
func (p *Package) described(d distribution) error {
	found := false
	for _, r := range d.Refs {
		if strings.TrimSpace(r.Text) == "#"+Component && r.ID == Label {
			found = r.Version == p.Version
		}
	}
	if !found {
		return differs("Distribution does not name %s of version %s", Component, p.Version)
	}
	at := slices.IndexFunc(p.Payload, func(e Entry) bool { return e.Path == "./opt/pace-node/bin/pace-node" })
	if at < 0 {
		return differs("the program is missing")
	}
	prog, err := inspect(p.Payload[at].Data)
	if err != nil {
		return err
	}
	if d.Options.Archs != prog.hostArchitectures() || d.Minimum.Min != prog.minimum {
		return differs("Distribution asks for %s and macOS %s, and the program is for %s and %s", d.Options.Archs, d.Minimum.Min, prog.hostArchitectures(), prog.minimum)
	}
	return nil
}

// unpacked reads cpio in gzip.
func unpacked(data []byte) ([]Entry, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: gzip: %w", ErrFormat, err)
	}
	defer z.Close()
	archive, err := io.ReadAll(io.LimitReader(z, maxUnpacked+1))
	if err != nil {
		return nil, fmt.Errorf("%w: gzip: %w", ErrFormat, err)
	}
	if len(archive) > maxUnpacked {
		return nil, fmt.Errorf("%w: over %d bytes unpacked", ErrFormat, maxUnpacked)
	}
	return ReadCpio(archive)
}

// Compare tells the first difference between a payload and its bill of materials: every path, mode, owner, time, size,
// checksum and link.
func Compare(files []Entry, bom []BomEntry) error {
	listed := map[string]BomEntry{}
	for _, b := range bom {
		listed[b.Path] = b
	}
	for _, e := range files {
		want := BomEntry{Path: e.Path, Mode: e.Mode, UID: e.UID, GID: e.GID, MTime: e.MTime, Size: uint32(len(e.body())), Link: e.Link}
		if !e.dir() {
			want.Checksum = Cksum(e.body())
		}
		got, ok := listed[e.Path]
		switch {
		case !ok:
			return differs("%s is in the payload and not in the bill of materials", e.Path)
		case got != want:
			return differs("the payload has %+v, and the bill of materials %+v", want, got)
		}
		delete(listed, e.Path)
	}
	for name := range listed {
		return differs("%s is in the bill of materials and not in the payload", name)
	}
	return nil
}

func escape(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return ""
	}
	return b.String()
}
