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
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/model"
)

// Store has the secrets by which connections to endpoints are secured. It is safe for concurrent use. Its lock is held for no system call:
// who needs files waits for those alone, since the file system of others may be slow, or hang.
type Store struct {
	read func(path, name string) (*model.Secret, error)
	// due is files.Set.Due.
	due func(set *files.Set, paths []string, now time.Time) bool
	log *slog.Logger

	mu sync.Mutex
	// changed is closed when a secret has come that was waited for, or was refused; another takes its place. Guarded by mu.
	changed chan struct{}
	// held are secrets by where they come from. Guarded by mu.
	held map[model.SecretSource]*Held
	// refusedSecrets and refusedCertificates count what files held that was not taken.
	refusedSecrets, refusedCertificates atomic.Uint64
	// pairs and roots are what has been made of texts. Guarded by mu.
	pairs map[*model.Certificate]*made[*tls.Certificate]
	roots map[*model.Data]*made[*x509.CertPool]
}

// Held is a secret that the store has, or waits for.
type Held struct {
	Source model.SecretSource
	// Secret is nil until it has come.
	Secret  *model.Secret
	Version string
	Updated time.Time
	// Fault is why what came last was not taken, at FaultAt, and Cause the error itself; empty: it was taken.
	Fault   string
	FaultAt time.Time
	Cause   error
	// Taken and Refused count how often something has come that was taken, or was not; Unread how often that was a file that holds no resources at all.
	Taken, Refused, Unread uint64

	// file is the file that it is in.
	file *lookedAt
	// since is when it was first needed; refused: something has come of it that could not be used.
	since   time.Time
	refused bool
}

// pending reports whether it is waited for, as Envoy does: until it comes, or is refused, or its time is up.
func (h *Held) pending(now time.Time) bool {
	return h.Secret == nil && !h.refused && (h.Source.Patience == 0 || now.Sub(h.since) < h.Source.Patience)
}

// lookedAt is the file of a secret. Its lock is held by who looks at the file.
type lookedAt struct {
	mu    sync.Mutex
	watch files.Watch
	// there: it has been.
	there bool
}

// made is what was made of text, and of which files. Who needs it while it is made waits for that.
type made[T any] struct {
	mu     sync.Mutex
	of     files.Set
	result T
	// good: there is a result; otherwise there is a fault, or nothing has been whole yet.
	good  bool
	fault error
	// outcome of the last try; nil: there was none. It may be read while another is under way.
	outcome atomic.Pointer[Outcome]
}

// NewStore makes a store without secrets. Read reads one from a file of resources.
func NewStore(read func(path, name string) (*model.Secret, error), log *slog.Logger) *Store {
	return &Store{
		read: read, due: (*files.Set).Due, log: log, changed: make(chan struct{}), held: map[model.SecretSource]*Held{},
		pairs: map[*model.Certificate]*made[*tls.Certificate]{}, roots: map[*model.Data]*made[*x509.CertPool]{},
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
	out := &Held{}
	for _, h := range s.held {
		if source.ADS && h.Source.ADS && h.Source.Name == source.Name {
			*out = *h
		}
	}
	// Counts are of what has come since.
	out.Taken, out.Refused, out.Unread = 0, 0, 0
	out.Source, out.since, out.file = source, now, &lookedAt{}
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
	maps.DeleteFunc(s.pairs, func(c *model.Certificate, _ *made[*tls.Certificate]) bool { return !pairs[c] })
	maps.DeleteFunc(s.roots, func(d *model.Data, _ *made[*x509.CertPool]) bool { return !roots[d] })
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
	var sources []model.SecretSource
	for _, c := range contexts {
		for _, source := range c.Secrets() {
			sources = append(sources, *source)
		}
	}
	s.refreshSoon(sources)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range contexts {
		for _, source := range c.Secrets() {
			h := s.held[*source]
			if h == nil || slices.Contains(names, source.Name) || !h.pending(now) {
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
		h.refuse(fault)
		h.refused = true
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
	h.Secret, h.Updated, h.Fault, h.FaultAt, h.Cause = secret, time.Now(), "", time.Time{}, nil
	h.Taken++
}

func (s *Store) ringLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Secrets lists what the store has and waits for, by name.
func (s *Store) Secrets() []Held {
	s.refreshSoon(s.sources())
	return s.Held()
}

// Held is Secrets without a look at the files.
func (s *Store) Held() []Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Held
	for _, h := range s.held {
		out = append(out, *h)
	}
	slices.SortFunc(out, func(a, b Held) int { return strings.Compare(a.Source.Name, b.Source.Name) })
	return out
}

func (s *Store) sources() []model.SecretSource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.held))
}

// refreshSoon reads those files that have changed, and gives their answers a moment: others wait for the lock that who asks holds. What takes longer is there for who asks later, and is not waited for again.
func (s *Store) refreshSoon(sources []model.SecretSource) {
	var all sync.WaitGroup
	for _, source := range sources {
		file := s.fileOf(source)
		if file == nil || !file.mu.TryLock() {
			continue
		}
		all.Go(func() {
			defer file.mu.Unlock()
			s.refreshLocked(source, file)
		})
	}
	files.Wait(&all, files.Glance, nil)
}

// fileOf is nil for a secret that is not in a file, or that nobody needs.
func (s *Store) fileOf(from model.SecretSource) *lookedAt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.held[from]; h != nil && from.File != "" {
		return h.file
	}
	return nil
}

