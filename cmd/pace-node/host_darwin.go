package main

import (
	"io"
	"os"

	"pace-node/internal/host"
	"pace-node/platform/darwin"
)

func newHost() host.Host { return darwin.New() }

func output(f *os.File) io.Writer { return f }
