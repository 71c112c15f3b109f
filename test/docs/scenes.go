package docs

// ExampleID and ExampleKey are the pages' birch's; a scene puts those of the machine that it has in their place.
const (
	ExampleID  = "db6ea647879aeeea06d2911418a0d5c4"
	ExampleKey = "TMoAINhWRwZZyAmeBTjqG1k0I2D_DtPLVLmlJIL7FD4"
	// OtherKey is cedar's, and OtherFleet a fleet of its own.
	OtherKey   = "4oXrgHzYLKwf_4_t5m5x7tSgig-5lSXxwyGw7ciGjLU"
	OtherFleet = "2c5d7f6a1b3e4d5c8f9a0b1c2d3e4f50"
)

// Scenes are those of the end-to-end test TestPages, and what happens in each. It types every block that names one, in the
// page's order, on real nodes in network namespaces.
var Scenes = map[string]string{
	"two-machines": "two machines find one another, one is approved and configured",
	"by-hand":      "a node over loopback beside others of the same machine",
	"quick-start":  "three machines become a fleet with three voters",
	"day-two":      "what an operator types on an ordinary day",
	"pinned":       "two fleets on one segment, and a machine that joins the one it is pinned to",
	"leave":        "a machine leaves its fleet",
	"recover":      "all voters are lost, and a learner recovers the fleet",
	"backup":       "a founder is backed up, and restored on a new machine",
	"forgotten":    "a forgotten machine comes back",
	"copied":       "a copy of a machine gets an identity of its own",
	"upgrades":     "every voter is told where releases are and whose key counts",
}

// Reasons are why a block is not typed by a scene, and what stands for it. A reason "typed by TestX" needs no row: that test
// must be there.
var Reasons = map[string]string{
	"typed by make":           "CI runs the target itself",
	"needs macOS":             "nobody has a Mac here; docs/verified.md says what is tested of it elsewhere",
	"needs Windows":           "Wine runs the package's life and the service's (test/packages); no Windows has run it",
	"needs a Mac's developer": "certificates of Apple's developer programme",
	"needs a package":         "built packages and a booted system; make test-packages installs them",
}
