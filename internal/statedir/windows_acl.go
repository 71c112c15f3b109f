package statedir

import (
	"fmt"
	"slices"
)

// The two accounts that may own and use a service's state, as every Windows spells them.
const (
	sidSystem         = "S-1-5-18"
	sidAdministrators = "S-1-5-32-544"
)

// The protection that the folder is made with: owner, group SYSTEM; nothing inherited; SYSTEM and Administrators all,
// handed down to what is made inside.
const (
	sddlService = "O:SYG:SYD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
	// An administrator without the restore privilege cannot name SYSTEM as the owner.
	sddlAdministrator = "O:BAG:SYD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
)

// sddlChoices lists the descriptors to try in order for who runs: SYSTEM, an administrator, or an ordinary user.
func sddlChoices(self string, administrator bool) []string {
	switch {
	case self == sidSystem:
		return []string{sddlService}
	case administrator:
		return []string{sddlService, sddlAdministrator}
	default:
		return []string{fmt.Sprintf("O:%[1]sG:%[1]sD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;%[1]s)", self)}
	}
}

// Rights of an access control entry that matter here, as winnt.h numbers them.
const (
	rightWriteData   = 0x2        // FILE_WRITE_DATA, FILE_ADD_FILE
	rightAppend      = 0x4        // FILE_APPEND_DATA, FILE_ADD_SUBDIRECTORY
	rightReadData    = 0x1        // FILE_READ_DATA, FILE_LIST_DIRECTORY
	rightDeleteChild = 0x40       // FILE_DELETE_CHILD
	rightDelete      = 0x10000    // DELETE
	rightWriteDAC    = 0x40000    // WRITE_DAC
	rightWriteOwner  = 0x80000    // WRITE_OWNER
	rightGenericAll  = 0x10000000 // GENERIC_ALL
	rightGenericW    = 0x40000000 // GENERIC_WRITE
	rightGenericR    = 0x80000000 // GENERIC_READ

	rightsChange = rightWriteData | rightAppend | rightDeleteChild | rightDelete | rightWriteDAC | rightWriteOwner | rightGenericAll | rightGenericW
	rightsRead   = rightReadData | rightGenericAll | rightGenericR
)

// aclEntry is one entry of a discretionary list.
type aclEntry struct {
	Allow bool
	SID   string
	Mask  uint32
}

// aclFacts is what Windows tells about one path.
type aclFacts struct {
	Reparse   bool // link, junction, mount point
	Directory bool
	Owner     string
	NullACL   bool // no list at all: everybody may do everything
	Entries   []aclEntry
	Self      string // who runs
}

// aclCheck is one row of what makes a path unsafe on Windows, asked in order.
type aclCheck struct {
	Name  string
	Kinds []kind
	Bad   func(k kind, f aclFacts) bool
	Say   func(path string, f aclFacts) (what, remedy string)
}

var aclChecks = []aclCheck{
	{
		Name:  "link",
		Kinds: []kind{kindDir, kindSecret, kindFile},
		Bad:   func(_ kind, f aclFacts) bool { return f.Reparse },
		Say: func(p string, _ aclFacts) (string, string) {
			return fmt.Sprintf("%s is a link or junction, and those can be turned elsewhere", p), "give the real path with --state-dir"
		},
	},
	{
		Name:  "type",
		Kinds: []kind{kindDir, kindSecret, kindFile},
		Bad:   func(k kind, f aclFacts) bool { return k.dir() != f.Directory },
		Say: func(p string, _ aclFacts) (string, string) {
			return fmt.Sprintf("%s is not what belongs there", p), "move it away and start again"
		},
	},
	{
		Name:  "owner",
		Kinds: []kind{kindDir, kindSecret, kindFile},
		Bad:   func(_ kind, f aclFacts) bool { return !f.trusted(f.Owner) },
		Say: func(p string, f aclFacts) (string, string) {
			return fmt.Sprintf("%s belongs to %s", p, f.Owner),
				fmt.Sprintf(`look at who made it, then: takeown /F "%s" /A /R`, p)
		},
	},
	{
		Name:  "writable",
		Kinds: []kind{kindDir, kindSecret, kindFile},
		Bad:   func(_ kind, f aclFacts) bool { return f.NullACL || f.stranger(rightsChange) != "" },
		Say: func(p string, f aclFacts) (string, string) {
			return fmt.Sprintf("%s can be written by others (%s)", p, f.whoever(rightsChange)), aclRemedy(p)
		},
	},
	{
		Name:  "readable",
		Kinds: []kind{kindSecret},
		Bad:   func(_ kind, f aclFacts) bool { return f.stranger(rightsRead) != "" },
		Say: func(p string, f aclFacts) (string, string) {
			return fmt.Sprintf("%s can be read by others (%s), and whoever has read it can be this machine", p, f.whoever(rightsRead)),
				aclRemedy(p) + "; if somebody may have read it: pace-node --reset-identity"
		},
	},
}

// sidInstaller is Windows' own installer, which owns and may change the system's folders.
const sidInstaller = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"

// rightsReplace are those on a folder that let somebody put another file in the place of one in it.
const rightsReplace = rightDeleteChild | rightWriteDAC | rightWriteOwner | rightGenericAll

// outsider is the first account beyond the machine's administrators that owns the path or may do any of these with it.
func (f aclFacts) outsider(rights uint32) string {
	own := func(sid string) bool {
		return slices.Contains([]string{sidSystem, sidAdministrators, sidInstaller}, sid)
	}
	switch {
	case f.NullACL:
		return "everybody"
	case !own(f.Owner):
		return f.Owner
	}
	for _, e := range f.Entries {
		if e.Allow && e.Mask&rights != 0 && !own(e.SID) {
			return e.SID
		}
	}
	return ""
}

func aclRemedy(p string) string {
	return fmt.Sprintf(`look at who changed what, then: icacls "%s" /inheritance:r /grant:r *%s:F *%s:F`, p, sidSystem, sidAdministrators)
}

func (f aclFacts) trusted(sid string) bool {
	return slices.Contains([]string{sidSystem, sidAdministrators, f.Self}, sid)
}

// stranger is the first account beyond the trusted ones that the list allows any of these rights. A later denial does
// not clear it: which of the two wins depends on their order, and an honest list of ours has neither.
func (f aclFacts) stranger(rights uint32) string {
	for _, e := range f.Entries {
		if e.Allow && e.Mask&rights != 0 && !f.trusted(e.SID) {
			return e.SID
		}
	}
	return ""
}

func (f aclFacts) whoever(rights uint32) string {
	if f.NullACL {
		return "it has no access list"
	}
	return f.stranger(rights)
}

// judgeACL asks the rows in order; the first that is bad is the answer.
func judgeACL(path string, k kind, f aclFacts) error {
	for _, c := range aclChecks {
		if slices.Contains(c.Kinds, k) && c.Bad(k, f) {
			what, remedy := c.Say(path, f)
			return refuse(ErrUnsafe, what, remedy)
		}
	}
	return nil
}
