//go:build formatnext

package fleet

// Format is that of a version that does not exist yet: built with the tag formatnext, a second binary knows one change more
// than this one, so that rolling upgrades are tried between two that really differ.
const Format = 2

// SettingNext is the change: a switch that means nothing.
const SettingNext = "format.next"

var laterSettings = []SettingRow{
	{SettingNext, SettingSwitch, 0, 0, "false", "means nothing: it shows that every member reads the next format", 2},
}
