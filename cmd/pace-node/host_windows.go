package main

import (
	"pace-node/internal/host"
	"pace-node/platform/windows"
)

func newHost() host.Host { return windows.New() }
