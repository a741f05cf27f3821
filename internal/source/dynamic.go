// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shutdown"
	"github.com/xlb-project/xlb/internal/source/intake"
	"github.com/xlb-project/xlb/internal/source/secrets"
	"github.com/xlb-project/xlb/internal/source/watch"
	"github.com/xlb-project/xlb/internal/xds"
)

// dynamicConfig is what dynamic resources are put together with.
type dynamicConfig struct {
	log *slog.Logger
	// lock is that of the Source: one configuration changes at a time.
	lock    sync.Locker
	secrets *secrets.Secrets
	intake  *intake.Intake
	ignored *ignoredFields
	pace    *xds.Pace
	// activate puts a configuration in force, and adds to wrong what there is no capacity for. Needs the lock.
	activate func(cfg *model.Config, wrong *intake.Refusal) error
}

// dynamic puts in force what a control plane and files of resources say. Its lock guards what no comment says otherwise of.
type dynamic struct {
	dynamicConfig
	// bootstrap is read by checks, too.
	bootstrap atomic.Pointer[config.Bootstrap]
	// served is what the control plane has sent, read what the files hold.
	served config.Resources
	// assignments have changed since a configuration was assembled; others says that anything else may have.
	assignments []string
	others      bool
	// warm are the clusters of a file that may be in force, by name, cold those that wait for their secrets.
	warm map[string]*anypb.Any
	cold map[string]bool
	read map[config.File][]config.Named
	// fileResources has what is to be shown of each file's resources by name, also of those that were refused.
	fileResources map[config.File]map[string]fileResource
	files         *watch.Files
	// missing says what there has been nothing of yet. In force: what there is has been put in force once.
	missing  map[string]bool
	complete chan struct{}
	counters dynamicCounters
	// subscribed are the subscriptions of the last configuration. They are read at any time.
	subscribed atomic.Pointer[subscriptions]
	// left is what was left out the last time.
	left string
	// client is that of the control plane, or nil.
	client *xds.Client

	running sync.WaitGroup
	// ctx ends by stop.
	ctx    context.Context
	cancel context.CancelFunc
}

// dynamicCounters count the results of changes. They are read at any time.
type dynamicCounters struct {
	// activated changes are in force; rejected ones changed nothing; of partly ones something was left out; resources have been refused on their own.
	activated, rejected, partly, resources atomic.Uint64
}

func newDynamic(c dynamicConfig, b *config.Bootstrap) *dynamic {
	d := &dynamic{dynamicConfig: c, read: map[config.File][]config.Named{}, fileResources: map[config.File]map[string]fileResource{}, warm: map[string]*anypb.Any{}, missing: map[string]bool{}, complete: make(chan struct{}), others: true}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.files = watch.New(watch.Config{Parse: d.parse, Stopped: d.ctx.Done()})
	d.bootstrap.Store(b)
	for _, f := range b.Dynamic.RootFiles() {
		d.missing[fmt.Sprintf("%s from %s", f.Kind, f.Path)] = true
	}
	if what := d.servers(); what != "" {
		d.missing[what] = true
	}
	if len(d.missing) == 0 {
		close(d.complete)
	}
	d.client = d.newClient()
	return d
}

