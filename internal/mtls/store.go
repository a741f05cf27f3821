// SPDX-License-Identifier: Apache-2.0

package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/model"
)

// Store has the secrets by which connections to endpoints are secured. It is safe for concurrent use.
type Store struct {
	read func(path, name string) (*model.Secret, error)
	log  *slog.Logger

	mu sync.Mutex
	// changed is closed when a secret has come that was waited for, or was refused; another takes its place. Guarded by mu.
	changed chan struct{}
	// held are secrets by where they come from. Guarded by mu.
	held map[model.SecretSource]*Held
	// pairs and roots are what has been made of texts. Guarded by mu.
	pairs map[*model.Certificate]parsed[*tls.Certificate]
	roots map[*model.Data]parsed[*x509.CertPool]
}

// Held is a secret that the store has, or waits for.
type Held struct {
	Source model.SecretSource
	// Secret is nil until it has come.
	Secret  *model.Secret
	Version string
	Updated time.Time
	// Fault is why what came last was not taken; empty: it was.
	Fault string

	stamp stamp
	// since is when it was first needed; refused: something has come of it that could not be used.
	since   time.Time
	refused bool
}

// pending reports whether it is waited for, as Envoy does: until it comes, or is refused, or its time is up.
func (h *Held) pending(now time.Time) bool {
	return h.Secret == nil && !h.refused && (h.Source.Patience == 0 || now.Sub(h.since) < h.Source.Patience)
}

// parsed is what was made of text, and of which files.
type parsed[T any] struct {
	of     [2]stamp
	result T
	// good: there is a result; otherwise there is a fault.
	good  bool
	fault error
}

// NewStore makes a store without secrets. Read reads one from a file of resources.
func NewStore(read func(path, name string) (*model.Secret, error), log *slog.Logger) *Store {
	return &Store{
		read: read, log: log, changed: make(chan struct{}), held: map[model.SecretSource]*Held{},
		pairs: map[*model.Certificate]parsed[*tls.Certificate]{}, roots: map[*model.Data]parsed[*x509.CertPool]{},
	}
}

// Follow makes these the secrets that are needed, and forgets others. It returns those that somebody has to ask for.
func (s *Store) Follow(contexts []*model.UpstreamTLS) []model.SecretSource {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, needed := time.Now(), map[model.SecretSource]*Held{}
	for _, c := range contexts {
		for _, source := range c.Secrets() {
			if needed[*source] != nil {
				continue
			}
			if needed[*source] = s.held[*source]; needed[*source] == nil {
				needed[*source] = s.beginLocked(*source, now)
			}
		}
	}
	s.held = needed
	s.pruneLocked(contexts)
	var asked []model.SecretSource
	for source := range needed {
		if source.File == "" {
			asked = append(asked, source)
		}
	}
	slices.SortFunc(asked, func(a, b model.SecretSource) int { return strings.Compare(a.Name, b.Name) })
	return asked
}

// Knows reports whether all secrets of these contexts are followed.
func (s *Store) Knows(contexts []*model.UpstreamTLS) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.ContainsFunc(contexts, func(c *model.UpstreamTLS) bool {
		return slices.ContainsFunc(c.Secrets(), func(from *model.SecretSource) bool { return s.held[*from] == nil })
	})
}

// beginLocked is a secret that nobody has needed so far. The control plane sends one once, whatever configurations of its source there are.
func (s *Store) beginLocked(source model.SecretSource, now time.Time) *Held {
	out := &Held{Source: source, since: now}
	for _, h := range s.held {
		if source.ADS && h.Source.ADS && h.Source.Name == source.Name {
			out.Secret, out.Version, out.Updated, out.Fault, out.refused = h.Secret, h.Version, h.Updated, h.Fault, h.refused
		}
	}
	return out
}

// pruneLocked forgets what was made of texts that nobody has any more.
func (s *Store) pruneLocked(contexts []*model.UpstreamTLS) {
	if len(s.pairs)+len(s.roots) == 0 {
		return
	}
	pairs, roots := map[*model.Certificate]bool{}, map[*model.Data]bool{}
	for _, c := range contexts {
		pairs[c.Certificate], roots[c.Validation.CA] = true, true
	}
	for _, h := range s.held {
		if h.Secret != nil && h.Secret.Certificate != nil {
			pairs[h.Secret.Certificate] = true
		}
		if h.Secret != nil && h.Secret.Validation != nil {
			roots[h.Secret.Validation.CA] = true
		}
	}
	maps.DeleteFunc(s.pairs, func(c *model.Certificate, _ parsed[*tls.Certificate]) bool { return !pairs[c] })
	maps.DeleteFunc(s.roots, func(d *model.Data, _ parsed[*x509.CertPool]) bool { return !roots[d] })
}

// Changed is closed when the next secret has come that is waited for, or was refused. Who waits asks for it before Pending.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// filePace is how often files are looked at that are not there yet.
const filePace = 250 * time.Millisecond

