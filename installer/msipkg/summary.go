package msipkg

import (
	"bytes"
	"fmt"
	"time"
)

// Of the summary of a package, a property set as [MS-OLEPS] lays it out.
var formatSummary = []byte{0xe0, 0x85, 0x9f, 0xf2, 0xf9, 0x4f, 0x68, 0x10, 0xab, 0x91, 0x08, 0x00, 0x2b, 0x27, 0xb3, 0xd9}

const (
	propCreated  = 12
	propSaved    = 13
	vtFileTime   = 64
	maxProps     = 64
	setHeader    = 28          // bytes before a set's first format id
	epochSeconds = 11644473600 // from 1601, where Windows counts from, to 1970
)

// setTimes writes one time in place of when the package was made and saved: the two that wixl and msibuild take from the clock.
func setTimes(msi []byte, when time.Time) error {
	refuse := func(why string) error { return fmt.Errorf("%w: its summary %s", ErrDiffers, why) }
	at := bytes.Index(msi, formatSummary)
	if at < setHeader || bytes.Contains(msi[at+1:], formatSummary) {
		return refuse("is not there once")
	}
	set := msi[at-setHeader:]
	if len(set) < setHeader+len(formatSummary)+4 {
		return refuse("ends in its header")
	}
	start := int(le.Uint32(set[setHeader+len(formatSummary):]))
	if start+8 > len(set) {
		return refuse("ends before it begins")
	}
	section := set[start:]
	count, found := int(le.Uint32(section[4:])), 0
	if count > maxProps || len(section) < 8+8*count {
		return refuse(fmt.Sprintf("has %d properties", count))
	}
	for i := range count {
		id, offset := le.Uint32(section[8+8*i:]), int(le.Uint32(section[12+8*i:]))
		if id != propCreated && id != propSaved {
			continue
		}
		if offset+12 > len(section) || le.Uint32(section[offset:]) != vtFileTime {
			return refuse("has a time that is none")
		}
		le.PutUint64(section[offset+4:], uint64(when.Unix()+epochSeconds)*uint64(time.Second/100))
		found++
	}
	if found != 2 {
		return refuse(fmt.Sprintf("has %d of 2 times", found))
	}
	return nil
}
