// Package e2e has tests only, under the build tag of that name; this file is what the package is without it.
package e2e
