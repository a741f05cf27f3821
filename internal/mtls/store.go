// SPDX-License-Identifier: Apache-2.0

package mtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// Store has the secrets by which connections to endpoints are secured. It is safe for concurrent use.
type Store struct {
	read func(path, name string) (*model.Secret, error)
	log  *slog.Logger

	mu sync.Mutex
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
}

// parsed is what was made of text, and of which files.
type parsed[T any] struct {
	of     [2]stamp
	result T
}

// NewStore makes a store without secrets. Read reads one from a file of resources.
func NewStore(read func(path, name string) (*model.Secret, error), log *slog.Logger) *Store {
	return &Store{
		read: read, log: log, held: map[model.SecretSource]*Held{},
		pairs: map[*model.Certificate]parsed[*tls.Certificate]{}, roots: map[*model.Data]parsed[*x509.CertPool]{},
	}
}

// Follow makes these the secrets that are needed, and forgets others. It returns those that somebody has to ask for.
func (s *Store) Follow(contexts []*model.UpstreamTLS) []model.SecretSource {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed := map[model.SecretSource]*Held{}
	for _, c := range contexts {
		for _, source := range c.Secrets() {
			if needed[*source] = s.held[*source]; needed[*source] == nil {
				needed[*source] = &Held{Source: *source}
			}
		}
	}
	s.held = needed
	clear(s.pairs)
	clear(s.roots)
	var asked []model.SecretSource
	for source := range needed {
		if source.File == "" {
			asked = append(asked, source)
		}
	}
	slices.SortFunc(asked, func(a, b model.SecretSource) int { return strings.Compare(a.Name, b.Name) })
	return asked
}

// Put takes a secret that has come, or what was wrong with it: then the one before stays.
func (s *Store) Put(from model.SecretSource, secret *model.Secret, version string, fault error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[from]
	if h == nil {
		return
	}
	if fault != nil {
		h.Fault = fault.Error()
		return
	}
	h.Secret, h.Version, h.Updated, h.Fault = secret, version, time.Now(), ""
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

// Missing names the secrets that have not come in so long a time. One without patience is waited for without end.
func (s *Store) Missing(waited time.Duration) []string {
	var out []string
	for _, h := range s.Secrets() {
		if h.Secret == nil && (h.Source.Patience == 0 || waited < h.Source.Patience) {
			out = append(out, h.Source.Name)
		}
	}
	return out
}

// refreshLocked reads a file that has changed.
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
		h.Fault = err.Error()
		s.log.Error("file of a secret refused; what it held before stays in force", "file", h.Source.File, "secret", h.Source.Name, "err", err)
		return
	}
	h.Secret, h.Updated, h.Fault = secret, time.Now(), ""
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
	if validation.CA == nil && (len(validation.Names) > 0 || t.AutoSAN) {
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

// parse makes something of files that have changed. What was made before stays if that fails: they may be written at the moment.
func parse[K comparable, T any](s *Store, known map[K]parsed[T], key K, of [2]stamp, from func() (T, error)) (T, error) {
	before, had := known[key]
	if had && before.of == of {
		return before.result, nil
	}
	result, err := from()
	if err != nil && had {
		s.log.Error("files of a certificate refused; what they held before stays in force", "err", err)
		return before.result, nil
	}
	if err == nil {
		known[key] = parsed[T]{of, result}
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
	return os.ReadFile(d.File)
}

// stamp changes when a file is written, replaced, or pointed elsewhere.
type stamp struct {
	modified time.Time
	size     int64
	there    bool
}

func stampOf(path string) stamp {
	if path == "" {
		return stamp{}
	}
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size(), true}
}
