package macpkg

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// A xar archive is a header, a compressed table of contents in XML, and a heap whose first bytes are the table's checksum.
const (
	xarMagic      = "xar!"
	xarHeaderSize = 28 // bytes
	xarVersion    = 1
	xarSHA1       = 1 // the header's number for it; the checksum that every macOS that installs flat packages verifies
	xarTime       = "2006-01-02T15:04:05Z"
)

// Member is a file or folder of a xar archive.
type Member struct {
	Path     string // clean, relative, with slashes
	Dir      bool
	Mode     uint32 // permissions
	UID, GID uint32
	MTime    int64 // seconds since 1970, UTC
	Data     []byte
}

// WriteXar writes members in their order, each folder before what is in it. Members are stored as they are: what is large
// in a package is compressed already. made is the second of 1970 that the table says it was made at.
func WriteXar(members []Member, made int64) ([]byte, error) {
	var heap bytes.Buffer
	heap.Write(make([]byte, sha1.Size))
	var toc bytes.Buffer
	toc.WriteString(xml.Header + "<xar>\n <toc>\n")
	fmt.Fprintf(&toc, "  <creation-time>%s</creation-time>\n", time.Unix(made, 0).UTC().Format(strings.TrimSuffix(xarTime, "Z")))
	fmt.Fprintf(&toc, "  <checksum style=\"sha1\">\n   <offset>0</offset>\n   <size>%d</size>\n  </checksum>\n", sha1.Size)
	var open []string // folders that are not closed
	seen := map[string]bool{}
	end := func(depth int) {
		for len(open) > depth {
			open = open[:len(open)-1]
			toc.WriteString(indent(len(open)) + "</file>\n")
		}
	}
	for i, m := range members {
		dir, name := path.Split(m.Path)
		if !xarPath(m.Path) || seen[m.Path] {
			return nil, fmt.Errorf("%w: %q is no path of an archive, or comes twice", ErrPlan, m.Path)
		}
		seen[m.Path] = true
		at := slices.Index(open, strings.TrimSuffix(dir, "/"))
		if dir == "" {
			at = -1
		} else if at < 0 {
			return nil, fmt.Errorf("%w: the folder of %s is missing right before it", ErrPlan, m.Path)
		}
		end(at + 1)
		in := indent(len(open))
		fmt.Fprintf(&toc, "%s<file id=\"%d\">\n", in, i+1)
		kind := "directory"
		if !m.Dir {
			kind = "file"
			sum := sha1.Sum(m.Data)
			text := hex.EncodeToString(sum[:])
			fmt.Fprintf(&toc, "%s <data>\n%[1]s  <length>%[2]d</length>\n%[1]s  <offset>%[3]d</offset>\n%[1]s  <size>%[2]d</size>\n", in, len(m.Data), heap.Len())
			fmt.Fprintf(&toc, "%s  <encoding style=\"application/octet-stream\"/>\n", in)
			fmt.Fprintf(&toc, "%s  <extracted-checksum style=\"sha1\">%s</extracted-checksum>\n", in, text)
			fmt.Fprintf(&toc, "%s  <archived-checksum style=\"sha1\">%s</archived-checksum>\n%[1]s </data>\n", in, text)
			heap.Write(m.Data)
		}
		fmt.Fprintf(&toc, "%s <mtime>%s</mtime>\n", in, time.Unix(m.MTime, 0).UTC().Format(xarTime))
		fmt.Fprintf(&toc, "%s <gid>%d</gid>\n%[1]s <uid>%[3]d</uid>\n%[1]s <mode>%04[4]o</mode>\n%[1]s <type>%[5]s</type>\n", in, m.GID, m.UID, m.Mode, kind)
		fmt.Fprintf(&toc, "%s <name>", in)
		if err := xml.EscapeText(&toc, []byte(name)); err != nil {
			return nil, err
		}
		toc.WriteString("</name>\n")
		open = append(open, m.Path)
		if !m.Dir {
			end(len(open) - 1)
		}
	}
	end(0)
	toc.WriteString(" </toc>\n</xar>\n")

	var packed bytes.Buffer
	z, err := zlib.NewWriterLevel(&packed, zlib.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(toc.Bytes()); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	sum := sha1.Sum(packed.Bytes())
	body := heap.Bytes()
	copy(body, sum[:])
	be := binary.BigEndian
	out := []byte(xarMagic)
	out = be.AppendUint16(out, xarHeaderSize)
	out = be.AppendUint16(out, xarVersion)
	out = be.AppendUint64(out, uint64(packed.Len()))
	out = be.AppendUint64(out, uint64(toc.Len()))
	out = be.AppendUint32(out, xarSHA1)
	return slices.Concat(out, packed.Bytes(), body), nil
}

func indent(depth int) string { return strings.Repeat(" ", depth+2) }

func xarPath(p string) bool {
	return p != "" && p == path.Clean(p) && p != "." && p != ".." && p[0] != '/' && !strings.HasPrefix(p, "../") && !strings.ContainsRune(p, 0)
}
