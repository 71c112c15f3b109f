package main

import (
	"io"
	"os"

	"pace-node/internal/host"
	"pace-node/platform/linux"
)

func newHost() host.Host { return linux.New() }

func output(f *os.File) io.Writer { return f }