// servers says what the daemon takes from the control plane, and where; empty: there is no control plane.
func (d *dynamic) servers() string {
	b := d.bootstrap.Load()
	var kinds, addresses []string
	for _, k := range b.Dynamic.Roots() {
		kinds = append(kinds, k.String())
	}
	for _, k := range []config.Kind{config.Assignments, config.Routes} {
		if len(kinds) == 0 && len(b.Dynamic.Names(k)) > 0 {
			kinds = append(kinds, k.String())
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	for _, s := range b.Dynamic.Servers {
		addresses = append(addresses, s.Address)
	}
	return strings.Join(kinds, " and ") + " from " + strings.Join(addresses, ", ")
}

// start reads all sources from now on, until stop.
func (d *dynamic) start() {
	// What is there already is in force before anything is served.
	d.takeFiles()
	d.running.Go(d.pollFiles)
	if d.client != nil {
		d.running.Go(func() { d.client.Run(d.ctx) })
	}
}

func (d *dynamic) stop() {
	d.cancel()
	d.running.Wait()
}

// await returns when there is something of every source, or the time for that is up, or ctx ends. What is static is served then in any case. It reports
// what it waits for.
func (d *dynamic) await(ctx context.Context, report func(error)) {
	var late <-chan time.Time
	if patience := d.bootstrap.Load().Dynamic.FetchTimeout; patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}
	report(d.waiting())
	select {
	case <-d.complete:
	case <-late:
		d.log.Warn("going on without a part of the configuration", "err", d.waiting())
	case <-ctx.Done():
	}
}

// waiting says what there is nothing of yet. It takes the lock.
func (d *dynamic) waiting() error {
	d.lock.Lock()
	defer d.lock.Unlock()
	return fmt.Errorf("starting: waiting for %s", strings.Join(sortedKeys(d.missing), " and "))
}

// arrived notes that there is something of one source. Needs the lock.
func (d *dynamic) arrived(what string) {
	if !d.missing[what] {
		return
	}
	delete(d.missing, what)
	if len(d.missing) == 0 {
		close(d.complete)
	}
}

// load puts another bootstrap in force, with the same resources. Needs the lock.
func (d *dynamic) load(b *config.Bootstrap) error {
	before := d.bootstrap.Load()
	if b.Dynamic == nil || !b.SameDynamic(before) {
		return errOtherSources
	}
	d.bootstrap.Store(b)
	d.others = true
	if err := d.assembleAndActivate(); err != nil {
		d.bootstrap.Store(before)
		d.others = true
		return err
	}
	return nil
}

// assembleAndActivate puts in force what there is. After an error the configuration before stays; shutdown.ErrEnding counts nowhere. Needs the lock.
func (d *dynamic) assembleAndActivate() error {
	b := d.bootstrap.Load()
	cfg, err := d.assemble(b)
	for d.putAhead() {
		// It names further files: a listener does not begin without its routes.
		cfg, err = b.Assemble(d.join(b))
		d.subscribe(b)
	}
	d.leftOut(err)
	wrong := intake.NewRefusal("", time.Now())
	wrong.Add("", err)
	failure := d.activate(cfg, wrong)
	if errors.Is(failure, shutdown.ErrEnding) {
		return failure
	}
	if err != nil {
		d.counters.partly.Add(1)
	}
	if failure != nil {
		d.counters.rejected.Add(1)
		wrong.Add("", failure)
		d.intake.Record(intake.Whole, "", wrong)
		return failure
	}
	d.intake.Record(intake.Whole, "", wrong)
	d.counters.activated.Add(1)
	return nil
}

// assemble makes a configuration of what there is, in little time where only endpoints are new. Needs the lock.
func (d *dynamic) assemble(b *config.Bootstrap) (*model.Config, error) {
	assignments, others := d.assignments, d.others || len(d.read) > 0
	d.assignments, d.others = nil, false
	if others {
		defer d.subscribe(b)
		return b.Assemble(d.join(b))
	}
	return b.AssembleAssignments(b.Join(d.served, d.read), assignments)
}

// leftOut logs what was not assembled, where that has changed.
func (d *dynamic) leftOut(err error) {
	what := ""
	if err != nil {
		what = err.Error()
	}
	if what != d.left && err != nil {
		d.log.Warn("a part of the dynamic resources is left out", "err", err)
	}
	d.left = what
}

// check says whether a resource can be served, and what it needs.
func (d *dynamic) check(kind config.Kind, name string, body *anypb.Any) (config.Needs, error) {
	b := d.bootstrap.Load()
	needs, err := b.CheckResource(kind, name, body)
	if err != nil {
		d.counters.resources.Add(1)
		return needs, err
	}
	d.ignored.noteResource(b, kind, name, body)
	if b.IsStatic(kind, name) {
		d.log.Warn("a dynamic resource has the name of a static one, which stays", "kind", kind.String(), "name", name)
	}
	return needs, nil
}

// stats are the statistics that internal/metrics knows, but for what the kernel was written. They are read at any time.
func (d *dynamic) stats() map[string]uint64 {
	out := map[string]uint64{
		"xlb.dynamic.updates": d.counters.activated.Load(), "xlb.dynamic.rejected": d.counters.rejected.Load(),
		"xlb.dynamic.partial": d.counters.partly.Load(), "xlb.dynamic.resources.refused": d.counters.resources.Load(),
	}
	for _, f := range d.bootstrap.Load().Dynamic.RootFiles() {
		counted := d.intake.Of(intake.KeyOf(f))
		addUpdates(out, rootPrefixes[f.Kind], counted.Updates())
	}
	if d.client == nil {
		return out
	}
	status := d.client.Refused()
	out["control_plane.connected_state"] = 0
	if status.Connected {
		out["control_plane.connected_state"] = 1
	}
	for _, kind := range d.bootstrap.Load().Dynamic.Roots() {
		s := &status.Kinds[kind]
		counted := intake.Taken{Version: s.Version, At: s.LastUpdate, Successes: s.Successes, Rejected: s.Rejected, Failures: status.StreamFailures}
		addUpdates(out, rootPrefixes[kind], counted.Updates())
	}
	return out
}

// rootPrefixes begin Envoy's names of the statistics of kinds of which the daemon takes all resources.
var rootPrefixes = map[config.Kind]string{config.Clusters: "cluster_manager.cds.", config.Listeners: "listener_manager.lds."}

// addUpdates adds Envoy's statistics of a subscription, under names that begin so (Envoy: ALL_SUBSCRIPTION_STATS).
func addUpdates(stats map[string]uint64, prefix string, u metrics.Updates) {
	stats[prefix+"update_attempt"], stats[prefix+"update_success"] = u.Successes+u.Rejected+u.Failures, u.Successes
	stats[prefix+"update_rejected"], stats[prefix+"update_failure"] = u.Rejected, u.Failures
	stats[prefix+"update_time"], stats[prefix+"version"] = u.Time, u.Version
}
