package linuxpkg

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/ulikunitz/xz"
)

// Parts of an rpm, as rpm's own documentation of its format 4 has them.
const (
	rpmLead        = 96 // bytes before the signature header, which tell nothing any more
	rpmIntro       = 16 // magic and two counts
	rpmEntry       = 16 // tag, type, offset, count
	rpmSize        = 1000
	rpmSHA256      = 273
	rpmPayloadSum  = 5092
	rpmInt32       = 4
	rpmString      = 6
	rpmStringArray = 8

	cpioMagic = "070701" // SVR4's, without checksums
	cpioHead  = 110      // magic and thirteen numbers of eight digits
	cpioEnd   = "TRAILER!!!"
)

var (
	rpmMagic = []byte{0x8e, 0xad, 0xe8, 1}

	// ErrRPM is an rpm of another form than nfpm makes.
	ErrRPM = errors.New("this is no rpm as it is built here")
)

// relativeNames gives the files in the archive of an rpm the names that rpmbuild gives them: ./usr/bin/pace-node where nfpm
// writes /usr/bin/pace-node. rpm itself takes the names from its header, but whoever unpacks a package with rpm2cpio and cpio
// -id, as rpmlint does, as root, would put it in place on the machine. Errors: ErrRPM.
func relativeNames(rpm []byte) ([]byte, error) {
	signature, err := rpmHeader(rpm, rpmLead)
	if err != nil {
		return nil, err
	}
	header, err := rpmHeader(rpm, (signature.end+7)/8*8)
	if err != nil {
		return nil, err
	}
	plain, err := xz.NewReader(bytes.NewReader(rpm[header.end:]))
	if err != nil {
		return nil, fmt.Errorf("%w: its archive: %w", ErrRPM, err)
	}
	archive, err := io.ReadAll(plain)
	if err != nil {
		return nil, fmt.Errorf("%w: its archive: %w", ErrRPM, err)
	}
	if archive, err = renamed(archive); err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w, err := xz.NewWriter(&packed)
	if err == nil {
		_, err = w.Write(archive)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}

	// What is said of the archive: its checksum in the header, the header's in the signature, and how long both are.
	out := bytes.Clone(rpm[:header.end])
	set := func(in *rpmPart, tag, kind uint32, text []byte) {
		at, failed := in.find(rpm, tag, kind, len(text))
		if failed != nil {
			err = errors.Join(err, failed)
			return
		}
		copy(out[at:], text)
	}
	sum := sha256.Sum256(packed.Bytes())
	set(header, rpmPayloadSum, rpmStringArray, []byte(hex.EncodeToString(sum[:])))
	sum = sha256.Sum256(out[header.start:])
	set(signature, rpmSHA256, rpmString, []byte(hex.EncodeToString(sum[:])))
	set(signature, rpmSize, rpmInt32, binary.BigEndian.AppendUint32(nil, uint32(header.end-header.start+packed.Len())))
	if err != nil {
		return nil, err
	}
	return append(out, packed.Bytes()...), nil
}

// rpmPart is where one of the two headers is.
type rpmPart struct{ start, entries, data, end int }

func rpmHeader(rpm []byte, start int) (*rpmPart, error) {
	if len(rpm) < start+rpmIntro || !bytes.Equal(rpm[start:start+len(rpmMagic)], rpmMagic) {
		return nil, fmt.Errorf("%w: no header at %d", ErrRPM, start)
	}
	entries, size := binary.BigEndian.Uint32(rpm[start+8:]), binary.BigEndian.Uint32(rpm[start+12:])
	p := &rpmPart{start: start, entries: start + rpmIntro}
	if uint64(entries)*rpmEntry+uint64(size) > uint64(len(rpm)-p.entries) {
		return nil, fmt.Errorf("%w: the header at %d is longer than the file", ErrRPM, start)
	}
	p.data = p.entries + int(entries)*rpmEntry
	p.end = p.data + int(size)
	return p, nil
}

// find is where the value of a tag is, which must be one, of a type and a length.
func (p *rpmPart) find(rpm []byte, tag, kind uint32, length int) (int, error) {
	for at := p.entries; at < p.data; at += rpmEntry {
		number := func(i int) uint32 { return binary.BigEndian.Uint32(rpm[at+4*i:]) }
		if number(0) != tag {
			continue
		}
		offset := uint64(number(2))
		if number(1) != kind || number(3) != 1 || uint64(p.data)+offset+uint64(length) > uint64(p.end) {
			return 0, fmt.Errorf("%w: tag %d is of another type", ErrRPM, tag)
		}
		value := p.data + int(offset)
		if kind != rpmInt32 && bytes.IndexByte(rpm[value:p.end], 0) != length {
			return 0, fmt.Errorf("%w: tag %d has not %d bytes", ErrRPM, tag, length)
		}
		return value, nil
	}
	return 0, fmt.Errorf("%w: tag %d is missing", ErrRPM, tag)
}

// renamed is a cpio archive whose absolute names begin with a dot.
func renamed(archive []byte) ([]byte, error) {
	var out bytes.Buffer
	pad := func() {
		for out.Len()%4 != 0 {
			out.WriteByte(0)
		}
	}
	for at := 0; ; {
		number := func(i int) (int, error) {
			n, err := strconv.ParseUint(string(archive[at+6+8*i:at+14+8*i]), 16, 31)
			return int(n), err
		}
		if len(archive) < at+cpioHead || string(archive[at:at+len(cpioMagic)]) != cpioMagic {
			return nil, fmt.Errorf("%w: its archive has no member at %d", ErrRPM, at)
		}
		size, err := number(6)
		length, failed := number(11)
		if err = errors.Join(err, failed); err != nil {
			return nil, fmt.Errorf("%w: its archive at %d: %w", ErrRPM, at, err)
		}
		start := (at + cpioHead + length + 3) / 4 * 4
		if length < 1 || start > len(archive) || size > len(archive)-start {
			return nil, fmt.Errorf("%w: its archive ends within the member at %d", ErrRPM, at)
		}
		name := string(bytes.TrimRight(archive[at+cpioHead:at+cpioHead+length], "\x00"))
		if len(name) > 0 && name[0] == '/' {
			name = "." + name
		}
		out.Write(archive[at : at+6+8*11])
		fmt.Fprintf(&out, "%08x", len(name)+1)
		out.Write(archive[at+6+8*12 : at+cpioHead])
		out.WriteString(name + "\x00")
		pad()
		out.Write(archive[start : start+size])
		pad()
		if name == cpioEnd {
			return out.Bytes(), nil
		}
		at = (start + size + 3) / 4 * 4
	}
}
