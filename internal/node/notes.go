// SPDX-License-Identifier: Apache-2.0

package node

import (
	"sync"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/logging"
)

// passedOver keeps what is accepted and not done. It is used at any time.
type passedOver struct {
	mu        sync.Mutex
	bootstrap []config.Note
	// listeners by name.
	listeners map[string][]config.Note
	// said are the reasons that the log has.
	said map[string]bool
}

func newPassedOver() *passedOver {
	return &passedOver{listeners: map[string][]config.Note{}, said: map[string]bool{}}
}

// news returns those that the log does not have yet, each reason once.
func (p *passedOver) news(list []config.Note) []config.Note {
	var out []config.Note
	for _, n := range list {
		if !p.said[n.Reason] {
			p.said[n.Reason] = true
			out = append(out, n)
		}
	}
	return out
}

// noteBootstrap notes those on the bootstrap.
func (n *Node) noteBootstrap(b *config.Bootstrap) {
	p := n.passed
	p.mu.Lock()
	p.bootstrap = b.Notes()
	fresh := p.news(p.bootstrap)
	p.mu.Unlock()
	n.sayNotes(fresh)
}

// noteResource notes those on a resource that has been accepted.
func (n *Node) noteResource(b *config.Bootstrap, kind config.Kind, name string, body *anypb.Any) {
	if kind != config.Listeners {
		return
	}
	list := b.NotesOn(kind, name, body)
	p := n.passed
	p.mu.Lock()
	p.listeners[name] = list
	fresh := p.news(list)
	p.mu.Unlock()
	n.sayNotes(fresh)
}

func (n *Node) sayNotes(list []config.Note) {
	for _, note := range list {
		n.log.Warn("accepted, and not done; \"xlb get notes\" lists all", "resource", logging.NonZero(note.Resource), "field", logging.NonZero(note.Path), "reason", note.Reason)
	}
}

// Notes implements admin.Source: those on what is in force.
func (n *Node) Notes() []admin.Note {
	n.passed.mu.Lock()
	defer n.passed.mu.Unlock()
	list := n.passed.bootstrap
	for _, l := range n.generation.Load().Config().Listeners {
		list = append(list[:len(list):len(list)], n.passed.listeners[l.Name]...)
	}
	out := make([]admin.Note, len(list))
	for i, note := range list {
		out[i] = admin.Note{Resource: note.Resource, Path: note.Path, Reason: note.Reason}
	}
	return out
}
