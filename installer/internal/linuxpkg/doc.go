// Package linuxpkg builds the deb and the rpm of one processor from packaging/linux and a binary. Its one job is the
// table of what goes where, and what is derived from the tree: version, changelogs, checksums, bill of materials.
//
// It must never run anything of the product, nor put into a package what differs between two builds of one tree.
package linuxpkg
