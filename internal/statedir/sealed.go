package statedir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Faults of a sealed file's bytes, said with the file's name by the caller.
var (
	errEmptyFile = errors.New("it is empty, as after a power cut")
	errNoMagic   = errors.New("its first line is not what this program writes")
	errTorn      = errors.New("its bytes do not match their checksum")
)

// newerError is a file of a later format.
type newerError struct{ format, known uint64 }

func (e *newerError) Error() string {
	return fmt.Sprintf("it has format %d, and this version reads up to %d", e.format, e.known)
}

// Newer is the error of a file that says it has a later format than is known; it is an ErrNewerFormat.
func Newer(format, known uint64) error { return &newerError{format, known} }

// Is makes it an ErrNewerFormat.
func (e *newerError) Is(target error) bool { return target == ErrNewerFormat }

// Seal puts one line before a file's body: "<magic> <format> <SHA-256 of the body in hex>". Every later format keeps it.
func Seal(magic string, format uint64, body []byte) []byte {
	sum := sha256.Sum256(body)
	return append(fmt.Appendf(nil, "%s %d %x\n", magic, format, sum), body...)
}

// Unseal gives the body of what Seal wrote under the magic, in a format that is at most known. Any byte that is not as it was
// written, or is missing, is an error; a later format is ErrNewerFormat, whatever follows its number.
func Unseal(magic string, known uint64, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, errEmptyFile
	}
	line, body, _ := bytes.Cut(data, []byte("\n"))
	words := strings.Split(string(line), " ")
	if len(words) < 2 || words[0] != magic {
		return nil, errNoMagic
	}
	format, err := strconv.ParseUint(words[1], 10, 32)
	if err != nil || format == 0 {
		return nil, errNoMagic
	}
	if format > known {
		return nil, &newerError{format, known}
	}
	sum := sha256.Sum256(body)
	if len(words) != 3 || words[2] != hex.EncodeToString(sum[:]) {
		return nil, errTorn
	}
	return body, nil
}

// Refusal is the error with which a start is refused for a file of the state directory that does not read: what, why, and
// remedy in one sentence. err is Unseal's, or says what else is wrong with it.
func Refusal(path string, err error, remedy string) error {
	if errors.Is(err, ErrNewerFormat) {
		return refuse(ErrNewerFormat, fmt.Sprintf("%s was written by a later version: %v", path, err), newerRemedy)
	}
	return refuse(ErrDamaged, fmt.Sprintf("%s does not read: %v; nothing was changed", path, err), remedy)
}

const newerRemedy = "install that version again (a node never goes back over a format), or put back a copy of the state directory from before"
