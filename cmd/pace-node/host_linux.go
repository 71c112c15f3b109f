package main

import (
	"pace-node/internal/host"
	"pace-node/platform/linux"
)

func newHost() host.Host { return linux.New() }
