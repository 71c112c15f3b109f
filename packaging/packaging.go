// Package packaging gives the program those files of the packages that --install-service writes as well, so that there is
// one text of each. Its one job is to hold them.
//
// It must never decide anything: what stands beside it is data.
package packaging

import _ "embed" // the files below

var (
	// Unit is the Linux packages' unit. Its program is /usr/bin/pace-node.
	//go:embed linux/pace-node.service
	Unit string
	// Sysusers makes the account and the group that the unit names.
	//go:embed linux/pace-node.sysusers
	Sysusers string
	// Daemon is the macOS package's launchd daemon. Its program is /opt/pace-node/bin/pace-node.
	//go:embed macos/io.pace.node.plist
	Daemon string
)
