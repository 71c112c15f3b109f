package fleet

import (
	"errors"
	"reflect"
	"testing"

	"pace-node/internal/wire"
)

// TestEmptyCommandsDecodeAlike: what is read without its JSON is what its JSON says, in every format.
func TestEmptyCommandsDecodeAlike(t *testing.T) {
	for v := 1; v <= Format; v++ {
		short, err := DecodeCommand(EmptyCommand(v))
		if err != nil {
			t.Fatal(err)
		}
		long, err := DecodeCommand(append([]byte(" "), EmptyCommand(v)...))
		if err != nil || !reflect.DeepEqual(short, long) {
			t.Errorf("format %d: %+v and %+v (%v)", v, short, long, err)
		}
	}
	if _, err := DecodeCommand(EmptyCommand(Format + 1)); !errors.Is(err, ErrFormatNewer) {
		t.Errorf("a later format: %v", err)
	}
}

// TestSameMembers: an empty command leaves the list as it is, and whatever is about a member does not.
func TestSameMembers(t *testing.T) {
	s := founded(t)
	before := s.View()
	if _, err := s.Apply(EmptyCommand(1)); err != nil || !s.View().SameMembers(before) || len(s.View().Gone(before)) != 0 {
		t.Errorf("after an empty command: %v", err)
	}
	for _, c := range []Command{admit(7), Announce("n-0007", wire.Announce{Name: "x", Version: "1", Format: 1}), ProvisionUpdate("n-0007", Provision{Stage: "configure", Attempts: 1}), Leave("n-0007", by, 1)} {
		before := s.View()
		if r, err := s.Apply(c.Encode()); err != nil || r.Err != "" {
			t.Fatalf("%s: %v %v", c.Kind, err, r.Err)
		}
		if s.View().SameMembers(before) {
			t.Errorf("%s: the same members", c.Kind)
		}
	}
}
