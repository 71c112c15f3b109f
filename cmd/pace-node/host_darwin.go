package main

import (
	"pace-node/internal/host"
	"pace-node/platform/darwin"
)

func newHost() host.Host { return darwin.New() }
