// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"net/netip"

	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// Chosen is an endpoint that has been chosen for a request. It implements slowpath.ChosenEndpoint.
type Chosen struct {
	s       *Selector
	index   uint32
	address netip.AddrPort
	// tls secures connections to it; nil: they are plain text.
	tls      *model.UpstreamTLS
	hostname string
	// inner: it is a listener of this process.
	inner bool
}

var (
	_ slowpath.Secured     = Chosen{}
	_ slowpath.InnerPicked = Chosen{}
)

// Endpoint is that endpoint as a chosen one. The caller has counted the request.
func (s *Selector) Endpoint(e reconcile.EndpointEntry) Chosen {
	return Chosen{s, e.Index, e.Address, e.TLS, e.Hostname, e.Inner}
}

// chosenAt is Endpoint for an index.
func (s *Selector) chosenAt(g *generation.Generation, index uint32) Chosen {
	e, _ := g.Endpoint(index)
	return s.Endpoint(e)
}

// Index is that of the endpoint in the kernel's maps.
func (c Chosen) Index() uint32 { return c.index }

// Inner implements slowpath.InnerPicked.
func (c Chosen) Inner() bool { return c.inner }

// Security implements slowpath.Secured.
func (c Chosen) Security() (*model.UpstreamTLS, string) { return c.tls, c.hostname }

// Address implements slowpath.ChosenEndpoint.
func (c Chosen) Address() netip.AddrPort { return c.address }

// Done implements slowpath.ChosenEndpoint.
func (c Chosen) Done(o slowpath.Outcome) {
	cfg := &c.s.cfg
	if o.Status != 0 && !cfg.Picker.Serving(c.index) {
		cfg.Answered(c.index, o.Workload)
	}
	cfg.Picker.Done(c.index)
	cfg.Done(c.index, o)
}
