// SPDX-License-Identifier: Apache-2.0

// Package activate puts configurations in force: it compiles one, switches the kernel to it, publishes it as one Generation (activate.go), and then has those
// follow that work with endpoints, listeners and clusters, each by the change and not by the whole. One of them are the pools (pools.go).
package activate

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/match"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/shutdown"
)

// Config is what an Activator works with. All of it is needed.
type Config struct {
	Reconciler *reconcile.Reconciler
	Logger     *slog.Logger
	// Ending is closed when the daemon is to end.
	Ending <-chan struct{}
	// Complete adds to a configuration what this host and its own listeners decide. It changes a copy.
	Complete func(cfg *model.Config) *model.Config
	// ClustersLeave is called before clusters go: what their endpoints have counted is not found any more afterwards.
	ClustersLeave func()
	// Followers are called in this order when a configuration is in force.
	Followers []func(*Change)
}

// Change is what a configuration in force has changed. It is not to be changed itself.
type Change struct {
	Before, Now *generation.Generation
	// LostClusters reports whether clusters have gone.
	LostClusters bool
	// Kernel is what has changed in the kernel's maps since the change before.
	Kernel reconcile.Changes
}

// Activator puts configurations in force, one at a time.
type Activator struct {
	cfg      Config
	compiler *compile.Compiler
	matchers *match.Builder
	// current is what is in force.
	current atomic.Pointer[generation.Generation]
	// switching is held for writing while kernel and generation change. A choice that has found no endpoint waits for it.
	switching sync.RWMutex
}

// New returns an Activator with nothing in force.
func New(cfg Config) *Activator {
	a := &Activator{cfg: cfg, compiler: compile.NewCompiler(), matchers: match.NewBuilder()}
	a.current.Store(generation.Empty())
	return a
}

// Generation is what is in force. It never waits.
func (a *Activator) Generation() *generation.Generation { return a.current.Load() }

// AwaitSwitch waits for a configuration that is being put in force.
func (a *Activator) AwaitSwitch() {
	a.switching.RLock()
	a.switching.RUnlock() //nolint:staticcheck // the wait is all
}

// While calls f and keeps any other configuration from coming into force meanwhile. It reports false, and does not call f, where g is no longer in force.
func (a *Activator) While(g *generation.Generation, f func()) bool {
	a.switching.RLock()
	defer a.switching.RUnlock()
	if a.current.Load() != g {
		return false
	}
	f()
	return true
}

// Activate puts a configuration in force whose names are resolved. After an error the one before is in force; shutdown.ErrEnding: the daemon ends. One call
// at a time.
func (a *Activator) Activate(cfg *model.Config) error {
	cfg = a.cfg.Complete(cfg)
	made, ok := shutdown.Unless(a.cfg.Ending, func() compiled { return a.compile(cfg) })
	if !ok {
		return shutdown.ErrEnding
	}
	before := a.current.Load()
	a.logNotes(before, made.notes)
	a.logIgnored(before.Config(), cfg)
	clusters := model.ChangeOf(before.Config().Clusters, cfg.Clusters)
	change := &Change{Before: before, LostClusters: len(clusters.Lost()) > 0}
	if change.LostClusters {
		a.cfg.ClustersLeave()
	}
	if err := a.publish(cfg, &made, change); err != nil {
		return err
	}
	a.logForgotten(change)
	for _, follow := range a.cfg.Followers {
		follow(change)
	}
	return nil
}

// compiled is what is made of a configuration before anything is changed.
type compiled struct {
	image    *compile.Image
	matchers map[*model.RouteTable]*match.Table
	notes    []note.Note
}

// compile takes seconds where there are thousands of regular expressions. It touches nothing but the compiler and the builder: where the daemon ends it may
// run on.
func (a *Activator) compile(cfg *model.Config) compiled {
	image, notes := a.compiler.Compile(cfg)
	return compiled{image, a.matchers.Build(cfg), notes}
}

// logNotes logs the notes that the configuration before did not have: endpoints may change often.
func (a *Activator) logNotes(before *generation.Generation, notes []note.Note) {
	known := map[note.Note]bool{}
	for _, note := range before.Notes() {
		known[note] = true
	}
	for _, note := range notes {
		if !known[note] {
			a.cfg.Logger.Warn("served by the slow path", "where", note.Where, "reason", note.Reason)
		}
	}
}

// logIgnored logs which listeners are left alone, once.
func (a *Activator) logIgnored(before, cfg *model.Config) {
	for _, p := range cfg.Passed {
		if !slices.Contains(before.Passed, p) {
			a.cfg.Logger.Info("listener left alone", "listener", p.Listener, "address", p.Address, "reason", p.Why)
		}
	}
}

// logForgotten logs that connections are closed sooner than those of listeners that are removed should be.
func (a *Activator) logForgotten(change *Change) {
	if n := change.Now.Forgotten() - change.Before.Forgotten(); n > 0 {
		a.cfg.Logger.Warn("removed listeners have lost their routes before their time; the next request of a connection that is left gets 404, and the connection closes",
			"listeners", n, "remedy", "remove fewer listeners within ten minutes")
	}
}

// publish changes the kernel, and then the slow path, whose requests never wait for it: until the end they find what they have found before. It notes in the
// change what has become another since the last time that it did so.
func (a *Activator) publish(cfg *model.Config, made *compiled, change *Change) error {
	a.switching.Lock()
	defer a.switching.Unlock()
	if err := a.cfg.Reconciler.Switch(made.image); err != nil {
		return fmt.Errorf("write configuration to the kernel: %w", err)
	}
	change.Kernel = a.cfg.Reconciler.Changed()
	change.Now = change.Before.Next(&generation.Input{
		Config: cfg, Matchers: made.matchers, Notes: made.notes, Changes: &change.Kernel, Kernel: a.cfg.Reconciler, At: time.Now(),
	})
	a.current.Store(change.Now)
	return nil
}
