//go:build crashpoints

package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"pace-node/internal/node"
)

// What a test tells this build through the environment. It is in test builds only.
const (
	crashAt    = "PACE_CRASH_AT"     // <point>[@<n>]: the n-th passing of that point ends the process; 1 where it is left out
	crashWhen  = "PACE_CRASH_WHEN"   // only passings while this file exists count; empty: all do
	crashNext  = "PACE_CRASH_NEXT"   // file that names the point; whoever comes there first removes it and ends
	crashTrace = "PACE_CRASH_TRACE"  // file to which every passing that counts is appended, a line each
	crashExit  = 77                  // status of a process that ended at its point
	crashServe = "PACE_SERVE_WITHIN" // how long a program that was upgraded to has until it serves
	crashHang  = "PACE_CRASH_HANG"   // not empty: the process stays at its point, and does nothing any more
	crashFault = 70                  // status where the build itself is at fault
)

// crashPoint ends the process at the point that the environment names, as a power cut would.
func crashPoint() func(string) {
	at, times, _ := strings.Cut(os.Getenv(crashAt), "@")
	n, err := strconv.Atoi(times)
	if err != nil {
		n = 1
	}
	known := slices.Concat(node.CrashPoints, node.StagePoints)
	if at != "" && !slices.Contains(known, at) {
		fmt.Fprintln(os.Stderr, "no crash point is called", at)
		os.Exit(crashFault)
	}
	var left atomic.Int64
	left.Store(int64(n))
	when, trace, next := os.Getenv(crashWhen), os.Getenv(crashTrace), os.Getenv(crashNext)
	return func(name string) {
		if !slices.Contains(known, name) {
			fmt.Fprintln(os.Stderr, "a crash point that no list names:", name)
			os.Exit(crashFault)
		}
		if when != "" {
			if _, err := os.Stat(when); err != nil {
				return
			}
		}
		if trace != "" {
			if f, err := os.OpenFile(trace, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
				fmt.Fprintln(f, name)
				f.Close()
			}
		}
		if next != "" {
			if b, err := os.ReadFile(next); err == nil && strings.TrimSpace(string(b)) == name && os.Remove(next) == nil {
				fmt.Fprintln(os.Stderr, "crash point", name)
				os.Exit(crashExit)
			}
		}
		if name == at && left.Add(-1) == 0 {
			fmt.Fprintln(os.Stderr, "crash point", name)
			if os.Getenv(crashHang) != "" {
				select {}
			}
			os.Exit(crashExit)
		}
	}
}

func serveWithin() time.Duration {
	d, _ := time.ParseDuration(os.Getenv(crashServe))
	return d
}
