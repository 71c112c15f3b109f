package control

import (
	"testing"
	"time"
)

// TestNumbersOfThePages: a member that said no Hello for ten minutes after its admission never arrived.
func TestNumbersOfThePages(t *testing.T) {
	if neverArrivedAfter != 10*time.Minute {
		t.Errorf("never arrived after %s", neverArrivedAfter)
	}
}
