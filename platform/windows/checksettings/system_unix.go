//go:build !windows

package main

import (
	"fmt"
	"os"
	"strings"
)

// commandLine puts the words together again, so that the program can be tried where there is no Windows.
func commandLine() string { return strings.Join(os.Args, " ") }

func report(text string) { fmt.Fprintln(os.Stderr, text) }
