package netio

import (
	"context"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// DNSSuffix is this machine's own DNS suffix, empty if it has none. It is read anew at each call: DHCP and joining a domain
// change it.
func DNSSuffix(context.Context) string {
	const parameters = `SYSTEM\CurrentControlSet\Services\Tcpip\Parameters`
	w := windowsSuffixes{
		PolicyList: registryText(`SOFTWARE\Policies\Microsoft\Windows NT\DNSClient`, "SearchList"),
		List:       registryText(parameters, "SearchList"),
		Primary:    registryText(parameters, "Domain"),
	}
	first, err := adapters()
	if err != nil {
		return w.suffix() // as if no connection had one
	}
	for a := first; a != nil; a = a.Next {
		w.Adapters = append(w.Adapters, adapterSuffix{Name: windows.UTF16PtrToString(a.FriendlyName), Suffix: windows.UTF16PtrToString(a.DnsSuffix),
			Up: a.OperStatus == windows.IfOperStatusUp})
	}
	if list, err := ListInterfaces(); err == nil {
		w.DefaultRoute = DefaultRouteInterface(list, defaultRoutes())
	}
	return w.suffix()
}

// registryText reads a text of the local machine's registry, empty where it is not there.
func registryText(path, name string) string {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer key.Close()
	text, _, err := key.GetStringValue(name)
	if err != nil {
		return ""
	}
	return text
}
