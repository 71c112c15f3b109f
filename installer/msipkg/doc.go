// Package msipkg builds the Windows Installer package of one processor from packaging/windows: wixl makes the database of
// what it knows, msibuild imports the tables that it lacks, and what was asked for is read back and compared.
//
// Its one job is that the same tree makes the same bytes, on Linux, and that nothing is dropped silently. It must never run
// anything of the product, nor ask the clock.
package msipkg

import "errors"

var (
	// ErrPlan: a package that cannot be built from what was given.
	ErrPlan = errors.New("the package cannot be built")
	// ErrTool: a program of others that failed, warned, or is not installed.
	ErrTool = errors.New("a tool failed")
	// ErrDiffers: what was built is not what was asked for.
	ErrDiffers = errors.New("the package is not what was asked for")
)
