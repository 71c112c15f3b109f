//go:build !windows

package statedir

import "golang.org/x/sys/unix"

// diskErrors are the errors of a disk, and what the remedy says.
var diskErrors = map[error]string{unix.ENOSPC: "df -h /x", unix.EDQUOT: "df -h /x", unix.EROFS: "mount"}
