//go:build !formatnext

package fleet

// Format is the highest format of commands and snapshots that this build reads. It is raised with every change of either.
const Format = 1

// laterSettings are those that came with formats after the first.
var laterSettings []SettingRow
