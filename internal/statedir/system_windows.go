package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Windows has no fsync of a folder; replace asks for a write-through instead.
func syncDir(string) error { return nil }

func replace(from, to string) error {
	a, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	b, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	if err := windows.MoveFileEx(a, b, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// give has nothing to do: what is made in the folder inherits the folder's access list.
func give(*os.File, fs.FileMode, *owner) error { return nil }

// makeDir makes the folder with its protection, so that it is never open first.
func makeDir(path string, _ *owner) error {
	self, administrator, err := whoRuns()
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	var last error
	for _, sddl := range sddlChoices(self, administrator) {
		sd, err := windows.SecurityDescriptorFromString(sddl)
		if err != nil {
			return fmt.Errorf("protection of %s: %w", path, err)
		}
		sa := &windows.SecurityAttributes{Length: uint32(unsafe.Sizeof(windows.SecurityAttributes{})), SecurityDescriptor: sd}
		last = windows.CreateDirectory(name, sa)
		if !errors.Is(last, windows.ERROR_INVALID_OWNER) && !errors.Is(last, windows.ERROR_PRIVILEGE_NOT_HELD) {
			break
		}
	}
	if last != nil {
		return &os.PathError{Op: "mkdir", Path: path, Err: last}
	}
	return nil
}

func makeParent(path string) error { return os.Mkdir(path, parentMode) }

// whoRuns tells the account of this process, and whether it acts as an administrator.
func whoRuns() (sid string, administrator bool, err error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", false, fmt.Errorf("who runs this process: %w", err)
	}
	return user.User.Sid.String(), windows.GetCurrentProcessToken().IsElevated(), nil
}

// judge reads a path's protection without following a link.
func judge(path string, want kind, _ *owner) error {
	if want == kindParent {
		return nil // a folder made with its own list is not swapped by whoever may write above it without DELETE on it
	}
	facts, err := readACL(path, true)
	if err != nil {
		return err
	}
	return judgeACL(path, want, facts)
}

// Outsider names somebody other than SYSTEM, Administrators and Windows' own installer who may change a program, or put
// another one in its place; "" where there is nobody.
func Outsider(program string) (string, error) {
	for path, rights := range map[string]uint32{program: rightsChange, filepath.Dir(program): rightsReplace} {
		facts, err := readACL(path, false)
		if err != nil {
			return "", err
		}
		if who := facts.outsider(rights); who != "" {
			return who, nil
		}
	}
	return "", nil
}

// readACL reads a path's protection. What a folder's list only hands down to what is made in it is left out unless handed.
func readACL(path string, handed bool) (facts aclFacts, err error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return facts, err
	}
	attributes, err := windows.GetFileAttributes(name)
	if err != nil {
		return facts, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	self, _, err := whoRuns()
	if err != nil {
		return facts, err
	}
	facts = aclFacts{
		Reparse:   attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0,
		Directory: attributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0,
		Self:      self,
	}
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return facts, fmt.Errorf("the access list of %s: %w", path, err)
	}
	sid, _, err := sd.Owner()
	if err != nil {
		return facts, fmt.Errorf("the owner of %s: %w", path, err)
	}
	facts.Owner = sid.String()
	dacl, _, err := sd.DACL()
	switch {
	case errors.Is(err, windows.ERROR_OBJECT_NOT_FOUND) || err == nil && dacl == nil:
		facts.NullACL = true
	case err != nil:
		return facts, fmt.Errorf("the access list of %s: %w", path, err)
	default:
		for i := range uint32(dacl.AceCount) {
			var ace *windows.ACCESS_ALLOWED_ACE
			if err := windows.GetAce(dacl, i, &ace); err != nil {
				return facts, fmt.Errorf("the access list of %s: %w", path, err)
			}
			if !handed && ace.Header.AceFlags&windows.INHERIT_ONLY_ACE != 0 {
				continue
			}
			facts.Entries = append(facts.Entries, aclEntry{
				Allow: ace.Header.AceType == windows.ACCESS_ALLOWED_ACE_TYPE,
				SID:   (*windows.SID)(unsafe.Pointer(&ace.SidStart)).String(),
				Mask:  uint32(ace.Mask),
			})
		}
	}
	return facts, nil
}

// lockOffset is far beyond the text of the file: a locked range cannot be read by others, and they want the process id.
const lockOffset = 1 << 30

// openLock opens the lock's file and takes the lock, which ends with the process.
func openLock(path string) (f *os.File, created bool, err error) {
	f, err = os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, lockMode)
		created = err == nil
	}
	if err != nil {
		return nil, false, err
	}
	at := &windows.Overlapped{Offset: lockOffset}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if err != nil {
		f.Close()
		if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
			return nil, false, ErrInUse
		}
		return nil, false, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, created, nil
}

// removeLock leaves the file: removing one that another process may have open is not possible here, and harmless to skip.
func removeLock(string) {}
