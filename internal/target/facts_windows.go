package target

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	Length, Load                                                                                 uint32
	TotalPhys, AvailPhys, TotalPage, AvailPage, TotalVirtual, AvailVirtual, AvailExtendedVirtual uint64
}

// systemFacts are those that each system tells in its own way. One that it does not tell is left out.
func systemFacts() map[string]any {
	v := windows.RtlGetVersion()
	version := fmt.Sprintf("%d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)
	f := map[string]any{"distribution": "windows", "distribution_version": version, "kernel": version}
	m := memoryStatus{Length: uint32(unsafe.Sizeof(memoryStatus{}))}
	if ok, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&m))); ok != 0 {
		f["memory"] = m.TotalPhys // bytes
	}
	return f
}
