package macpkg

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	xarMaxTOC    = 16 << 20 // bytes of the table of contents, read at most
	xarMaxMember = 1 << 30  // bytes of one member, read at most
	xarMaxDepth  = 32       // folders in folders, read at most
)

// xarKind is a checksum of the table of contents: the header's number, the table's word, bytes.
type xarKind struct {
	number uint32
	style  string
	size   int
}

// xarKinds: the second is what signing a package makes of it.
var xarKinds = []xarKind{{xarSHA1, "sha1", sha1.Size}, {3, "sha256", sha256.Size}}

type xarDoc struct {
	TOC struct {
		Checksum *xarSum   `xml:"checksum"`
		Files    []xarFile `xml:"file"`
	} `xml:"toc"`
}

type xarSum struct {
	Style  string `xml:"style,attr"`
	Offset uint64 `xml:"offset"`
	Size   uint64 `xml:"size"`
	Text   string `xml:",chardata"`
}

type xarFile struct {
	Name struct {
		Encoding string `xml:"enctype,attr"`
		Text     string `xml:",chardata"`
	} `xml:"name"`
	Type  string    `xml:"type"`
	Mode  string    `xml:"mode"`
	UID   uint32    `xml:"uid"`
	GID   uint32    `xml:"gid"`
	MTime string    `xml:"mtime"`
	Data  *xarData  `xml:"data"`
	Files []xarFile `xml:"file"`
}

type xarData struct {
	Length   uint64 `xml:"length"` // in the heap
	Offset   uint64 `xml:"offset"`
	Size     uint64 `xml:"size"` // taken out
	Encoding struct {
		Style string `xml:"style,attr"`
	} `xml:"encoding"`
	Extracted xarSum `xml:"extracted-checksum"`
	Archived  xarSum `xml:"archived-checksum"`
}

func xarWrong(format string, args ...any) error {
	return fmt.Errorf("xar: %w: "+format, append([]any{ErrFormat}, args...)...)
}

// ReadXar reads an archive and verifies every checksum in it. Files and folders are read, stored or compressed with zlib;
// anything else is refused.
func ReadXar(data []byte) ([]Member, error) {
	be := binary.BigEndian
	if len(data) < xarHeaderSize || string(data[:4]) != xarMagic || be.Uint16(data[6:]) != xarVersion {
		return nil, xarWrong("no header of version %d", xarVersion)
	}
	headerSize, packed, plain := uint64(be.Uint16(data[4:])), be.Uint64(data[8:]), be.Uint64(data[16:])
	if headerSize < xarHeaderSize || headerSize > uint64(len(data)) || packed > uint64(len(data))-headerSize || plain > xarMaxTOC {
		return nil, xarWrong("a header of %d bytes and a table of %d, %d compressed, in %d bytes", headerSize, plain, packed, len(data))
	}
	kind := slices.IndexFunc(xarKinds, func(k xarKind) bool { return k.number == be.Uint32(data[24:]) })
	if kind < 0 {
		return nil, xarWrong("checksums of kind %d: 1, SHA-1, and 3, SHA-256, are read", be.Uint32(data[24:]))
	}
	tocPacked, heap := data[headerSize:headerSize+packed], data[headerSize+packed:]
	toc, err := inflate(tocPacked, plain)
	if err != nil {
		return nil, xarWrong("the table of contents: %w", err)
	}
	var doc xarDoc
	if err := xml.Unmarshal(toc, &doc); err != nil {
		return nil, xarWrong("the table of contents: %w", err)
	}
	c, size := doc.TOC.Checksum, uint64(xarKinds[kind].size)
	if c == nil || !strings.EqualFold(c.Style, xarKinds[kind].style) || c.Size != size || c.Offset > uint64(len(heap)) || size > uint64(len(heap))-c.Offset {
		return nil, xarWrong("the table of contents has no checksum")
	}
	c.Text = hex.EncodeToString(heap[c.Offset : c.Offset+size])
	if err := c.verify(tocPacked); err != nil {
		return nil, xarWrong("the table of contents: %w", err)
	}
	var out []Member
	if err := xarMembers(&out, map[string]bool{}, doc.TOC.Files, "", heap, 0); err != nil {
		return nil, err
	}
	return out, nil
}

func xarMembers(out *[]Member, seen map[string]bool, files []xarFile, folder string, heap []byte, depth int) error {
	if depth == xarMaxDepth {
		return xarWrong("over %d folders in one another", xarMaxDepth)
	}
	for _, f := range files {
		name := folder + f.Name.Text
		mode, err := strconv.ParseUint(f.Mode, 8, 12)
		if err != nil || f.Name.Encoding != "" || strings.Contains(f.Name.Text, "/") || !xarPath(name) || seen[name] {
			return xarWrong("%q with mode %q, or it comes twice", name, f.Mode)
		}
		seen[name] = true
		m := Member{Path: name, Mode: uint32(mode), UID: f.UID, GID: f.GID}
		if f.MTime != "" {
			t, err := time.Parse(xarTime, f.MTime)
			if err != nil {
				return xarWrong("%q is from %q", name, f.MTime)
			}
			m.MTime = t.Unix()
		}
		switch {
		case f.Type == "directory" && f.Data == nil:
			m.Dir = true
		case f.Type == "file" && len(f.Files) == 0:
			if m.Data, err = xarBody(f.Data, heap); err != nil {
				return xarWrong("%q: %w", name, err)
			}
		default:
			return xarWrong("%q is of type %q", name, f.Type)
		}
		*out = append(*out, m)
		if err := xarMembers(out, seen, f.Files, name+"/", heap, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// xarBody takes a member's bytes out of the heap. A file without data is empty.
func xarBody(d *xarData, heap []byte) ([]byte, error) {
	if d == nil {
		return nil, nil
	}
	if d.Offset > uint64(len(heap)) || d.Length > uint64(len(heap))-d.Offset || d.Size > xarMaxMember {
		return nil, fmt.Errorf("%d bytes at %d of %d, %d taken out", d.Length, d.Offset, len(heap), d.Size)
	}
	archived := heap[d.Offset : d.Offset+d.Length]
	if err := d.Archived.verify(archived); err != nil {
		return nil, err
	}
	body := archived
	switch d.Encoding.Style {
	case "", "application/octet-stream":
		if d.Length != d.Size {
			return nil, fmt.Errorf("%d bytes stored of %d", d.Length, d.Size)
		}
	case "application/x-gzip":
		var err error
		if body, err = inflate(archived, d.Size); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("encoding %q is not read", d.Encoding.Style)
	}
	if err := d.Extracted.verify(body); err != nil {
		return nil, err
	}
	return slices.Clip(body), nil
}

func (s xarSum) verify(data []byte) error {
	var got []byte
	switch strings.ToLower(s.Style) {
	case "sha1":
		sum := sha1.Sum(data)
		got = sum[:]
	case "sha256":
		sum := sha256.Sum256(data)
		got = sum[:]
	default:
		return fmt.Errorf("a checksum of style %q", s.Style)
	}
	if want := strings.TrimSpace(s.Text); !strings.EqualFold(want, hex.EncodeToString(got)) {
		return fmt.Errorf("the checksum is %x, and %.80q is told", got, want)
	}
	return nil
}

// inflate takes exactly size bytes out of a zlib stream.
func inflate(packed []byte, size uint64) ([]byte, error) {
	z, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	out, err := io.ReadAll(io.LimitReader(z, int64(size)+1))
	if err != nil {
		return nil, err
	}
	if uint64(len(out)) != size {
		return nil, fmt.Errorf("%d bytes or more, and %d are told", len(out), size)
	}
	return out, nil
}