// Pending names the secrets of these contexts that are waited for, each once, and says when to look again where nobody will say that it has come; zero: there is
// no such time.
func (s *Store) Pending(contexts []*model.UpstreamTLS, now time.Time) (names []string, again time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range contexts {
		for _, source := range c.Secrets() {
			h := s.held[*source]
			if h == nil || slices.Contains(names, source.Name) {
				continue
			}
			s.refreshLocked(h)
			if !h.pending(now) {
				continue
			}
			names = append(names, source.Name)
			if source.Patience > 0 {
				again = sooner(again, h.since.Add(source.Patience))
			}
			if source.File != "" {
				again = sooner(again, now.Add(filePace))
			}
		}
	}
	return names, again
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Put takes a secret that has come, or what was wrong with it: then the one before stays.
func (s *Store) Put(from model.SecretSource, secret *model.Secret, version string, fault error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[from]
	if h == nil {
		return
	}
	if h.pending(time.Now()) {
		defer s.ringLocked()
	}
	if fault != nil {
		h.Fault, h.refused = fault.Error(), true
		return
	}
	s.setLocked(h, secret)
	h.Version = version
}

// Aggregated are the needed secrets of that name that the control plane sends.
func (s *Store) Aggregated(name string) []model.SecretSource {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []model.SecretSource
	for source := range s.held {
		if source.ADS && source.Name == name {
			out = append(out, source)
		}
	}
	return out
}

// setLocked puts a secret in the place of the one before.
func (s *Store) setLocked(h *Held, secret *model.Secret) {
	if before := h.Secret; before != nil {
		// Rotation may be frequent, and what was made of the old one large.
		delete(s.pairs, before.Certificate)
		if before.Validation != nil {
			delete(s.roots, before.Validation.CA)
		}
	}
	h.Secret, h.Updated, h.Fault = secret, time.Now(), ""
}

func (s *Store) ringLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Secrets lists what the store has and waits for, by name.
func (s *Store) Secrets() []Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Held
	for _, h := range s.held {
		s.refreshLocked(h)
		out = append(out, *h)
	}
	slices.SortFunc(out, func(a, b Held) int { return strings.Compare(a.Source.Name, b.Source.Name) })
	return out
}

// refreshLocked reads a file that has changed. One that is not there has not come yet.
func (s *Store) refreshLocked(h *Held) {
	if h.Source.File == "" {
		return
	}
	now := stampOf(h.Source.File)
	if now == h.stamp {
		return
	}
	h.stamp = now
	secret, err := s.read(h.Source.File, h.Source.Name)
	if err != nil {
		h.Fault, h.refused = err.Error(), h.refused || now.there
		s.log.Error("file of a secret refused; what it held before stays in force", "file", h.Source.File, "secret", h.Source.Name, "err", err)
		return
	}
	s.setLocked(h, secret)
}

// secretLocked is nil until it has come.
func (s *Store) secretLocked(from *model.SecretSource) *model.Secret {
	h := s.held[*from]
	if h == nil {
		return nil
	}
	s.refreshLocked(h)
	return h.Secret
}

// material is what a connection is to be secured with now.
func (s *Store) material(t *model.UpstreamTLS) (*material, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	certificate, validation := t.Certificate, t.Validation
	if from := t.CertificateSecret; from != nil {
		secret := s.secretLocked(from)
		if secret == nil || secret.Certificate == nil {
			return nil, fmt.Errorf("%w: %q", errNotSupplied, from.Name)
		}
		certificate = secret.Certificate
	}
	if from := t.ValidationSecret; from != nil {
		secret := s.secretLocked(from)
		if secret == nil || secret.Validation == nil {
			return nil, fmt.Errorf("%w: %q", errNotSupplied, from.Name)
		}
		validation = validation.Merge(*secret.Validation)
	}
	if validation.CA == nil && (len(validation.Names) > 0 || t.AutoSAN || t.HostSAN) {
		return nil, fmt.Errorf("%w: names are asked for, and there is no trusted_ca", errNotSupplied)
	}
	return s.makeLocked(certificate, &validation)
}

func (s *Store) makeLocked(certificate *model.Certificate, validation *model.Validation) (*material, error) {
	out := &material{names: validation.Names, expired: validation.AllowExpired}
	var err error
	if certificate != nil {
		files := [2]stamp{stampOf(certificate.Chain.File), stampOf(certificate.Key.File)}
		if out.certificate, err = parse(s, s.pairs, certificate, files, func() (*tls.Certificate, error) { return pairOf(certificate) }); err != nil {
			return nil, err
		}
	}
	if ca := validation.CA; ca != nil {
		out.roots, err = parse(s, s.roots, ca, [2]stamp{stampOf(ca.File)}, func() (*x509.CertPool, error) { return rootsOf(ca) })
	}
	return out, err
}

// parse makes something of files that have changed. What was made before stays if that fails: they may be written at the moment. It is then tried again when
// they have changed again, and not for each connection.
func parse[K comparable, T any](s *Store, known map[K]parsed[T], key K, of [2]stamp, from func() (T, error)) (T, error) {
	before, had := known[key]
	if had && before.of == of {
		return before.result, before.fault
	}
	result, err := from()
	switch {
	case err == nil:
		known[key] = parsed[T]{of: of, result: result, good: true}
	case before.good:
		s.log.Error("files of a certificate refused; what they held before stays in force", "err", err)
		before.of = of
		known[key] = before
		return before.result, nil
	default:
		known[key] = parsed[T]{of: of, fault: err}
	}
	return result, err
}

func pairOf(c *model.Certificate) (*tls.Certificate, error) {
	chain, err := textOf(&c.Chain)
	if err != nil {
		return nil, err
	}
	key, err := textOf(&c.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(chain, key)
	return &pair, err
}

func rootsOf(ca *model.Data) (*x509.CertPool, error) {
	text, err := textOf(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("no certificate in trusted_ca")
	}
	return pool, nil
}

func textOf(d *model.Data) ([]byte, error) {
	if d.File == "" {
		return d.Inline, nil
	}
	return files.Read(d.File, files.Text)
}

// stamp changes when a file is written, replaced, or pointed elsewhere.
type stamp struct {
	modified time.Time
	size     int64
	inode    uint64
	there    bool
}

func stampOf(path string) stamp {
	if path == "" {
		return stamp{}
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return stamp{}
	}
	return stamp{time.Unix(st.Mtim.Unix()), st.Size, st.Ino, true}
}
