// SPDX-License-Identifier: Apache-2.0

package config

import (
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/model"
)

// cachedResource is what has been made of one resource, and of what: where all of that is the same, the next configuration has it too.
type cachedResource struct {
	// body is the resource; nil: it is part of the bootstrap.
	body *anypb.Any
	// uses are the resources that it refers to.
	uses []lookedUp
	// cluster or listeners, which translator.telling holds if tells says so.
	cluster   *model.Cluster
	listeners []*model.Listener
	tells     bool
	// effort is what its expressions cost, which count although they are not compiled again.
	effort int
}

// lookedUp is one resource that was looked up, and what was found; nil: nothing.
type lookedUp struct {
	from source
	kind Kind
	name string
	body *anypb.Any
}

// lookUp finds the body of the one resource that a source has under a name, or nil.
func (t *translator) lookUp(from source, kind Kind, name string) *anypb.Any {
	switch {
	case from.file.Path != "":
		return t.resources.Files[from.file][name]
	case kind == Routes:
		return t.resources.Routes[name]
	default:
		return t.resources.Assignments[name]
	}
}

// cached returns what the configuration before had for the resource at that path, if that is still right.
func (t *translator) cached(path string, body *anypb.Any) (cachedResource, bool) {
	k, known := t.from.cache[path]
	if !known || t.next == nil || k.body != body {
		return cachedResource{}, false
	}
	for _, u := range k.uses {
		if t.lookUp(u.from, u.kind, u.name) != u.body {
			return cachedResource{}, false
		}
	}
	for _, u := range k.uses {
		if u.from.file.Path != "" {
			t.asksFile(u.from.file, u.name)
		}
	}
	t.nextCache[path] = k
	return k, true
}

// clusterAt makes a cluster, or takes that of before. What is known only when all listeners are is made anew.
func (t *translator) clusterAt(path, name string, body *anypb.Any, translate func() *model.Cluster) *model.Cluster {
	if k, ok := t.cached(path, body); ok {
		t.clusters[name] = true
		t.AddCost(k.effort)
		return k.cluster
	}
	problems, cost := len(t.p.All()), t.Cost()
	t.uses = nil
	t.NextResource()
	c := translate()
	if c != nil && t.next != nil && len(t.p.All()) == problems && c.Discovery != model.OriginalDst {
		t.nextCache[path] = cachedResource{body: body, uses: t.uses, cluster: c, effort: t.Cost() - cost}
	}
	return c
}

// listenerAt does so for a listener. Its routes depend on which clusters there are; and requests that are timed by them change it.
func (t *translator) listenerAt(path string, body *anypb.Any, translate func() []*model.Listener) []*model.Listener {
	if k, ok := t.cached(path, body); ok && t.sameClusters && !t.timed {
		for _, l := range k.listeners {
			t.telling[l] = k.tells
		}
		t.AddCost(k.effort)
		return k.listeners
	}
	delete(t.nextCache, path)
	problems, cost := len(t.p.All()), t.Cost()
	t.uses = nil
	t.NextResource()
	all := translate()
	// One that is left alone is said to be so each time.
	if len(all) > 0 && t.next != nil && len(t.p.All()) == problems && !t.timed {
		t.nextCache[path] = cachedResource{body: body, uses: t.uses, listeners: all, tells: t.telling[all[0]], effort: t.Cost() - cost}
	}
	return all
}
