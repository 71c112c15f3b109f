package target

import (
	"io/fs"
	"time"

	"pace-node/internal/wire"
)

// Bounds of what a leader may send, in bytes unless said otherwise. The helper's whole answer is at most 1 MiB, so they
// keep one part from being everything, not the whole from being used.
const (
	// MaxBody is the ceiling of the verb Work.
	MaxBody = 4 << 20
	// MaxSettings is how many settings a configuration holds.
	MaxSettings = 4096
	// MaxSettingName bounds the name of a setting.
	MaxSettingName = 256
	// MaxSettingValue bounds the value of a setting.
	MaxSettingValue = 256 << 10
	// MaxPEM bounds a certificate's chain and a key: ten certificates of 6 KiB.
	MaxPEM = 64 << 10
	// MaxCA bounds the authorities: a whole public bundle is 220 KiB.
	MaxCA = 512 << 10
	// MaxClaims bounds the server's claims: they are handed to every hook.
	MaxClaims = 64 << 10
	// MaxPolicies is how many policies of one kind there are.
	MaxPolicies = 256
	// MaxPolicy bounds one policy.
	MaxPolicy = 256 << 10
	// MaxFiles is how many files pace.files holds.
	MaxFiles = 1024
	// MaxFile bounds one of them.
	MaxFile = 1 << 20
	// MaxPart bounds one part of a path: no file system in use takes more.
	MaxPart = 255
	// MaxPath bounds a relative path: with the state directory before it, it stays below macOS's 1,024.
	MaxPath = 512
	// MaxDepth is how many parts a path has.
	MaxDepth = 16
	// MaxShown is how much of a name that came from elsewhere an error shows.
	MaxShown = 128
	// MaxReason bounds the reason of a reprovision that is kept and announced.
	MaxReason = 256
	// MaxAddresses is how many addresses the inventory lists.
	MaxAddresses = 64
	// MaxInventory is what one answer can carry, less the answer around it.
	MaxInventory = wire.MaxAnswer - 1024

	// MaxHookStderr is how much of a hook's stderr, its end, goes into an error.
	MaxHookStderr = 4 << 10

	maxHookReport = 64 << 10 // a report has one sentence, with MaxHookStderr in it, escaped
	maxState      = 64 << 10 // state.json is some hundred bytes
	maxIntent     = 64 << 10 // swap.json too
	maxManifest   = 4 << 20  // a row a file, with the longest path
)

// Times of hooks.
const (
	// HooksTime is what all hooks of one configuration have together: a service that is restarted, not a machine that is
	// installed. With a roll-back and its hooks it stays inside the leader's step.
	HooksTime = 60 * time.Second
	// HookTaken is when the unit that runs hooks must have taken a request: systemd starts it within a second where it is
	// enabled, and on a busy machine within some.
	HookTaken = 15 * time.Second
	// HookSlack is for the report after the last hook.
	HookSlack = 5 * time.Second
	// HookGrace is what a hook that runs has left when this process is to end: the service manager waits 20 s.
	HookGrace = 5 * time.Second

	hookLook = 50 * time.Millisecond
)

// refusalEvery is how often the log says of the same step that it was not carried out for the same reason.
const refusalEvery = time.Minute

// saveRetry is when a state that could not be written is tried again: the disk may have room by then.
const saveRetry = 5 * time.Second

// Modes. Windows has none: there the state directory's own access list is inherited.
const (
	folderMode  fs.FileMode = 0o700 // nobody else may list what a node keeps
	secretMode  fs.FileMode = 0o600 // keys, and everything that may hold a secret
	publicMode  fs.FileMode = 0o644 // certificates
	reportMode  fs.FileMode = 0o640 // what root reports to the service's group
	fileModeMax fs.FileMode = 0o755 // of pace.files: nobody but the owner may write, no set-id bits
	fileModeMin fs.FileMode = 0o400 // its digest must be readable at the next start
)

// Names inside the folder.
const (
	currentDir  = "current"
	previousDir = "previous"
	stagingDir  = "staging"
	discardDir  = "discard"   // the previous one before the last, while it is removed
	droppedDir  = "dropped"   // one that was never taken into use, or that a hook failed with, while it is removed
	intentFile  = "swap.json" // there while a swap is under way
	stateFile   = "state.json"
	// requestKeyFile holds the key of a certificate request that no configuration has answered yet.
	requestKeyFile = "request-key.pem"
	// hookRequestFile is what pace-node-hooks.path watches.
	hookRequestFile = "hooks.json"
	manifestFile    = "manifest.json"

	configurationFile = "configuration.json"
	claimsFile        = "server_claims.json"
	sslDir            = "ssl"
	policiesDir       = "policies"
	filesDir          = "files"
	certificateFile   = sslDir + "/certificate.pem"
	caFile            = sslDir + "/ca.pem"
	keyFile           = sslDir + "/private.pem"
	actionSuffix      = ".policy"
	opaSuffix         = ".rego"
)
