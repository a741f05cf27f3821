// SPDX-License-Identifier: Apache-2.0

package source

import (
	"log/slog"
	"sync"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/logging"
	"github.com/xlb-project/xlb/internal/model"
)

// ignoredFields keeps which fields are accepted and not done. It is used at any time.
type ignoredFields struct {
	log       *slog.Logger
	mu        sync.Mutex
	bootstrap []config.Note
	// listeners by name.
	listeners map[string][]config.Note
	// logged are the reasons that the log has.
	logged map[string]bool
}

func newIgnoredFields(log *slog.Logger) *ignoredFields {
	return &ignoredFields{log: log, listeners: map[string][]config.Note{}, logged: map[string]bool{}}
}

// unloggedLocked returns those that the log does not have yet, each reason once.
func (p *ignoredFields) unloggedLocked(list []config.Note) []config.Note {
	var out []config.Note
	for _, n := range list {
		if !p.logged[n.Reason] {
			p.logged[n.Reason] = true
			out = append(out, n)
		}
	}
	return out
}

// noteBootstrap notes those on the bootstrap.
func (p *ignoredFields) noteBootstrap(b *config.Bootstrap) {
	p.mu.Lock()
	p.bootstrap = b.Notes()
	fresh := p.unloggedLocked(p.bootstrap)
	p.mu.Unlock()
	p.logNotes(fresh)
}

// noteResource notes those on a resource that has been accepted.
func (p *ignoredFields) noteResource(b *config.Bootstrap, kind config.Kind, name string, body *anypb.Any) {
	if kind != config.Listeners {
		return
	}
	list := b.NotesOn(kind, name, body)
	p.mu.Lock()
	p.listeners[name] = list
	fresh := p.unloggedLocked(list)
	p.mu.Unlock()
	p.logNotes(fresh)
}

func (p *ignoredFields) logNotes(list []config.Note) {
	for _, note := range list {
		p.log.Warn("accepted, and not done; \"xlb get notes\" lists all", "resource", logging.NonZero(note.Resource), "field", logging.NonZero(note.Path), "reason", note.Reason)
	}
}

// of lists the notes on the bootstrap and on those listeners.
func (p *ignoredFields) of(listeners []*model.Listener) []admin.Note {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.bootstrap
	for _, l := range listeners {
		list = append(list[:len(list):len(list)], p.listeners[l.Name]...)
	}
	out := make([]admin.Note, len(list))
	for i, note := range list {
		out[i] = admin.Note{Resource: note.Resource, Path: note.Path, Reason: note.Reason}
	}
	return out
}

// Notes lists what is accepted and not done of the bootstrap, and of the listeners in force.
func (s *Source) Notes(listeners []*model.Listener) []admin.Note { return s.ignored.of(listeners) }
