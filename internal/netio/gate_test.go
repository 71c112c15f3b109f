package netio

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"

	"pgregory.net/rapid"
)

// records keeps what each Write carried.
type records struct {
	net.Conn
	all    bytes.Buffer
	writes int
}

func (r *records) Write(b []byte) (int, error) {
	r.writes++
	return r.all.Write(b)
}

// TestFrameIsOneRecord: what the session library writes goes out byte for byte, a frame's header together with its data.
func TestFrameIsOneRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		out := &records{}
		g := &gate{Conn: out}
		var want bytes.Buffer
		frames := rapid.IntRange(0, 20).Draw(t, "frames")
		for range frames {
			var h [muxHeader]byte
			h[1] = rapid.SampledFrom([]byte{muxData, 1, muxPing, 3}).Draw(t, "type")
			data := rapid.SliceOfN(rapid.Byte(), 0, 3*maxPiece).Draw(t, "data")
			if h[1] != muxData {
				data = nil
			}
			binary.BigEndian.PutUint32(h[8:], uint32(len(data)))
			if h[1] != muxData {
				binary.BigEndian.PutUint32(h[8:], rapid.Uint32().Draw(t, "value"))
			}
			for _, b := range [][]byte{h[:], data} {
				if len(b) == 0 {
					continue
				}
				want.Write(b)
				if n, err := g.Write(b); n != len(b) || err != nil {
					t.Fatalf("%d of %d bytes, %v", n, len(b), err)
				}
			}
		}
		if !bytes.Equal(out.all.Bytes(), want.Bytes()) {
			t.Fatal("other bytes went out")
		}
		if out.writes != frames {
			t.Fatalf("%d writes for %d frames", out.writes, frames)
		}
	})
}
