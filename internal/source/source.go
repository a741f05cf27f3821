// SPDX-License-Identifier: Apache-2.0

// Package source is where a configuration comes from: the file of the bootstrap, files of resources, a control plane, DNS and secrets. It makes one
// *model.Config of them, with resolved names and clusters that are warm, and hands it to one function, Config.Activate.
//
// Each source has its package: watch reads files of resources, xds asks a control plane, resolve looks names up, secrets asks for secrets. This package
// loads the bootstrap (bootstrap.go, reload.go), puts resources together (dynamic.go), holds back clusters that wait (warming.go), leaves out what there is
// no capacity for (capacity.go), and says what is in force and what was refused (origins.go, describe.go).
package source

import (
	"context"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/mtls"
	"github.com/xlb-project/xlb/internal/source/intake"
	"github.com/xlb-project/xlb/internal/source/resolve"
	"github.com/xlb-project/xlb/internal/source/secrets"
	"github.com/xlb-project/xlb/internal/xds"
)

// Config is what a Source works with. All of it is needed, and safe for concurrent use.
type Config struct {
	// File is the one that the Bootstrap was loaded from.
	File   File
	Logger *slog.Logger
	// Version of this program, which the bootstrap is shown with.
	Version string
	// Activate puts a configuration in force. After an error the one before stays; shutdown.ErrEnding says that nothing was refused. It is called for one
	// configuration at a time: see Exclusive.
	Activate func(*model.Config) error
	// Cluster finds a cluster in force; nil: there is no such cluster.
	Cluster func(v model.View, name string) *model.Cluster
	// Took is given the text of a bootstrap that has come in force, and does not wait; nil: there is no use for it.
	Took func(text []byte)
	// Spawn calls f in a goroutine of its own.
	Spawn func(f func())
	// NewTicker sends at that pace while due reports true.
	NewTicker func(pace time.Duration, due func() bool) (call <-chan struct{}, stop func())

	// pace is that of what all views have from control planes; nil: there is one view.
	pace *xds.Pace
}

// Source puts configurations together and has them activated. Its methods are safe for concurrent use.
type Source struct {
	cfg     Config
	intake  *intake.Intake
	ignored *ignoredFields
	secrets *secrets.Secrets
	names   *resolve.Names
	dynamic *dynamic // nil: the file is all there is
	// bootstrap is the one in force as it is shown.
	bootstrap atomic.Pointer[bootstrapDump]

	// mu is held while one configuration replaces another. It guards the fields below, the dynamic resources, the resolved names, and whatever
	// Config.Activate changes.
	mu sync.Mutex
	// desired is what the sources say last that could be used. In unresolved, clusters that wait for their secrets are as they are in force; warming has
	// those clusters of desired, with the ones in force. In neither names are resolved.
	desired, unresolved *model.Config
	warming             map[*model.Cluster]*model.Cluster

	// watch has seen the bootstrap, which had sizeBefore bytes when it was read last. Both are ServeReloads'.
	watch      *files.Watch
	sizeBefore int64
	// freeMemory is debug.FreeOSMemory.
	freeMemory func()
}

// New returns a Source that begins with the static part of a bootstrap. Nothing runs yet. Close is to be called.
func New(c Config, b *Bootstrap) *Source {
	s := &Source{cfg: c, intake: intake.New(), ignored: newIgnoredFields(c.Logger), desired: b.Static, unresolved: b.Static, watch: b.watch, freeMemory: debug.FreeOSMemory}
	s.secrets = newSecrets(&c, b)
	s.names = resolve.New(resolve.Config{
		Logger: c.Logger, Lock: &s.mu, Source: func() *model.Config { return s.unresolved }, Activate: s.activateResolved, Spawn: c.Spawn,
	})
	return s
}

// newSecrets takes from the bootstrap of the start what does not change. To keep all of it would keep its routes.
func newSecrets(c *Config, b *Bootstrap) *secrets.Secrets {
	of := secrets.Config{Node: b.parsed.Asker(), Logger: c.Logger, Spawn: c.Spawn}
	if from := b.parsed.Dynamic; from != nil {
		of.ControlPlane = &secrets.ControlPlane{Servers: func() []xds.Server { return serversOf(from) }, Delta: from.Delta}
	}
	return secrets.New(of)
}

// Begin takes the bootstrap as the one in force, once its static part is, and prepares the sources that it names.
func (s *Source) Begin(b *Bootstrap) {
	if b.parsed.Dynamic != nil {
		s.dynamic = newDynamic(s.dynamicConfig(), b.parsed)
	}
	s.tookBootstrap(b)
}

func (s *Source) dynamicConfig() dynamicConfig {
	return dynamicConfig{log: s.cfg.Logger, lock: &s.mu, secrets: s.secrets, intake: s.intake, ignored: s.ignored, pace: s.cfg.pace, activate: s.activateWithinCapacity}
}

// Start reads the dynamic sources from now on, until Stop, and puts clusters in force that become warm, until ctx ends. What files of resources hold is in
// force when it returns.
func (s *Source) Start(ctx context.Context) {
	s.cfg.Spawn(func() { s.secrets.Run(ctx, s.rewarm) })
	if s.dynamic != nil {
		s.dynamic.start()
	}
}

// Await returns when there is something of each source and all secrets have come, or the time for that is up, or ctx ends. It reports what it waits for.
func (s *Source) Await(ctx context.Context, report func(error)) {
	if s.dynamic != nil {
		s.dynamic.await(ctx, report)
	}
	s.secrets.AwaitAll(ctx, report)
}

// Resolved reports whether something is known of each cluster whose endpoints DNS names.
func (s *Source) Resolved() bool { return s.names.Resolved() }

// Stop ends all that changes the configuration, but for secrets.
func (s *Source) Stop() {
	if s.dynamic != nil {
		s.dynamic.stop()
	}
	s.names.Stop()
}

// Close ends the asking for secrets and the look-ups of names.
func (s *Source) Close() {
	s.secrets.Stop()
	s.names.Stop()
}

// Exclusive calls f while no configuration is put in force, with the lock that Config.Activate is called with.
func (s *Source) Exclusive(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// Reactivate puts the configuration in force again: at the start, and when what Config.Activate makes of it has changed. What waits for its secrets goes on
// waiting.
func (s *Source) Reactivate() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.activate(s.desired)
}

// activate puts a configuration in force: as far as it is warm, and with the names that are resolved. Needs s.mu.
func (s *Source) activate(wanted *model.Config) error {
	desiredBefore, before := s.desired, s.unresolved
	s.desired, s.unresolved = wanted, s.hold(wanted)
	err := s.activateResolved(s.names.Resolve(s.unresolved))
	if err != nil {
		s.desired, s.unresolved = desiredBefore, before
		s.secrets.Apply(s.names.Resolve(before))
	}
	return err
}

// activateResolved puts a configuration in force whose names are resolved. Needs s.mu.
func (s *Source) activateResolved(cfg *model.Config) error {
	s.secrets.Apply(cfg)
	return s.cfg.Activate(cfg)
}

// Handshake secures a connection to an endpoint, and logs why it could not where that has changed.
func (s *Source) Handshake(ctx context.Context, conn net.Conn, p *mtls.Peer) (net.Conn, error) {
	return s.secrets.Handshake(ctx, conn, p)
}

// AwaitSecrets waits until all secrets of a context have come, were refused, or are late. It reports whether ctx has not ended before.
func (s *Source) AwaitSecrets(ctx context.Context, tls *model.UpstreamTLS) bool {
	return s.secrets.Await(ctx, tls)
}
