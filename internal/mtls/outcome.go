// SPDX-License-Identifier: Apache-2.0

package mtls

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// Outcome is what has come of the files of a certificate, or of an authority, which are read when a connection needs them.
type Outcome struct {
	// Files are those with the certificate and its key, or with the authority, joined by a comma.
	Files string
	// Taken is when they were last read and good.
	Taken time.Time
	// Fault is why what they held last, at FaultAt, is not used; nil: it is.
	Fault   error
	FaultAt time.Time
	// Refused counts how often that was so.
	Refused uint64
}

// outcomeOf is the next outcome.
func (s *Store) outcomeOf(before *Outcome, fault error) *Outcome {
	next := Outcome{}
	if before != nil {
		next = *before
	}
	next.Fault, next.FaultAt = fault, time.Time{}
	if fault == nil {
		next.Taken = time.Now()
		return &next
	}
	next.FaultAt = time.Now()
	next.Refused++
	s.refusedCertificates.Add(1)
	return &next
}

// refuse keeps why what has come is not used.
func (h *Held) refuse(fault error) {
	h.Fault, h.FaultAt, h.Cause = fault.Error(), time.Now(), fault
	h.Refused++
	if errors.As(fault, new(unreadable)) {
		h.Unread++
	}
}

// unreadable is an error that says that a file holds no resources at all. Envoy counts that apart.
type unreadable interface{ Unreadable() }

// RefusedFiles counts how often files were refused: of secrets, and of certificates and authorities that the configuration names.
func (s *Store) RefusedFiles() (secrets, certificates uint64) {
	return s.refusedSecrets.Load(), s.refusedCertificates.Load()
}

// Certificates lists what has come of files with certificates and authorities, by their names. It does not look at them.
func (s *Store) Certificates() []Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]*Outcome{}
	for c, m := range s.pairs {
		merge(all, m.outcome.Load(), &c.Chain, &c.Key)
	}
	for ca, m := range s.roots {
		merge(all, m.outcome.Load(), ca)
	}
	out := make([]Outcome, 0, len(all))
	for _, files := range slices.Sorted(maps.Keys(all)) {
		out = append(out, *all[files])
	}
	return out
}

// merge adds what was tried and is in files. Several clusters may name the same: a fault that one has found is that of all.
func merge(all map[string]*Outcome, o *Outcome, of ...*model.Data) {
	var paths []string
	for _, d := range of {
		if d.File != "" {
			paths = append(paths, d.File)
		}
	}
	if o == nil || len(paths) == 0 {
		return
	}
	named := *o
	named.Files = strings.Join(paths, ", ")
	before := all[named.Files]
	if before == nil {
		all[named.Files] = &named
		return
	}
	if before.Fault == nil {
		before.Fault, before.FaultAt = named.Fault, named.FaultAt
	}
	if named.Taken.After(before.Taken) {
		before.Taken = named.Taken
	}
	before.Refused += named.Refused
}
