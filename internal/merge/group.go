// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// named are the groups of the clusters of one name. It is never changed.
type named struct {
	// groups are in the order of their age.
	groups []*group
	// due is when some view waits no longer, or equal groups join; zero: there is no such time.
	due time.Time
	// isAwaited: some view waits, or equal groups do.
	isAwaited bool
	// hasTwins: some groups are equal.
	hasTwins bool
}

// group is a cluster that is in force. It is never changed.
type group struct {
	key model.ClusterKey
	// content is the cluster as some view has, or had, it, of that kind; from as model.Common has it, in the merge that has made the group.
	content *model.Cluster
	kind    *model.Cluster
	from    model.ClusterKey
	members []member
	merged  *model.Cluster
	// since is when the group came to be.
	since time.Time
	// changed: the content is another one than before.
	changed bool
	// isMixed: it was tried with several contents, of which kind is the first.
	isMixed bool
}

// member is a view in a group.
type member struct {
	view model.View
	// cluster is what the view says; until is how long the view waits where that is not the group's content. isFresh: it did not wait before this merge.
	cluster *model.Cluster
	until   time.Time
	isFresh bool
	// kind is a cluster that stands for all that are the same but for their view. So clusters of many endpoints are compared once each.
	kind *model.Cluster
	// alone: the cluster is not shared, whatever it is.
	alone bool
}

// of is the group of a view, or nil.
func (n *named) of(view string) *group {
	if n == nil {
		return nil
	}
	for _, g := range n.groups {
		if g.has(view) {
			return g
		}
	}
	return nil
}

// first is the view whose list has the cluster.
func (g *group) first() string { return g.members[0].view.Name }

func (g *group) has(view string) bool {
	return slices.ContainsFunc(g.members, func(m member) bool { return m.view.Name == view })
}

// regroup groups the clusters of a name anew.
func (r *run) regroup(name string) {
	before := r.active.clusters[name]
	s := &sorting{run: r, name: name, before: before, tried: r.tried[name]}
	if before != nil {
		for _, g := range before.groups {
			s.groups = append(s.groups, &group{key: g.key, content: g.content, kind: g.kind, since: g.since})
		}
	}
	s.assign(s.membersOf(name))
	s.update()
	s.join()
	now := s.named()
	r.regrouped[name] = now
	r.relist(before, now)
}

// relist notes the views in whose lists clusters of a name are others than before.
func (r *run) relist(before, now *named) {
	had := map[*model.Cluster]string{}
	for _, g := range before.all() {
		had[g.merged] = g.first()
	}
	for _, g := range now.all() {
		if first, is := had[g.merged]; is && first == g.first() {
			delete(had, g.merged)
			continue
		}
		r.dirty[g.first()] = true
	}
	for _, first := range had {
		r.dirty[first] = true
	}
}

func (n *named) all() []*group {
	if n == nil {
		return nil
	}
	return n.groups
}

// meantBy is what a view means by the name: its cluster, or none where another one has the key that its own would have.
func (n *named) meantBy(view, name string) model.ClusterKey {
	if g := n.of(view); g != nil {
		return g.key
	}
	own := model.ClusterKey{View: view, Name: name}
	if slices.ContainsFunc(n.all(), func(g *group) bool { return g.key == own }) {
		return model.NoCluster
	}
	return own
}
