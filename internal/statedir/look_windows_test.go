package statedir

import "golang.org/x/sys/windows"

// diskErrors are the errors of a disk, and what the remedy says.
var diskErrors = map[error]string{windows.ERROR_DISK_FULL: "df -h /x", windows.ERROR_HANDLE_DISK_FULL: "df -h /x", windows.ERROR_WRITE_PROTECT: "mount"}
