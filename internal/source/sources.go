// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/mtls"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source/intake"
	"github.com/xlb-project/xlb/internal/xds"
)

// Sources are those of all views. Each view has a Source of its own: what is wrong with one changes nothing of another. What all of them say is in force as
// one configuration. Its methods are safe for concurrent use.
type Sources struct {
	cfg Config
	// all are the Sources that there are. They are not changed, but exchanged, by the holder of mu.
	all atomic.Pointer[roster]
	// coming are those that are about to be among all; nil: no Source is. Handshake and AwaitSecrets find them already. The holder of mu exchanges them.
	coming atomic.Pointer[[]*viewSource]
	// views is what has come of the file that names the views.
	views *intake.Intake

	// mu is held while one configuration replaces another. The lock of a Source comes before it.
	mu sync.Mutex
	// merging makes one configuration of what the Sources say. Guarded by mu.
	merging merging
	// started: what the Sources say comes in force as it changes. Until then it is gathered. Guarded by mu.
	started bool
	// beginServe begins to look at the file of a view for changes; nil: files are not looked at, or no more. Guarded by mu.
	beginServe func(*viewSource)
}

// roster has Sources in the order of the numbers of their views, the shared one first, and what those counted that have gone.
type roster struct {
	views []*viewSource
	past  *pastCounts
}

// viewSource is the Source of one view.
type viewSource struct {
	*Source
	view model.View
	// again has its files read again, end ends that they are looked at, which serving waits for, and halt what Start has begun for secrets.
	again     chan os.Signal
	end, halt context.CancelFunc
	serving   sync.WaitGroup

	// part is what it has put in force; nil: nothing yet. isNew: it is gathered, and comes in force when the view is added. hasGone: it puts nothing in force any
	// more. Guarded by Sources.mu.
	part           *model.Config
	isNew, hasGone bool
	// isServed: its file is looked at. Guarded by Sources.mu, as end is.
	isServed bool
}

// NewSources returns Sources that begin with the static parts of bootstraps, of the shared view and of others. Nothing runs yet. Close is to be called.
// Config.File is of no consequence.
func NewSources(c Config, shared *Bootstrap, others ...*Bootstrap) *Sources {
	s := &Sources{cfg: c, views: intake.New(), merging: newMerging(c.Logger)}
	s.cfg.pace = xds.NewPace()
	list := []*viewSource{s.newSource(shared)}
	for _, b := range others {
		list = append(list, s.newSource(b))
	}
	s.all.Store(&roster{list, &pastCounts{}})
	return s
}

func (s *Sources) newSource(b *Bootstrap) *viewSource {
	v := &viewSource{view: b.file.View, again: make(chan os.Signal, 1), end: func() {}, halt: func() {}}
	of := s.cfg
	of.File, of.Activate = b.file, func(cfg *model.Config) error { return errorIn(v.view, s.put(v, cfg)) }
	if v.view.Name != "" {
		of.Logger = of.Logger.With("view", v.view.Name)
	}
	v.Source = New(of, b)
	return v
}

// Start is Source.Start, until leave at the latest.
func (v *viewSource) Start(ctx context.Context) {
	ctx, v.halt = context.WithCancel(ctx)
	v.Source.Start(ctx)
}

// list returns the Sources, the shared one first.
func (s *Sources) list() []*viewSource { return s.all.Load().views }

// put puts in force what one Source says, beside what the others have said.
func (s *Sources) put(v *viewSource, cfg *model.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.hasGone {
		return shutdown.ErrEnding
	}
	before := v.part
	v.part = cfg
	if !s.started || v.isNew {
		return nil
	}
	err := s.activateParts(partsOf(s.list()))
	if err != nil {
		v.part = before
	}
	return err
}

// partsOf are what Sources have put in force, in their order; nil: nothing yet.
func partsOf(list []*viewSource) []*model.Config {
	parts := make([]*model.Config, len(list))
	for i, v := range list {
		parts[i] = v.part
	}
	return parts
}

// shared is the Source of the shared view.
func (s *Sources) shared() *Source { return s.list()[0].Source }

// of is that of a view; nil: there is no such view, or it has gone.
func (s *Sources) of(view string) *Source { return sourceOf(s.list(), view) }

// secretsOf is that with the secrets of a view; nil: there is no such view, or it has gone.
func (s *Sources) secretsOf(view string) *Source {
	if coming := s.coming.Load(); coming != nil {
		if one := sourceOf(*coming, view); one != nil {
			return one
		}
	}
	return s.of(view)
}

func sourceOf(list []*viewSource, view string) *Source {
	for _, v := range list {
		if v.view.Name == view {
			return v.Source
		}
	}
	return nil
}

// Begin is Source.Begin, with the bootstraps that NewSources had.
func (s *Sources) Begin(shared *Bootstrap, others ...*Bootstrap) {
	for i, b := range append([]*Bootstrap{shared}, others...) {
		s.list()[i].Begin(b)
	}
}

