// Package version holds what the linker writes into the binary: its one job is that every other package reads one value.
package version

import "runtime"

// Version is the release, set at link time from git (-X pace-node/internal/version.Version=…).
var Version = "0.0.0-dev"

// Platform is this build's GOOS/GOARCH.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }
