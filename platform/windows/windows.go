// Package windows is the Windows half of package host: the known folders, the registry, the service control manager. What
// is decided here is in files without a build tag and tested on any system; system calls are in _windows.go files.
//
// It must never import the node.
package windows

import (
	"fmt"
	"strconv"
	"time"

	"pace-node/internal/host"
)

const (
	serviceName  = "PaceNode"
	folderName   = "pace-node"               // in %ProgramData%, or in the user's local application data
	settingsKey  = `Software\Pace\Node`      // below HKEY_LOCAL_MACHINE
	settingsName = `HKLM\Software\Pace\Node` // for people
	managerFile  = "services.exe"
	hardwareKey  = `SOFTWARE\Microsoft\Cryptography`
	hardwareName = "MachineGuid"
	hardwareTag  = "pace-node hardware 1\x00"
)

// The Event Log. EventCreate.exe, whose sentence is the text itself, knows the ids from 1 to 1000.
const (
	eventID    = 1
	eventQueue = 1024            // lines that may wait for it
	eventWait  = 2 * time.Second // for the last ones, at the end
)

// Types of its entries, as winnt.h numbers them.
const (
	eventError   = 1
	eventWarning = 2
	eventInfo    = 4
)

// eventOf is the type of an entry.
func eventOf(s host.Severity) uint16 {
	switch s {
	case host.SeverityError:
		return eventError
	case host.SeverityWarning:
		return eventWarning
	}
	return eventInfo
}

// registryValue is one value as the registry holds it.
type registryValue struct {
	Name   string
	Text   string   // REG_SZ, REG_EXPAND_SZ (expanded)
	List   []string // REG_MULTI_SZ
	Number uint64   // REG_DWORD, REG_QWORD
	Type   uint32
}

// Types of registry values, as winnt.h numbers them.
const (
	regSZ       = 1
	regExpandSZ = 2
	regDWORD    = 4
	regMultiSZ  = 7
	regQWORD    = 11
)

// settingsOf turns the values of the settings' key into settings. A value of another type is refused by name.
func settingsOf(values []registryValue) (map[string]host.Setting, error) {
	out := map[string]host.Setting{}
	for _, v := range values {
		s := host.Setting{Where: settingsName}
		switch v.Type {
		case regSZ, regExpandSZ:
			s.Value = v.Text
		case regMultiSZ:
			for _, line := range v.List {
				s.Value += line + "\n" // a line end tells that values are lines, also where there is only one
			}
		case regDWORD, regQWORD:
			s.Value = strconv.FormatUint(v.Number, 10)
		default:
			return nil, fmt.Errorf("%s: the value %q is of a type that holds no setting (%d); delete it, or write it as text",
				settingsName, v.Name, v.Type)
		}
		out[v.Name] = s
	}
	return out, nil
}