// refresh reads a file that has changed, and is whole. One that is not there has not come yet.
func (s *Store) refresh(from model.SecretSource) {
	file := s.fileOf(from)
	if file == nil {
		return
	}
	file.mu.Lock()
	defer file.mu.Unlock()
	s.refreshLocked(from, file)
}

// refreshLocked needs the file's lock.
func (s *Store) refreshLocked(from model.SecretSource, file *lookedAt) {
	now := time.Now()
	stamp, due := file.watch.Due(from.File, now)
	if !due || !file.there && !stamp.There() {
		return
	}
	secret, err := s.read(from.File, from.Name)
	if !file.watch.Take(from.File, stamp, err) {
		return // it has changed meanwhile: who comes next reads it again
	}
	file.watch.Again(err, now)
	file.there = true
	if err != nil {
		s.log.Error("file of a secret refused; what it held before stays in force", "file", from.File, "secret", from.Name, "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[from]
	switch {
	case h == nil || h.file != file: // nobody needs it any more
	case err != nil:
		h.refuse(err)
		h.refused = h.refused || stamp.There()
		s.refusedSecrets.Add(1)
	default:
		s.setLocked(h, secret)
	}
}

// secretLocked is nil until it has come.
func (s *Store) secretLocked(from *model.SecretSource) *model.Secret {
	if h := s.held[*from]; h != nil {
		return h.Secret
	}
	return nil
}

// material is what a connection is to be secured with now.
func (s *Store) material(t *model.UpstreamTLS) (*material, error) {
	for _, from := range t.Secrets() {
		s.refresh(*from)
	}
	p, err := s.partsOf(t)
	if err != nil {
		return nil, err
	}
	out := &material{names: p.validation.Names, expired: p.validation.AllowExpired}
	if c := p.certificate; c != nil {
		if out.certificate, err = p.pair.get(s, []string{c.Chain.File, c.Key.File}, func() (*tls.Certificate, error) { return pairOf(c) }); err != nil {
			return nil, err
		}
	}
	if ca := p.validation.CA; ca != nil {
		out.roots, err = p.roots.get(s, []string{ca.File}, func() (*x509.CertPool, error) { return rootsOf(ca) })
	}
	return out, err
}

// parts are what material is made of.
type parts struct {
	certificate *model.Certificate // nil: there is none
	validation  model.Validation
	pair        *made[*tls.Certificate]
	roots       *made[*x509.CertPool]
}

func (s *Store) partsOf(t *model.UpstreamTLS) (p parts, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.certificate, p.validation = t.Certificate, t.Validation
	if from := t.CertificateSecret; from != nil {
		secret := s.secretLocked(from)
		if secret == nil || secret.Certificate == nil {
			return p, fmt.Errorf("%w: %q", errNotSupplied, from.Name)
		}
		p.certificate = secret.Certificate
	}
	if from := t.ValidationSecret; from != nil {
		secret := s.secretLocked(from)
		if secret == nil || secret.Validation == nil {
			return p, fmt.Errorf("%w: %q", errNotSupplied, from.Name)
		}
		p.validation = p.validation.Merge(*secret.Validation)
	}
	if p.validation.CA == nil && (len(p.validation.Names) > 0 || t.AutoSAN || t.HostSAN) {
		return p, fmt.Errorf("%w: names are asked for, and there is no trusted_ca", errNotSupplied)
	}
	// Here, where they are known to be needed: Put and Follow forget what is not.
	if p.certificate != nil {
		p.pair = entryOf(s.pairs, p.certificate)
	}
	if p.validation.CA != nil {
		p.roots = entryOf(s.roots, p.validation.CA)
	}
	return p, nil
}

func entryOf[K comparable, T any](known map[K]*made[T], key K) *made[T] {
	if known[key] == nil {
		known[key] = &made[T]{}
	}
	return known[key]
}

// errUnsettled is of files that are not whole, where nothing was before.
var errUnsettled = errors.New("is being written")

// maxReads bounds how often files are read that have changed meanwhile.
const maxReads = 3

// get makes something of files that have changed, and are whole, all of one rotation. What was made before stays where they are not, or if that fails. It is
// then tried again when they have changed again, and not for each connection.
func (m *made[T]) get(s *Store, paths []string, from func() (T, error)) (T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range maxReads {
		now := time.Now()
		if !s.due(&m.of, paths, now) {
			break
		}
		result, err := from()
		if m.of.Take(paths, err) {
			m.note(s, paths, result, err)
			m.of.Again(err, now)
			break
		}
	}
	if !m.good && m.fault == nil {
		return m.result, fmt.Errorf("%s: %w", strings.Join(named(paths), " or "), errUnsettled)
	}
	return m.result, m.fault
}

// named are the paths of those that are files.
func named(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path == "" })
}

// note takes what was made of files. Needs mu.
func (m *made[T]) note(s *Store, paths []string, result T, err error) {
	if len(named(paths)) > 0 {
		m.outcome.Store(s.outcomeOf(m.outcome.Load(), err))
	}
	switch {
	case err == nil:
		m.result, m.good, m.fault = result, true, nil
	case m.good:
		s.log.Error("files of a certificate refused; what they held before stays in force", "err", err)
	default:
		m.fault = err
	}
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
		return d.Inline, files.CheckPEM(d.Inline)
	}
	text, err := files.Read(d.File, files.Text)
	if err != nil {
		return nil, err
	}
	if err := files.CheckPEM(text); err != nil {
		return nil, fmt.Errorf("%s: %w", d.File, err)
	}
	return text, nil
}
