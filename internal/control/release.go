package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pace-node/internal/config"
	"pace-node/internal/release"
)

// The verbs of a release repository. They ask no node: a release is made where the release key is.

// ReleaseDocument is what a verb of releases did, and what the version holds.
type ReleaseDocument struct {
	V          int            `json:"v"`
	Said       string         `json:"text"`
	Repository string         `json:"repository,omitempty"`
	Version    string         `json:"version,omitempty"`
	Key        string         `json:"key,omitempty"` // the public key, as --provision-release-key takes it
	Files      []release.File `json:"files,omitempty"`
}

// Text is for a person: what was done, then a line a program.
func (d *ReleaseDocument) Text() string {
	var l lines
	l.add("%s", d.Said)
	for _, f := range d.Files {
		l.add("%s %d %s", f.SHA256, f.Size, f.Path)
	}
	if d.Key != "" {
		l.add("key %s", d.Key)
	}
	return l.String()
}

func (r *runner) releaseKey(_ context.Context, args []string) (Printable, error) {
	pass, err := r.keyPassphrase("Passphrase of the new release key: ", true)
	if err != nil {
		return nil, err
	}
	defer r.busy("sealing the release key")()
	k, err := release.WriteKey(args[0], string(pass))
	if err != nil {
		return nil, releaseFailure(err)
	}
	return &ReleaseDocument{V: DocumentVersion, Key: k.String(),
		Said: fmt.Sprintf("the release key is sealed in %s; machines trust the key in %s", Word(args[0]), Word(args[0]+".pub"))}, nil
}

func (r *runner) keyPassphrase(prompt string, twice bool) ([]byte, error) {
	if r.deps.Passphrase == nil {
		return nil, errors.New("this program cannot ask for a passphrase")
	}
	return r.deps.Passphrase(r.flags[config.WordPass], prompt, twice)
}

// releaseSystems are what pace-node is built for, as Go names them: a program of another name is fetched by no machine.
var releaseSystems = []string{"darwin", "linux", "windows"}

func (r *runner) releaseNew(_ context.Context, args []string) (Printable, error) {
	programs := map[string]string{}
	for _, word := range args[2:] {
		platform, file, ok := strings.Cut(word, "=")
		if !ok || file == "" || !release.ValidPlatform(platform) {
			return nil, usageFailure("for example linux-amd64=build/linux-amd64/pace-node", "%s is not OS-ARCH=FILE", Word(word))
		}
		if system, _, _ := strings.Cut(platform, "-"); !slices.Contains(releaseSystems, system) {
			return nil, usageFailure("one of "+strings.Join(releaseSystems, ", ")+", as in linux-amd64", "pace-node runs on no system %s", Word(system))
		}
		if _, twice := programs[platform]; twice {
			return nil, usageFailure("name each system once", "%s is named twice", Word(platform))
		}
		programs[platform] = file
	}
	defer r.busy("copying the programs of version " + args[1])()
	folder, err := release.New(args[0], args[1], programs)
	if err != nil {
		return nil, releaseFailure(err)
	}
	return &ReleaseDocument{V: DocumentVersion, Repository: args[0], Version: args[1],
		Said: fmt.Sprintf("version %s is in %s, not signed yet: pacectl release sign %s %s --key=FILE", args[1], Word(folder), Word(args[0]), args[1])}, nil
}

func (r *runner) releaseSign(_ context.Context, args []string) (Printable, error) {
	file := r.flags[config.WordKey]
	if file == "" {
		return nil, usageFailure("give --key=FILE. pacectl release key FILE, or minisign -G, makes one", "a release is signed with the release key")
	}
	text, err := readKey(file)
	if err != nil {
		return nil, err
	}
	var pass []byte
	if release.Sealed(text) {
		if pass, err = r.keyPassphrase("Passphrase of the release key: ", false); err != nil {
			return nil, err
		}
	}
	defer r.busy("signing version " + args[1])()
	key, err := release.ParseSecretKey(string(pass), text)
	if err != nil {
		return nil, releaseFailure(err)
	}
	m, err := release.Sign(args[0], args[1], key)
	if err != nil {
		return nil, releaseFailure(err)
	}
	return &ReleaseDocument{V: DocumentVersion, Repository: args[0], Version: args[1], Key: key.Public().String(), Files: m.Files,
		Said: fmt.Sprintf("version %s is signed", args[1])}, nil
}

func (r *runner) releaseVerify(ctx context.Context, args []string) (Printable, error) {
	word := r.flags[config.WordKey]
	if word == "" {
		return nil, usageFailure("give --key with the key, or with its .pub file", "a release is verified by the release key")
	}
	key, err := release.ParsePublicKey(word)
	if err != nil {
		text, fileErr := readKey(word)
		if fileErr != nil {
			return nil, fileErr
		}
		if key, err = release.ParsePublicKey(string(text)); err != nil {
			return nil, releaseFailure(err)
		}
	}
	address := args[0]
	if !strings.Contains(address, "://") {
		if address, err = filepath.Abs(address); err != nil {
			return nil, err
		}
	}
	repository, err := release.ParseRepository(address)
	if err != nil {
		return nil, releaseFailure(err)
	}
	defer repository.Close()
	defer r.busy("verifying version " + args[1])()
	m, err := repository.Verify(ctx, key, args[1])
	if err != nil {
		return nil, releaseFailure(err)
	}
	return &ReleaseDocument{V: DocumentVersion, Repository: args[0], Version: args[1], Key: key.String(), Files: m.Files,
		Said: fmt.Sprintf("version %s is signed by this key, and each program is the one that was signed", args[1])}, nil
}

func readKey(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > release.MaxSignature) {
		err = errors.New("it is no file of minisign's")
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, &Failure{Code: "release", Exit: config.ExitFailed, Reason: fmt.Sprintf("the key in %s cannot be read: %v", Word(file), err),
			Remedy: "name the file that pacectl release key, or minisign -G, wrote"}
	}
	return b, nil
}

// releaseRemedies says what mends each fault of a repository; the first that fits is given.
var releaseRemedies = []struct {
	Is     error
	Remedy string
}{
	{release.ErrSignature, "sign it with that key: pacectl release sign REPOSITORY VERSION --key=FILE; or name the key that it was signed with"},
	{release.ErrDigest, "the program was changed after it was signed: take it from where it was built, and sign again"},
	{release.ErrVersion, "a version is letters, digits, dots, plus, hyphen, underscore, tilde and caret, for example 1.4.0"},
	{release.ErrKey, "name a key that pacectl release key, or minisign -G, wrote, and its own passphrase"},
	{release.ErrNotFound, "pacectl release new REPOSITORY VERSION OS-ARCH=FILE makes a version, and pacectl release sign its manifest"},
	{release.ErrManifest, "make the version anew: pacectl release new, then pacectl release sign"},
	{release.ErrRepository, "give the path of a folder, or an http or https address"},
}

func releaseFailure(err error) error {
	f := &Failure{Code: "release", Exit: config.ExitFailed, Reason: strings.ReplaceAll(err.Error(), "release: ", ""), Remedy: "look at the file that is named"}
	for _, row := range releaseRemedies {
		if errors.Is(err, row.Is) {
			f.Remedy = row.Remedy
			break
		}
	}
	return f
}
