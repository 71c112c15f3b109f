package control

import (
	"testing"
	"time"
)

// TestNumbersOfThePages: a member that said no Hello for ten minutes after its admission never arrived; what a key outside
// the roster sends is at most 4 KiB.
func TestNumbersOfThePages(t *testing.T) {
	if strangerRequestMost != 4096 {
		t.Errorf("a stranger may send %d bytes", strangerRequestMost)
	}
	if neverArrivedAfter != 10*time.Minute {
		t.Errorf("never arrived after %s", neverArrivedAfter)
	}
}
