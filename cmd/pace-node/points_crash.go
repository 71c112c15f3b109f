//go:build crashpoints

package main

import (
	"fmt"
	"os"
)

// crashPoint ends the process at the point that PACE_CRASH_AT names, as a power cut would. It is in test builds only.
func crashPoint() func(string) {
	at := os.Getenv("PACE_CRASH_AT")
	return func(name string) {
		if name == at {
			fmt.Fprintln(os.Stderr, "crash point", name)
			os.Exit(77)
		}
	}
}
