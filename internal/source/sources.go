// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/mtls"
	"github.com/xlb-project/xlb/internal/xds"
)

// Sources are those of all views. Each view has a Source of its own: what is wrong with one changes nothing of another. What all of them say is in force as
// one configuration. Its methods are safe for concurrent use.
type Sources struct {
	activate func(*model.Config) error
	// all are the Sources in the order of views, the shared one first.
	all []*Source

	// mu is held while one configuration replaces another. The lock of a Source comes before it.
	mu sync.Mutex
	// parts are what the Sources have put in force, in their order; nil: nothing yet. Guarded by mu.
	parts []*model.Config
	// started: parts come in force as they change. Until then they are gathered. Guarded by mu.
	started bool
}

// NewSources returns Sources that begin with the static parts of bootstraps, of the shared view and of others. Nothing runs yet. Close is to be called.
// Config.File is of no consequence.
func NewSources(c Config, shared *Bootstrap, others ...*Bootstrap) *Sources {
	s := &Sources{activate: c.Activate, parts: make([]*model.Config, 1+len(others))}
	pace := xds.NewPace()
	for i, b := range append([]*Bootstrap{shared}, others...) {
		of := c
		of.pace = pace
		of.File, of.Activate = b.file, func(cfg *model.Config) error { return s.put(i, cfg) }
		if b.file.View.Name != "" {
			of.Logger = c.Logger.With("view", b.file.View.Name)
		}
		s.all = append(s.all, New(of, b))
	}
	return s
}

// put puts in force what one Source says, beside what the others have said.
func (s *Sources) put(of int, cfg *model.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := slices.Clone(s.parts)
	parts[of] = cfg
	if s.started {
		if err := s.activate(merged(parts)); err != nil {
			return err
		}
	}
	s.parts = parts
	return nil
}

// merged is one configuration of those of all views. What concerns the whole process is the shared one's. The clusters of a view stand together: where one view
// alone has changed, the lists differ there alone.
func merged(parts []*model.Config) *model.Config {
	if len(parts) == 1 && parts[0] != nil {
		return parts[0]
	}
	out := &model.Config{}
	if shared := parts[0]; shared != nil {
		*out = *shared
		out.Listeners, out.Clusters, out.Passed = slices.Clip(out.Listeners), slices.Clip(out.Clusters), slices.Clip(out.Passed)
	}
	for _, p := range parts[1:] {
		if p == nil {
			continue
		}
		out.Listeners, out.Clusters, out.Passed = append(out.Listeners, p.Listeners...), append(out.Clusters, p.Clusters...), append(out.Passed, p.Passed...)
	}
	return out
}

// shared is the Source of the shared view.
func (s *Sources) shared() *Source { return s.all[0] }

// of is that of a view; the shared one's where there is no such view.
func (s *Sources) of(view string) *Source {
	for _, one := range s.all {
		if one.cfg.File.View.Name == view {
			return one
		}
	}
	return s.shared()
}

// Begin is Source.Begin, with the bootstraps that NewSources had.
func (s *Sources) Begin(shared *Bootstrap, others ...*Bootstrap) {
	for i, b := range append([]*Bootstrap{shared}, others...) {
		s.all[i].Begin(b)
	}
}

// Start is Source.Start.
func (s *Sources) Start(ctx context.Context) {
	for _, one := range s.all {
		one.Start(ctx)
	}
}

// Resolved is Source.Resolved.
func (s *Sources) Resolved() bool {
	return !slices.ContainsFunc(s.all, func(one *Source) bool { return !one.Resolved() })
}

// ServeReloads is Source.ServeReloads: reload has all files read again.
func (s *Sources) ServeReloads(ctx context.Context, reload <-chan os.Signal) {
	if len(s.all) == 1 {
		s.shared().ServeReloads(ctx, reload)
		return
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	var told []chan os.Signal
	for _, one := range s.all {
		again := make(chan os.Signal, 1)
		told = append(told, again)
		serving.Go(func() { one.ServeReloads(ctx, again) })
	}
	for {
		select {
		case <-ctx.Done():
			return
		case signal := <-reload:
			for _, again := range told {
				select {
				case again <- signal:
				default: // it has yet to begin with the one before
				}
			}
		}
	}
}

// Stop is Source.Stop.
func (s *Sources) Stop() {
	for _, one := range s.all {
		one.Stop()
	}
}

// Close is Source.Close.
func (s *Sources) Close() {
	for _, one := range s.all {
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
	for _, one := range s.all {
		if err := one.Reactivate(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true
	return s.activate(merged(s.parts))
}

// Reactivate puts the configuration in force again, when what Config.Activate makes of it has changed.
func (s *Sources) Reactivate() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.activate(merged(s.parts))
}

// Handshake is Source.Handshake.
func (s *Sources) Handshake(ctx context.Context, conn net.Conn, p *mtls.Peer) (net.Conn, error) {
	return s.of(p.TLS.View).Handshake(ctx, conn, p)
}

// AwaitSecrets is Source.AwaitSecrets.
func (s *Sources) AwaitSecrets(ctx context.Context, tls *model.UpstreamTLS) bool {
	return s.of(tls.View).AwaitSecrets(ctx, tls)
}

// Describe is Source.Describe of the shared view, DescribeView that of another one.
func (s *Sources) Describe(c *admin.Config) { s.shared().Describe(c) }

// DescribeView is Describe of the view with that name.
func (s *Sources) DescribeView(view string, c *admin.Config) { s.of(view).Describe(c) }

// Origins lists where the configuration of each view comes from (admin.Source).
func (s *Sources) Origins() (list []admin.Origin) {
	for _, one := range s.all {
		origins := one.Origins()
		for i := range origins {
			origins[i].View = one.cfg.File.View.Name
		}
		list = append(list, origins...)
	}
	return list
}

// OriginsByKind are the origins for the metrics, those of one kind and source in all views together (metrics.Source).
func (s *Sources) OriginsByKind() (list []metrics.Origin) {
	for _, one := range s.all {
		list = append(list, one.OriginsByKind()...)
	}
	return metrics.JoinOrigins(list)
}

// Notes is Source.Notes of each view.
func (s *Sources) Notes(listeners []*model.Listener) (list []admin.Note) {
	for _, one := range s.all {
		view := one.cfg.File.View
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
	var all []map[string]uint64
	for _, one := range s.all {
		all = append(all, one.DynamicStats())
	}
	return metrics.JoinDynamic(all)
}

// ClusterUpdates is Source.ClusterUpdates of each view, by the keys of clusters.
func (s *Sources) ClusterUpdates() map[model.ClusterKey]*metrics.Updates {
	out := map[model.ClusterKey]*metrics.Updates{}
	for _, one := range s.all {
		for name, u := range one.ClusterUpdates() {
			out[one.cfg.File.View.Cluster(name)] = u
		}
	}
	return out
}

// Subscriptions is Source.Subscriptions of all views.
func (s *Sources) Subscriptions() (tables, secrets []metrics.Subscription) {
	for _, one := range s.all {
		t, c := one.Subscriptions()
		tables, secrets = append(tables, t...), append(secrets, c...)
	}
	return tables, secrets
}

// BootstrapVersion is Source.BootstrapVersion of the shared view.
func (s *Sources) BootstrapVersion() uint64 { return s.shared().BootstrapVersion() }
