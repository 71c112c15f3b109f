package control

import (
	"testing"
	"time"
)

// TestNumbersOfThePages: a member that said no Hello for ten minutes after its admission never arrived; what a key outside
// the roster sends is at most 4 KiB; an id's start that names a machine has six characters.
func TestNumbersOfThePages(t *testing.T) {
	if strangerRequestMost != 4096 {
		t.Errorf("a stranger may send %d bytes", strangerRequestMost)
	}
	if minPrefix != 6 {
		t.Errorf("the start of an id has %d characters", minPrefix)
	}
	if neverArrivedAfter != 10*time.Minute {
		t.Errorf("never arrived after %s", neverArrivedAfter)
	}
}
