package netsim

import (
	"runtime"
	"testing"
	"testing/synctest"
)

// Bubble runs f in a testing/synctest bubble. Use it, not synctest.Test, for code that holds sessions: the session
// library keeps its timers in a process-wide pool, and a timer must not pass into or out of a bubble. Two collections
// empty such a pool, before and after. A test that calls Bubble must not be parallel.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	emptyPools()
	defer emptyPools()
	synctest.Test(t, f)
}

func emptyPools() {
	runtime.GC()
	runtime.GC()
}