// Start is Source.Start.
func (s *Sources) Start(ctx context.Context) {
	for _, one := range s.list() {
		one.Start(ctx)
	}
}

// Resolved is Source.Resolved.
func (s *Sources) Resolved() bool {
	return !slices.ContainsFunc(s.list(), func(one *viewSource) bool { return !one.Resolved() })
}

// Stop is Source.Stop.
func (s *Sources) Stop() {
	for _, one := range s.list() {
		one.Stop()
	}
}

// Close is Source.Close.
func (s *Sources) Close() {
	s.endMerging()
	for _, one := range s.list() {
		one.Close()
	}
}

// Exclusive is Source.Exclusive.
func (s *Sources) Exclusive(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Activate puts in force what the bootstraps say, at the start: all views at once.
func (s *Sources) Activate() error {
	for _, one := range s.list() {
		if err := one.Reactivate(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true
	return s.activateParts(partsOf(s.list()))
}

// Reactivate puts the configuration in force again, when what Config.Activate makes of it has changed.
func (s *Sources) Reactivate() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.activateParts(partsOf(s.list()))
}

// Handshake is Source.Handshake.
func (s *Sources) Handshake(ctx context.Context, conn net.Conn, p *mtls.Peer) (net.Conn, error) {
	one := s.secretsOf(p.TLS.View)
	if one == nil {
		return nil, fmt.Errorf("view %s has gone, and its secrets with it", p.TLS.View)
	}
	return one.Handshake(ctx, conn, p)
}

// AwaitSecrets is Source.AwaitSecrets. It waits for nothing where the view has gone.
func (s *Sources) AwaitSecrets(ctx context.Context, tls *model.UpstreamTLS) bool {
	one := s.secretsOf(tls.View)
	return one == nil || one.AwaitSecrets(ctx, tls)
}

// Describe is Source.Describe of the shared view, DescribeView that of another one.
func (s *Sources) Describe(c *admin.Config) { s.shared().Describe(c) }

// DescribeView is Describe of the view with that name, if there is one.
func (s *Sources) DescribeView(view string, c *admin.Config) {
	if one := s.of(view); one != nil {
		one.Describe(c)
	}
}

// Origins lists where the configuration of each view comes from, and the views themselves (admin.Source).
func (s *Sources) Origins() (list []admin.Origin) {
	list = s.views.List()
	for _, one := range s.list() {
		origins := one.Origins()
		for i := range origins {
			origins[i].View = one.view.Name
		}
		list = append(list, origins...)
	}
	return list
}

// OriginsByKind are the origins for the metrics, those of one kind and source in all views together (metrics.Source).
func (s *Sources) OriginsByKind() (list []metrics.Origin) {
	all := s.all.Load()
	list = s.views.Sum(s.views.List(), intake.Refused{})
	for _, one := range all.views {
		list = append(list, one.OriginsByKind()...)
	}
	list = metrics.JoinOrigins(list)
	all.past.addRefused(list)
	return list
}

// Notes is Source.Notes of each view.
func (s *Sources) Notes(listeners []*model.Listener) (list []admin.Note) {
	for _, one := range s.list() {
		view := one.view
		notes := one.Notes(slices.DeleteFunc(slices.Clone(listeners), func(l *model.Listener) bool { return l.View != view }))
		for i := range notes {
			notes[i].View = view.Name
		}
		list = append(list, notes...)
	}
	return list
}

// DynamicStats are Source.DynamicStats of all views together (metrics.JoinDynamic).
func (s *Sources) DynamicStats() map[string]uint64 {
	all := s.all.Load()
	var stats []map[string]uint64
	for _, one := range all.views {
		stats = append(stats, one.DynamicStats())
	}
	out := metrics.JoinDynamic(stats)
	all.past.addDynamic(out)
	return out
}

// ClusterUpdates is Source.ClusterUpdates of each view, by the keys of clusters.
func (s *Sources) ClusterUpdates() map[model.ClusterKey]*metrics.Updates {
	out := map[model.ClusterKey]*metrics.Updates{}
	for _, one := range s.list() {
		for name, u := range one.ClusterUpdates() {
			out[model.ClusterKey{View: one.view.Name, Name: name}] = u
		}
	}
	return out
}

// Subscriptions is Source.Subscriptions of all views.
func (s *Sources) Subscriptions() (tables, secrets []metrics.Subscription) {
	for _, one := range s.list() {
		t, c := one.Subscriptions()
		tables, secrets = append(tables, t...), append(secrets, c...)
	}
	return tables, secrets
}

// BootstrapVersion is Source.BootstrapVersion of the shared view.
func (s *Sources) BootstrapVersion() uint64 { return s.shared().BootstrapVersion() }
