package host

import "context"

// Upgrades is how root replaces the program of a service that may not do so itself. A Host that knows such a way has a
// method Upgrades that returns it.
type Upgrades struct {
	Notes   string                                  // folder that root keeps, and the service may read
	Enable  string                                  // command that lets root do it
	Enabled func() bool                             // an administrator has let it
	Life    func(ctx context.Context) (Life, error) // of the service
	Restart func(ctx context.Context) error         // of the service; returns before it runs
}

// Life is how the service is, as its manager knows.
type Life struct {
	Active bool   // it serves
	Down   bool   // it does not run, and nobody starts it
	Clean  bool   // it ended well
	Start  string // names one start of it; "" = unknown
}
