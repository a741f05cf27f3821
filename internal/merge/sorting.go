// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// leaver is a view that has left the group with that key.
type leaver struct {
	member
	from model.ClusterKey
}

// sorting finds the groups of one name. The tables of routes lead to clusters by their keys, and are changed behind these: as long as some view's table leads to a
// cluster, the cluster has what that view says, or has said. So the content of a key is never another one in a merge in which some view goes away from it.
type sorting struct {
	*run
	name   string
	before *named
	// tried are groups to which tables may lead beside those of before.
	tried  []*group
	groups []*group
	// leavers are on their way from a group to another one, or to one of their own.
	leavers []leaver
	// kinds are those of clusters, by their pointers.
	kinds map[*model.Cluster]*model.Cluster
	// joins is when equal groups join that do not yet; zero: no two groups are equal.
	joins time.Time
}

// ledTo are the groups to which tables of routes may lead.
func (s *sorting) ledTo() []*group { return append(slices.Clip(s.before.all()), s.tried...) }

// membersOf are the clusters of that name of all views, in their order.
func (s *sorting) membersOf(name string) (list []member) {
	s.kinds = map[*model.Cluster]*model.Cluster{}
	for _, g := range s.ledTo() {
		s.kinds[g.kind] = g.kind
		for _, m := range g.members {
			s.kinds[m.cluster], s.kinds[m.kind] = m.kind, m.kind
		}
	}
	for _, v := range s.views {
		if c := v.byName[name]; c != nil {
			list = append(list, member{view: v.View, cluster: c, kind: s.kindOf(c), alone: !isShareable(c, v.at)})
		}
	}
	return list
}

// kindOf is that of a cluster, the cluster itself if it is the first of its kind.
func (s *sorting) kindOf(c *model.Cluster) *model.Cluster {
	if kind := s.kinds[c]; kind != nil {
		return kind
	}
	kind := c
	for other, of := range s.kinds {
		if other == of && same(c, of) {
			kind = of
			break
		}
	}
	s.kinds[c] = kind
	return kind
}

// assign puts views into the groups in which they were. One that is new enters when all groups are what they become.
func (s *sorting) assign(list []member) {
	for _, m := range list {
		i := s.indexOf(m.view.Name)
		if i < 0 {
			s.leavers = append(s.leavers, leaver{member: m})
			continue
		}
		m.until = s.untilOf(m.view.Name)
		m.isFresh = m.until.IsZero()
		s.groups[i].members = append(s.groups[i].members, m)
	}
	s.groups = slices.DeleteFunc(s.groups, func(g *group) bool { return len(g.members) == 0 })
}

// indexOf is the place of the group in which a view was; -1: it was in none.
func (s *sorting) indexOf(view string) int {
	if s.before == nil {
		return -1
	}
	return slices.IndexFunc(s.before.groups, func(g *group) bool { return g.has(view) })
}

// untilOf is how long a view waits; zero: it did not wait yet.
func (s *sorting) untilOf(view string) time.Time {
	for _, m := range s.before.of(view).members {
		if m.view.Name == view {
			return m.until
		}
	}
	return time.Time{}
}

// enter puts a view into a group that is as its cluster, or into one of its own.
func (s *sorting) enter(m member, from model.ClusterKey) {
	m.until = time.Time{}
	if !m.alone {
		for _, g := range s.groups {
			if !g.isAlone() && g.kind == m.kind {
				g.members = append(g.members, m)
				return
			}
		}
	}
	s.groups = append(s.groups, &group{key: s.newKey(m), content: m.cluster, kind: m.kind, from: from, since: s.now, members: []member{m}})
}

// isAlone reports whether no other view may enter.
func (g *group) isAlone() bool { return g.members[0].alone }

// newKey has the name of the view, unless another group has that, or had it: a table may lead there still. What was tried is no obstacle where it was what the view
// says, or where no table but the view's own leads there.
func (s *sorting) newKey(m member) model.ClusterKey {
	key := model.ClusterKey{View: m.view.Name, Name: s.name}
	has := func(g *group) bool { return g.key == key }
	hadOther := func(g *group) bool { return g.key == key && g.hasOther(m.kind) && !g.isOnly(m.view.Name) }
	for n := 2; slices.ContainsFunc(s.groups, has) || slices.ContainsFunc(s.before.all(), has) || slices.ContainsFunc(s.tried, hadOther); n++ {
		key.View = fmt.Sprintf("%s#%d", m.view.Name, n)
	}
	return key
}

// update has groups follow their members. Those that leave enter others when all groups are what they become.
func (s *sorting) update() {
	for _, g := range s.groups {
		s.updateGroup(g)
	}
	s.groups = slices.DeleteFunc(s.groups, func(g *group) bool { return len(g.members) == 0 })
	for _, l := range s.leavers {
		s.enter(l.member, l.from)
	}
}

