package provision

import (
	"fmt"
	"maps"
	"testing"
)

// The kinds of alternative names that are read, by their tags in RFC 5280 (GeneralName): e-mail, host, URI, IP address.
func checkReadNames() error {
	if want := map[int]bool{1: true, 2: true, 6: true, 7: true}; !maps.Equal(want, readNames) {
		return fmt.Errorf("%v, want %v", readNames, want)
	}
	return nil
}

func TestReadNames(t *testing.T) {
	if err := checkReadNames(); err != nil {
		t.Error(err)
	}
}

func TestMutationReadNames(t *testing.T) {
	for tag := range 9 {
		had := readNames[tag]
		if had {
			delete(readNames, tag)
		} else {
			readNames[tag] = true
		}
		if checkReadNames() == nil {
			t.Errorf("tag %d flipped, and nothing noticed", tag)
		}
		if delete(readNames, tag); had {
			readNames[tag] = true
		}
	}
}
