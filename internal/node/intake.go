// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/problem"
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
	kindSecret      = "secret"
	kindCertificate = "certificate"
)

// originKey tells a file of the configuration from others.
type originKey struct{ kind, path string }

// wholeKey is of the configuration that all origins make up.
var wholeKey = originKey{kind: admin.WholeConfiguration}

func keyOf(f config.File) originKey { return originKey{f.Kind.String(), f.Path} }

// intake keeps what has become of the bootstrap, of files of resources, and of the configuration that they make up: the last success, and the last refusal
// until something is taken. It is safe for concurrent use, and holds its lock for no more than its own work: probes wait for it.
type intake struct {
	mu      sync.Mutex
	origins map[originKey]*taken
	// refused counts refusals by kind. They stay when an origin has gone.
	refused map[string]uint64
}

// taken is what has become of one origin. Counters are Envoy's of a subscription: update_success, update_rejected, update_failure.
type taken struct {
	version                      string
	at                           time.Time
	successes, rejected, failure uint64
	refusal                      *admin.Refusal // nil: what came last was taken
}

func newIntake() *intake {
	return &intake{origins: map[originKey]*taken{}, refused: map[string]uint64{}}
}

func (in *intake) ofLocked(key originKey) *taken {
	if in.origins[key] == nil {
		in.origins[key] = &taken{}
	}
	return in.origins[key]
}

// take notes that what came was taken.
func (in *intake) take(key originKey, version string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	t := in.ofLocked(key)
	t.version, t.at, t.refusal = version, time.Now(), nil
	t.successes++
}

// refuse notes that what came was not taken, or not all of it.
func (in *intake) refuse(key originKey, r *admin.Refusal, unreadable bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	t := in.ofLocked(key)
	t.refusal = r
	if in.refused[key.kind]++; unreadable {
		t.failure++
		return
	}
	t.rejected++
}

// settle notes what has become of what came with that version: it was taken, unless something was wrong with it.
func (in *intake) settle(key originKey, version string, wrong *refusal) {
	if len(wrong.Problems) == 0 {
		in.take(key, version)
		return
	}
	in.refuse(key, &wrong.Refusal, false)
}

// follow forgets files of resources that the configuration does not name any more.
func (in *intake) follow(named []config.File) {
	keep := map[originKey]bool{}
	for _, f := range named {
		keep[keyOf(f)] = true
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	maps.DeleteFunc(in.origins, func(key originKey, _ *taken) bool { return isResources(key.kind) && !keep[key] })
}

func isResources(kind string) bool {
	return slices.ContainsFunc(everyKind[:], func(k config.Kind) bool { return k.String() == kind })
}

// everyKind of resources, in the order in which they are put in force.
var everyKind = [...]config.Kind{config.Clusters, config.Assignments, config.Listeners, config.Routes}

// of returns what has become of an origin; nothing yet where it is not known.
func (in *intake) of(key originKey) taken {
	in.mu.Lock()
	defer in.mu.Unlock()
	if t := in.origins[key]; t != nil {
		return *t
	}
	return taken{}
}

// refusals counts those of all origins of a kind, also of those that have gone.
func (in *intake) refusals(kind string) uint64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.refused[kind]
}

// list is in the order of kinds and paths.
func (in *intake) list() []admin.Origin {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([]admin.Origin, 0, len(in.origins))
	for _, key := range slices.SortedFunc(maps.Keys(in.origins), originKey.compare) {
		t := in.origins[key]
		o := admin.Origin{Kind: key.kind, Source: ofFile, From: key.path, Version: t.version, Taken: moment(t.at), Refused: t.rejected + t.failure, Refusal: t.refusal}
		if key.kind == admin.WholeConfiguration {
			o.Source = ofAll
		}
		out = append(out, o)
	}
	return out
}

// compare has the whole first, then the bootstrap, then resources.
func (k originKey) compare(other originKey) int {
	if k.kind != other.kind {
		return kindOrder(k.kind) - kindOrder(other.kind)
	}
	return strings.Compare(k.path, other.path)
}

func kindOrder(kind string) int {
	order := []string{admin.WholeConfiguration, kindBootstrap}
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

// Bounds of what is kept and shown of one refusal: problems, and bytes of each text. The log has them whole.
const (
	maxProblems    = 16
	maxProblemText = 1024
)

// refusal collects what is wrong.
type refusal struct{ admin.Refusal }

func newRefusal(version string, at time.Time) *refusal {
	return &refusal{admin.Refusal{At: at, Version: bounded(version)}}
}

// refusalOf is the refusal of a whole, now.
func refusalOf(err error) *admin.Refusal {
	r := newRefusal("", time.Now())
	r.add("", err)
	return &r.Refusal
}

// add adds what is wrong with a resource, or with the whole where it has no name.
func (r *refusal) add(resource string, err error) {
	for _, part := range problem.PartsOf(err) {
		if len(r.Problems) == maxProblems {
			r.More++
			continue
		}
		r.Problems = append(r.Problems, admin.Problem{Resource: bounded(resource), Path: bounded(part.Path), Reason: bounded(part.Reason)})
	}
}

// boundedReason is what is wrong, in one line that is short enough to be kept.
func boundedReason(err error) string {
	var lines []string
	r := newRefusal("", time.Time{})
	r.add("", err)
	for i := range r.Problems {
		lines = append(lines, r.Problems[i].String())
	}
	if r.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", r.More))
	}
	return strings.Join(lines, "; ")
}

// bounded cuts a text that a file or a server may have made long. It is one line, and a copy: what it was cut from is not kept.
func bounded(text string) string {
	if len(text) > maxProblemText {
		text = strings.ToValidUTF8(text[:maxProblemText], "") + "..."
	}
	return strings.ReplaceAll(strings.Clone(text), "\n", "; ")
}
