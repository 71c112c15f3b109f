package main

import (
	"io"
	"os"

	"pace-node/internal/host"
	"pace-node/platform/windows"
)

func newHost() host.Host { return windows.New() }

func output(f *os.File) io.Writer { return windows.Output(f) }
