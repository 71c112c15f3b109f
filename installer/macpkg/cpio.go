package macpkg

import (
	"bytes"
	"fmt"
	"strconv"
)

// The portable ASCII format (odc): a header of octal fields, the name with a zero byte, the bytes.
const (
	cpioMagic   = "070707"
	cpioTrailer = "TRAILER!!!"
	cpioHeader  = 76          // bytes
	cpioBlock   = 512         // bytes: the archive is filled up to a whole number, as cpio does it
	cpioMaxName = 1024        // bytes: macOS's PATH_MAX
	cpioMaxRead = 1024 * 1024 // entries that are read at most
)

// cpioFields are the header's fields after the magic, in order, and how many octal digits each has.
var cpioFields = []struct {
	name   string
	digits int
}{
	{"dev", 6}, {"ino", 6}, {"mode", 6}, {"uid", 6}, {"gid", 6}, {"nlink", 6}, {"rdev", 6}, {"mtime", 11}, {"namesize", 6}, {"filesize", 11},
}

// WriteCpio writes entries in their order. Inodes count up, so that nothing is taken for a hard link.
func WriteCpio(entries []Entry) ([]byte, error) {
	var b bytes.Buffer
	put := func(name string, ino, mode, uid, gid, nlink, mtime uint64, body []byte) error {
		values := []uint64{0, ino, mode, uid, gid, nlink, 0, mtime, uint64(len(name)) + 1, uint64(len(body))}
		b.WriteString(cpioMagic)
		for i, f := range cpioFields {
			text := strconv.FormatUint(values[i], 8)
			if len(text) > f.digits {
				return fmt.Errorf("%w: %s has %s %d, which does not fit the archive", ErrPlan, name, f.name, values[i])
			}
			fmt.Fprintf(&b, "%0*s", f.digits, text)
		}
		b.WriteString(name)
		b.WriteByte(0)
		b.Write(body)
		return nil
	}
	for i, e := range entries {
		if !cleanPath(e.Path) || len(e.Path) >= cpioMaxName {
			return nil, fmt.Errorf("%w: %q is no path of a payload", ErrPlan, e.Path)
		}
		nlink := uint64(1)
		if e.dir() {
			nlink = 2
		}
		if err := put(e.Path, uint64(i)+1, uint64(e.Mode), uint64(e.UID), uint64(e.GID), nlink, uint64(e.MTime), e.body()); err != nil {
			return nil, err
		}
	}
	if err := put(cpioTrailer, 0, 0, 0, 0, 1, 0, nil); err != nil {
		return nil, err
	}
	if over := b.Len() % cpioBlock; over > 0 {
		b.Write(make([]byte, cpioBlock-over))
	}
	return b.Bytes(), nil
}

// ReadCpio reads an archive of that format. Files, folders and links are read; anything else in it is refused, and so are
// a path that leaves the archive and a path that comes twice.
func ReadCpio(data []byte) ([]Entry, error) {
	var out []Entry
	seen := map[string]bool{}
	for {
		h, name, body, rest, err := cpioNext(data)
		if err != nil {
			return nil, err
		}
		data = rest
		if name == cpioTrailer {
			if len(bytes.Trim(data, "\x00")) > 0 {
				return nil, fmt.Errorf("cpio: %w: %d bytes follow the trailer", ErrFormat, len(data))
			}
			return out, nil
		}
		e := Entry{Path: name, Mode: uint32(h["mode"]), UID: uint32(h["uid"]), GID: uint32(h["gid"])}
		if h["mtime"] > 1<<32-1 {
			return nil, fmt.Errorf("cpio: %w: %q is from second %d", ErrFormat, name, h["mtime"])
		}
		e.MTime = uint32(h["mtime"])
		switch {
		case !cleanPath(name):
			return nil, fmt.Errorf("cpio: %w: %q is no path of a payload", ErrFormat, name)
		case seen[name]:
			return nil, fmt.Errorf("cpio: %w: %q comes twice", ErrFormat, name)
		case len(out) == cpioMaxRead:
			return nil, fmt.Errorf("cpio: %w: more than %d entries", ErrFormat, cpioMaxRead)
		case e.dir() && len(body) > 0:
			return nil, fmt.Errorf("cpio: %w: the folder %q has bytes", ErrFormat, name)
		case e.dir():
		case e.link():
			e.Link = string(body)
		case e.Mode&typeMask == typeFile:
			e.Data = body
		default:
			return nil, fmt.Errorf("cpio: %w: %q has mode %o: neither file, folder nor link", ErrFormat, name, e.Mode)
		}
		seen[name] = true
		out = append(out, e)
	}
}

// cpioNext takes one entry off the front.
func cpioNext(data []byte) (header map[string]uint64, name string, body, rest []byte, err error) {
	if len(data) < cpioHeader {
		return nil, "", nil, nil, fmt.Errorf("cpio: %w: it ends inside a header", ErrFormat)
	}
	if string(data[:len(cpioMagic)]) != cpioMagic {
		return nil, "", nil, nil, fmt.Errorf("cpio: %w: no odc header: %q", ErrFormat, data[:len(cpioMagic)])
	}
	header = map[string]uint64{}
	at := len(cpioMagic)
	for _, f := range cpioFields {
		v, err := strconv.ParseUint(string(data[at:at+f.digits]), 8, 64)
		if err != nil {
			return nil, "", nil, nil, fmt.Errorf("cpio: %w: %s is %q", ErrFormat, f.name, data[at:at+f.digits])
		}
		header[f.name] = v
		at += f.digits
	}
	data = data[cpioHeader:]
	n, size := header["namesize"], header["filesize"]
	if n < 2 || n > cpioMaxName || n > uint64(len(data)) || data[n-1] != 0 {
		return nil, "", nil, nil, fmt.Errorf("cpio: %w: a name of %d bytes", ErrFormat, n)
	}
	name, data = string(data[:n-1]), data[n:]
	if size > uint64(len(data)) {
		return nil, "", nil, nil, fmt.Errorf("cpio: %w: %q says %d bytes, and %d are left", ErrFormat, name, size, len(data))
	}
	return header, name, data[:size:size], data[size:], nil
}
