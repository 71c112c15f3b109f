// Package crash has tests only, under the build tag e2e; this file is what the package is without it.
package crash