func (s *sorting) updateGroup(g *group) {
	s.expel(g)
	switch {
	case s.isTriedOtherwise(g) && !s.hasAll(g):
		// Some table leads there for the one content, and another for the other one: there it stays as it is, until no table does. Where all views whose tables may
		// lead there are in the group, each has had what the group has.
		s.leaveIf(g, func(*member) bool { return true })
	case s.isWanted(g):
		s.leaveWanted(g)
	case s.hasAll(g) && s.agree(g.members) && !s.isHeldWhole(g):
		s.takeTogether(g)
	default:
		s.part(g)
	}
}

// isTriedOtherwise reports whether a change that has failed half way may have given the cluster another content.
func (s *sorting) isTriedOtherwise(g *group) bool {
	return slices.ContainsFunc(s.tried, func(t *group) bool { return t.key == g.key && t.hasOther(g.kind) })
}

// isWanted reports whether some view says what the group has.
func (s *sorting) isWanted(g *group) bool {
	return slices.ContainsFunc(g.members, func(m member) bool { return g.kind == m.kind })
}

// hasAll reports whether all views are in the group that were in it: the table of another one leads to it until it is changed, which comes behind the cluster.
func (s *sorting) hasAll(g *group) bool {
	for _, old := range s.ledTo() {
		if old.key == g.key && slices.ContainsFunc(old.members, func(m member) bool { return !g.has(m.view.Name) }) {
			return false
		}
	}
	return true
}

// leaveWanted has members leave a group that others want as it is.
func (s *sorting) leaveWanted(g *group) {
	for i := range g.members {
		if m := &g.members[i]; g.kind == m.kind {
			m.until = time.Time{}
		}
	}
	s.leaveIf(g, func(m *member) bool { return g.kind != m.kind && s.mustLeave(g, m) })
}

// takeTogether has the cluster become as all members say. Where one of them has its chance, all that agree with it have it: it is one change, in place.
func (s *sorting) takeTogether(g *group) {
	if !slices.ContainsFunc(g.members, func(m member) bool { return m.isFresh }) {
		for i := range g.members {
			s.noteWaited(g, &g.members[i])
		}
	}
	g.content, g.kind, g.changed = g.members[0].cluster, g.members[0].kind, true
	for i := range g.members {
		g.members[i].until = time.Time{}
	}
}

// part has members leave a group that no view wants as it is, once one of them must. Those that agree, and are the most of those that may wait, stay: when the others
// have left, which is in the next merge, they take the cluster with them. Where one is held nothing can be taken.
func (s *sorting) part(g *group) {
	mustPart := !s.hasAll(g)
	for i := range g.members {
		mustPart = s.mustLeave(g, &g.members[i]) || mustPart
	}
	switch {
	case !mustPart:
	case s.hasHeld(g):
		s.leaveIf(g, func(m *member) bool { return s.mustLeave(g, m) })
	default:
		stay := s.mostWanted(g)
		s.leaveIf(g, func(m *member) bool { return m.kind != stay || !s.mayWait(g, m) })
		for i := range g.members {
			g.members[i].until = s.now
		}
	}
}

// mustLeave reports whether a member may not wait, or has waited long enough. It waits from now on at the latest. One that is held waits on.
func (s *sorting) mustLeave(g *group, m *member) bool {
	return !s.mayWait(g, m) || s.hasWaited(m) && !s.isHeld(m)
}

func (s *sorting) leaveIf(g *group, leaves func(m *member) bool) {
	members := g.members
	g.members = nil
	for i := range members {
		m := &members[i]
		if !leaves(m) {
			g.members = append(g.members, *m)
			continue
		}
		s.noteWaited(g, m)
		s.leavers = append(s.leavers, leaver{*m, g.key})
	}
}

// isHeld reports whether a member is not to have what it has waited for.
func (s *sorting) isHeld(m *member) bool { return s.held[Waiter{m.view.Name, m.cluster}] }

func (s *sorting) hasHeld(g *group) bool {
	return slices.ContainsFunc(g.members, func(m member) bool { return s.isHeld(&m) })
}

// isHeldWhole reports whether all members are held.
func (s *sorting) isHeldWhole(g *group) bool {
	return !slices.ContainsFunc(g.members, func(m member) bool { return !s.isHeld(&m) })
}

// noteWaited notes a member that gets what it has waited for. Of one that says something else in this merge, which may not wait, that is not the reason; one that
// is held is known.
func (s *sorting) noteWaited(g *group, m *member) {
	if !m.isFresh && s.mayWait(g, m) && !s.isHeld(m) {
		s.waited = append(s.waited, Waiter{m.view.Name, m.cluster})
	}
}

// hasWaited reports whether a view, which waits from now on at the latest, has waited long enough.
func (s *sorting) hasWaited(m *member) bool {
	if m.until.IsZero() {
		m.until = s.now.Add(s.Patience)
	}
	return !m.until.After(s.now)
}

