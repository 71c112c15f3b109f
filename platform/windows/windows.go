// Package windows is the Windows half of package host: the known folders, the registry, the service control manager. What
// is decided here is in files without a build tag and tested on any system; system calls are in _windows.go files.
//
// It must never import the node.
package windows

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"pace-node/internal/host"
)

const (
	serviceName  = "PaceNode"
	folderName   = "pace-node"               // in %ProgramData%, or in the user's local application data
	settingsKey  = `Software\Pace\Node`      // below HKEY_LOCAL_MACHINE
	settingsName = `HKLM\Software\Pace\Node` // for people
	hardwareKey  = `SOFTWARE\Microsoft\Cryptography`
	hardwareName = "MachineGuid"
	hardwareTag  = "pace-node hardware 1\x00"
)

// Stopping reports a checkpoint at each beat, so that the manager sees that the end is under way; hint is how long it may
// wait for the next.
const (
	stopBeat = time.Second
	stopHint = 10 * time.Second
)

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
			s.Value = strings.Join(v.List, "\n")
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

// control is what a word of the service control manager asks for.
type control uint8

const (
	controlIgnore      control = iota // not for us
	controlInterrogate                // say the state again
	controlStop                       // end
)

// controlRow is one row of which words mean what. Codes are winsvc.h's.
type controlRow struct {
	Code    uint32
	Control control
}

var controls = []controlRow{
	{1, controlStop},        // SERVICE_CONTROL_STOP
	{4, controlInterrogate}, // SERVICE_CONTROL_INTERROGATE
	{5, controlStop},        // SERVICE_CONTROL_SHUTDOWN
}

func controlOf(code uint32) control {
	for _, row := range controls {
		if row.Code == code {
			return row.Control
		}
	}
	return controlIgnore
}
