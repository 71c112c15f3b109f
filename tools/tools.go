//go:build tools

// Package tools pins the versions of the programs that lint the project.
package tools

import (
	_ "golang.org/x/vuln/cmd/govulncheck"
	_ "honnef.co/go/tools/cmd/staticcheck"
)