// mayWait reports whether a view may have the group's cluster for a while in place of what it says: where nothing but endpoints differs. Anything else may be what its
// routes ask for, and routes that have changed may be meant for endpoints that have come: neither is in force without the other.
func (s *sorting) mayWait(g *group, m *member) bool {
	isRerouted := s.rerouted[m.view.Name]
	return sameButEndpoints(g.content, m.cluster) && (isRerouted == nil || !isRerouted())
}

// hasOther reports whether a group that was tried has had another content than this one.
func (g *group) hasOther(kind *model.Cluster) bool { return g.isMixed || g.kind != kind }

// isOnly reports whether a view is the only one in the group.
func (g *group) isOnly(view string) bool { return len(g.members) == 1 && g.has(view) }

// agree reports whether all have the same cluster.
func (s *sorting) agree(members []member) bool {
	return len(members) > 0 && !slices.ContainsFunc(members[1:], func(m member) bool { return m.kind != members[0].kind })
}

// expel has views leave whose clusters are not to be shared any more, unless they are the only ones.
func (s *sorting) expel(g *group) {
	for _, m := range slices.Clone(g.members) {
		if m.alone && len(g.members) > 1 {
			g.members = slices.DeleteFunc(g.members, func(other member) bool { return other.view.Name == m.view.Name })
			s.leavers = append(s.leavers, leaver{m, g.key})
		}
	}
}

// mostWanted is the kind on which most of those members agree that may wait, the first such; nil: no member may.
func (s *sorting) mostWanted(g *group) *model.Cluster {
	votes := map[*model.Cluster]int{}
	var most *model.Cluster
	for i := range g.members {
		if m := &g.members[i]; s.mayWait(g, m) {
			votes[m.kind]++
		}
	}
	for i := range g.members {
		if kind := g.members[i].kind; votes[kind] > votes[most] {
			most = kind
		}
	}
	return most
}

// join has equal groups become one: the one of fewer views goes into the other, else the one that has changed, else the younger one. So what a view changes
// alone moves no other view. A view that goes into another group begins with cold pools, so it does not so at every change: a group joins no other while it is young,
// unless there is no room.
func (s *sorting) join() {
	for i := 0; i < len(s.groups); i++ {
		for j := i + 1; j < len(s.groups); j++ {
			into, from := s.groups[i], s.groups[j]
			if into.isAlone() || from.isAlone() || into.kind != from.kind {
				continue
			}
			if at := s.joinsAt(into, from); at.After(s.now) {
				s.joins = sooner(s.joins, at)
				continue
			}
			s.joined = true
			if more := len(from.members) - len(into.members); more > 0 || more == 0 && into.changed && !from.changed {
				into, from = from, into
			}
			into.members = append(into.members, from.members...)
			s.groups = slices.DeleteFunc(s.groups, func(g *group) bool { return g == from })
			i, j = -1, len(s.groups)
		}
	}
}

// joinsAt is when two equal groups become one.
func (s *sorting) joinsAt(a, b *group) time.Time {
	switch {
	case s.joining == joinAtOnce:
		return s.now
	case s.joining == joinLater:
		return s.now.Add(max(s.Apart, time.Second))
	case a.since.After(b.since):
		return a.since.Add(s.Apart)
	default:
		return b.since.Add(s.Apart)
	}
}

// sooner is the earlier one of two times, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// named is what came out. Groups that are as before are the same.
func (s *sorting) named() *named {
	if len(s.groups) == 0 {
		return nil
	}
	out := &named{groups: s.groups, due: s.joins, isAwaited: !s.joins.IsZero(), hasTwins: !s.joins.IsZero()}
	for _, g := range s.groups {
		slices.SortFunc(g.members, func(a, b member) int { return s.rank(a.view.Name) - s.rank(b.view.Name) })
		g.merged = s.mergedOf(g)
		for _, m := range g.members {
			if m.until.IsZero() {
				continue
			}
			out.isAwaited = true
			if !s.isHeld(&m) {
				out.due = sooner(out.due, m.until)
			}
		}
	}
	return out
}

func (s *sorting) rank(name string) int {
	return slices.IndexFunc(s.views, func(v *view) bool { return v.Name == name })
}

// mergedOf is the cluster that is put in force for a group: the one of before, if nothing is new.
func (s *sorting) mergedOf(g *group) *model.Cluster {
	views := make([]string, len(g.members))
	for i, m := range g.members {
		views[i] = m.view.Name
	}
	if s.before != nil {
		for _, old := range s.before.groups {
			if old.key == g.key && old.content == g.content && old.merged.View == g.members[0].view && slices.Equal(old.merged.SeenIn(), views) {
				return old.merged
			}
		}
	}
	if len(views) == 1 && g.key.View == views[0] && g.from == (model.ClusterKey{}) && g.content.View == g.members[0].view {
		return g.content
	}
	out := *g.content
	out.View = g.members[0].view
	out.Common = &model.Common{Key: g.key, Views: views, From: g.from}
	return &out
}
