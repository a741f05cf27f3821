// SPDX-License-Identifier: Apache-2.0

// Package intake keeps the result of each part of the configuration that came: of the bootstrap, of files of resources, and of the configuration that they
// make up. It makes the rows from that, and from what a control plane and secrets say of themselves, which the admin API and the metrics show (origins.go).
package intake

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
)

// Where configuration comes from, for origins and metrics.
const (
	ofFile   = "file"
	ofServer = "server"
	ofAll    = "all"
)

// Kinds of origins beside the kinds of resources.
const (
	kindBootstrap   = "bootstrap"
	kindViews       = "views"
	kindSecret      = "secret"
	kindCertificate = "certificate"
)

// Key tells a file of the configuration from others.
type Key struct{ kind, path string }

// Whole is the key of the configuration that all origins make up.
var Whole = Key{kind: admin.WholeConfiguration}

// Shared is the key of the clusters that views share, as what the views have waited for makes them. There is a row of it once something was refused.
var Shared = Key{admin.WholeConfiguration, "clusters that views share"}

// KeyOf is the key of a file of resources.
func KeyOf(f config.File) Key { return Key{f.Kind.String(), f.Path} }

// BootstrapKey is the key of the bootstrap in that file.
func BootstrapKey(path string) Key { return Key{kindBootstrap, path} }

// ViewsKey is the key of the file that names the views.
func ViewsKey(path string) Key { return Key{kindViews, path} }

// Intake keeps the results of the bootstrap, of files of resources, and of the configuration that they make up: the last success, and the last refusal
// until something is taken. It is safe for concurrent use, and holds its lock for no more than its own work: probes wait for it.
type Intake struct {
	mu      sync.Mutex
	origins map[Key]*Taken
	// refused counts refusals by kind. They stay when an origin has gone.
	refused map[string]uint64
}

// Taken is the result of one origin. Counters are Envoy's of a subscription: update_success, update_rejected, update_failure.
type Taken struct {
	// Version and At are of what was taken last.
	Version                       string
	At                            time.Time
	Successes, Rejected, Failures uint64
	// Refusal is of what came last; nil: it was taken.
	Refusal *admin.Refusal
}

// New returns an Intake to which nothing has come.
func New() *Intake {
	return &Intake{origins: map[Key]*Taken{}, refused: map[string]uint64{}}
}

func (in *Intake) ofLocked(key Key) *Taken {
	if in.origins[key] == nil {
		in.origins[key] = &Taken{}
	}
	return in.origins[key]
}

// Take notes that what came was taken.
func (in *Intake) Take(key Key, version string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	t := in.ofLocked(key)
	t.Version, t.At, t.Refusal = version, time.Now(), nil
	t.Successes++
}

// Refuse notes that what came was not taken, or not all of it.
func (in *Intake) Refuse(key Key, r *admin.Refusal, unreadable bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	t := in.ofLocked(key)
	t.Refusal = r
	if in.refused[key.kind]++; unreadable {
		t.Failures++
		return
	}
	t.Rejected++
}

// Record notes the result of what came with that version: it was taken, unless something was wrong with it.
func (in *Intake) Record(key Key, version string, wrong *Refusal) {
	if len(wrong.Problems) == 0 {
		in.Take(key, version)
		return
	}
	in.Refuse(key, &wrong.Refusal, false)
}

// Wrong is what is wrong with what came last of an origin, to be added to and recorded again.
func (in *Intake) Wrong(key Key) *Refusal {
	out := NewRefusal("", time.Now())
	if last := in.Of(key).Refusal; last != nil {
		out.Refusal = *last
		out.Problems = slices.Clone(last.Problems)
	}
	return out
}

// KeepFiles forgets files of resources that the configuration does not name any more.
func (in *Intake) KeepFiles(named []config.File) {
	keep := map[Key]bool{}
	for _, f := range named {
		keep[KeyOf(f)] = true
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	maps.DeleteFunc(in.origins, func(key Key, _ *Taken) bool { return isResources(key.kind) && !keep[key] })
}

func isResources(kind string) bool {
	return slices.ContainsFunc(everyKind[:], func(k config.Kind) bool { return k.String() == kind })
}

// everyKind of resources, in the order in which they are put in force.
var everyKind = [...]config.Kind{config.Clusters, config.Assignments, config.Listeners, config.Routes}

// Of returns the result of an origin; nothing yet where it is not known.
func (in *Intake) Of(key Key) Taken {
	in.mu.Lock()
	defer in.mu.Unlock()
	if t := in.origins[key]; t != nil {
		return *t
	}
	return Taken{}
}

// List returns the origins in the order of kinds and paths.
func (in *Intake) List() []admin.Origin {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([]admin.Origin, 0, len(in.origins))
	for _, key := range slices.SortedFunc(maps.Keys(in.origins), Key.compare) {
		t := in.origins[key]
		o := admin.Origin{Kind: key.kind, Source: ofFile, From: key.path, Version: t.Version, Taken: moment(t.At), Refused: t.Rejected + t.Failures, Refusal: t.Refusal}
		if key.kind == admin.WholeConfiguration {
			o.Source = ofAll
		}
		out = append(out, o)
	}
	return out
}

// compare has the whole first, then the bootstrap, then resources.
func (k Key) compare(other Key) int {
	if k.kind != other.kind {
		return kindOrder(k.kind) - kindOrder(other.kind)
	}
	return strings.Compare(k.path, other.path)
}

func kindOrder(kind string) int {
	order := []string{admin.WholeConfiguration, kindViews, kindBootstrap}
	for _, k := range everyKind {
		order = append(order, k.String())
	}
	return slices.Index(append(order, kindSecret, kindCertificate), kind)
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
