package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Repository is where releases are read from.
type Repository struct {
	address string
	root    string // of a folder
	base    *url.URL
	client  *http.Client
}

// Waits of a repository that is read over the network.
const (
	// headerWait is how long the server may take to answer a request.
	headerWait = 30 * time.Second
	// maxRedirects is how many times a request is sent on.
	maxRedirects = 3
)

// ParseRepository reads a repository's address: an absolute path of a folder, or an http or https URL without user,
// query or fragment.
func ParseRepository(address string) (*Repository, error) {
	if filepath.IsAbs(address) {
		return &Repository{address: address, root: filepath.Clean(address)}, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%w: %q: give the absolute path of a folder, or an http or https address", ErrRepository, address)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%w: %q: an address with a user, a query or a fragment is not read", ErrRepository, u.Redacted())
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = headerWait
	return &Repository{address: address, base: u, client: &http.Client{
		Transport: transport,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("sent on more than %d times", maxRedirects)
			}
			if via[0].URL.Scheme == "https" && req.URL.Scheme != "https" {
				return errors.New("sent from https to http")
			}
			return nil
		},
	}}, nil
}

// String is the repository's address.
func (r *Repository) String() string { return r.address }

// Close ends the connections that are kept.
func (r *Repository) Close() {
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
}

// open reads one file of the repository. The path is made of checked parts only.
func (r *Repository) open(ctx context.Context, parts ...string) (io.ReadCloser, error) {
	name := strings.Join(parts, "/")
	if r.base == nil {
		f, err := os.Open(filepath.Join(append([]string{r.root}, parts...)...))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s in %s", ErrNotFound, name, r)
		}
		if err != nil {
			return nil, err
		}
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			f.Close()
			return nil, fmt.Errorf("%w: %s in %s is no file", ErrRepository, name, r)
		}
		return f, nil
	}
	// A folder's name may hold %3a, which has to stand in the address as %253a.
	var escaped []string
	for _, p := range parts {
		for q := range strings.SplitSeq(p, "/") {
			escaped = append(escaped, url.PathEscape(q))
		}
	}
	u := strings.TrimSuffix(r.base.String(), "/") + "/" + strings.Join(escaped, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return resp.Body, nil
	case http.StatusNotFound, http.StatusGone:
		resp.Body.Close()
		return nil, fmt.Errorf("%w: %s in %s", ErrNotFound, name, r)
	default:
		resp.Body.Close()
		return nil, fmt.Errorf("%w: %s answered %s for %s", ErrRepository, r, resp.Status, name)
	}
}

func (r *Repository) read(ctx context.Context, limit int64, parts ...string) ([]byte, error) {
	f, err := r.open(ctx, parts...)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s in %s: %w", strings.Join(parts, "/"), r, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%w: %s in %s has more than %d bytes", ErrRepository, strings.Join(parts, "/"), r, limit)
	}
	return b, nil
}

// Manifest reads the manifest of a version that key has signed. A manifest that names another version is refused: it
// could be an older release under a newer name.
func (r *Repository) Manifest(ctx context.Context, key PublicKey, version string) (Manifest, error) {
	if !ValidVersion(version) {
		return Manifest{}, fmt.Errorf("%w: %q", ErrVersion, version)
	}
	b, err := r.read(ctx, MaxManifest, folderOf(version), ManifestName)
	if err != nil {
		return Manifest{}, err
	}
	signature, err := r.read(ctx, MaxSignature, folderOf(version), SignatureName)
	if errors.Is(err, ErrNotFound) {
		return Manifest{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if err != nil {
		return Manifest{}, err
	}
	m, err := key.Verify(b, signature)
	if err != nil {
		return Manifest{}, fmt.Errorf("%s of %s in %s: %w", ManifestName, version, r, err)
	}
	if m.Version != version {
		return Manifest{}, fmt.Errorf("%w: the folder %s holds the manifest of %s", ErrManifest, version, m.Version)
	}
	return m, nil
}

// Fetch writes the program of a version and platform to w, of which nothing may be used unless the error is nil: the
// digest is known at the end only. At most the size that the manifest names is written.
func (r *Repository) Fetch(ctx context.Context, key PublicKey, version, platform string, w io.Writer) (File, error) {
	m, err := r.Manifest(ctx, key, version)
	if err != nil {
		return File{}, err
	}
	f, ok := m.File(platform)
	if !ok {
		return File{}, fmt.Errorf("%w: version %s for %s in %s", ErrNotFound, version, platform, r)
	}
	return f, r.fetch(ctx, m, f, w)
}

func (r *Repository) fetch(ctx context.Context, m Manifest, f File, w io.Writer) error {
	parts := append([]string{folderOf(m.Version)}, strings.Split(f.Path, "/")...)
	body, err := r.open(ctx, parts...)
	if err != nil {
		return err
	}
	defer body.Close()
	digest := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, digest), io.LimitReader(contextReader{ctx, body}, f.Size+1))
	if err != nil {
		return fmt.Errorf("reading %s of %s in %s: %w", f.Path, m.Version, r, err)
	}
	if n != f.Size {
		return fmt.Errorf("%w: %s of %s in %s has %s than the %d bytes named", ErrDigest, f.Path, m.Version, r, moreOrLess(n, f.Size), f.Size)
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("%w: %s of %s in %s has the digest %s, not %s", ErrDigest, f.Path, m.Version, r, got, f.SHA256)
	}
	return nil
}

func moreOrLess(n, want int64) string {
	if n > want {
		return "more"
	}
	return "less"
}

// Copy writes a release repository at root that holds a version for one platform, as it is signed here, and returns the path
// of the program in it, which may be run. Nothing of it may be used unless the error is nil.
func (r *Repository) Copy(ctx context.Context, key PublicKey, version, platform, root string) (program string, err error) {
	m, err := r.Manifest(ctx, key, version)
	if err != nil {
		return "", err
	}
	f, ok := m.File(platform)
	if !ok {
		return "", fmt.Errorf("%w: version %s for %s in %s", ErrNotFound, version, platform, r)
	}
	folder := filepath.Join(root, folderOf(version))
	program = filepath.Join(folder, filepath.FromSlash(f.Path))
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		return "", err
	}
	for name, limit := range map[string]int64{ManifestName: MaxManifest, SignatureName: MaxSignature} {
		b, err := r.read(ctx, limit, folderOf(version), name)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o600); err != nil {
			return "", err
		}
	}
	w, err := os.OpenFile(program, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return "", err
	}
	if err := r.fetch(ctx, m, f, w); err != nil {
		w.Close()
		return "", err
	}
	return program, w.Close()
}

// contextReader lets the reading of a folder's file end with its context too.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// Verify reads every program that a version's manifest names and holds it against its digest.
func (r *Repository) Verify(ctx context.Context, key PublicKey, version string) (Manifest, error) {
	m, err := r.Manifest(ctx, key, version)
	if err != nil {
		return Manifest{}, err
	}
	for _, f := range m.Files {
		if err := r.fetch(ctx, m, f, io.Discard); err != nil {
			return Manifest{}, err
		}
	}
	return m, nil
}
