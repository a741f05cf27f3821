// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// full is some content, other than any other.
func full(references ...string) content {
	return content{&anypb.Any{Value: fmt.Append(nil, time.Now().UnixNano())}, references}
}

// A name that is dropped and wanted again before the server was told is asked for again, and not dropped.
func TestDroppedAndWantedAgain(t *testing.T) {
	s, now := newState(0), time.Now()
	a := s.put(Clusters, "a", full("x"), now)
	s.told(Assignments)
	s.remove(a, now)
	s.sweep(now)
	if _, ok := s.dropped[Assignments]["x"]; !ok || len(s.subscribed(Assignments)) != 0 {
		t.Fatalf("dropped %v, want x", s.dropped[Assignments])
	}
	s.put(Clusters, "b", full("x"), now)
	if _, ok := s.added[Assignments]["x"]; !ok || len(s.dropped[Assignments]) != 0 {
		t.Errorf("added %v, dropped %v, want x added", s.added[Assignments], s.dropped[Assignments])
	}
	s.remove(s.entries[Clusters]["b"], now)
	s.sweep(now)
	if s.untold(Assignments) {
		t.Errorf("added %v, dropped %v: what was never told need not be dropped", s.added[Assignments], s.dropped[Assignments])
	}
}

// A name that moves from one root to another within a response is neither dropped nor asked for.
func TestMovedName(t *testing.T) {
	s, now := newState(0), time.Now()
	a := s.put(Clusters, "a", full("x"), now)
	s.put(Assignments, "x", full(), now)
	s.told(Assignments)
	s.remove(a, now)
	s.put(Clusters, "b", full("x"), now)
	s.sweep(now)
	if s.untold(Assignments) || s.entries[Clusters]["b"].served.body == nil {
		t.Errorf("added %v, dropped %v, b is warm: %v", s.added[Assignments], s.dropped[Assignments], s.entries[Clusters]["b"].served.body != nil)
	}
}

// What comes and goes while something never comes leaves nothing behind.
func TestNothingIsLeftBehind(t *testing.T) {
	s, now := newState(time.Hour), time.Now()
	s.put(Clusters, "stays", full("never"), now)
	for i := range 10000 {
		name := fmt.Sprint("a", i)
		e := s.put(Clusters, name, full("never", name), now)
		s.put(Clusters, name, full(name, "never", "never"), now)
		s.put(Clusters, name, full(name), now)
		s.put(Clusters, name, full("never"), now)
		s.remove(e, now)
		s.sweep(now)
		s.told(Assignments)
	}
	if n := len(s.entries[Assignments]["never"].waiters); n != 1 || len(s.entries[Clusters]) != 1 || len(s.entries[Assignments]) != 1 {
		t.Errorf("%d wait, %d clusters, %d assignments, want 1 each", n, len(s.entries[Clusters]), len(s.entries[Assignments]))
	}
	if len(s.fetches) > 4096 {
		t.Errorf("%d deadlines for one name", len(s.fetches))
	}
	if late := s.elapse(now.Add(time.Hour)); late != 1 || s.entries[Clusters]["stays"].served.body == nil {
		t.Errorf("%d late, want 1", late)
	}
}

// A snapshot of what has not changed is no new one, whatever happened in between; maps of kinds that are the same are the same.
func TestSnapshotDiffers(t *testing.T) {
	s, now := newState(0), time.Now()
	one, other := full(), full()
	s.put(Clusters, "a", one, now)
	s.put(Listeners, "l", full(), now)
	first, differs := s.snapshot(Snapshot{})
	if !differs || len(first.Clusters) != 1 {
		t.Fatalf("%v, differs %v", first, differs)
	}
	s.put(Clusters, "a", other, now)
	s.put(Clusters, "a", content{body: proto.CloneOf(one.body)}, now)
	if _, differs := s.snapshot(first); differs {
		t.Error("there and back is a difference")
	}
	s.put(Clusters, "b", full(), now)
	s.remove(s.entries[Clusters]["b"], now)
	if _, differs := s.snapshot(first); differs {
		t.Error("come and gone is a difference")
	}
	s.put(Clusters, "a", other, now)
	second, differs := s.snapshot(first)
	if !differs || first.Clusters["a"].Body == second.Clusters["a"].Body {
		t.Error("a change is no difference")
	}
	second.Listeners["mark"] = Resource{} // the same map, so it shows in both
	if _, shown := first.Listeners["mark"]; !shown {
		t.Error("the map of what has not changed was made anew")
	}
}

// A cluster that lacks what is no reference serves as it was until that is there, and keeps what that refers to.
func TestClustersWaitForWhatIsNoReference(t *testing.T) {
	s, now, has := newState(0), time.Now(), map[*anypb.Any]bool{}
	left := ""
	s.ready = func(name string, body *anypb.Any) bool {
		if body == nil {
			left = name
		}
		return has[body]
	}
	old, next := full("x"), full("y")
	has[old.body] = true
	e := s.put(Clusters, "a", old, now)
	s.put(Assignments, "x", full(), now)
	s.put(Clusters, "a", next, now)
	s.put(Assignments, "y", full(), now)
	s.sweep(now)
	if e.served.body != old.body || s.entries[Assignments]["x"].shown != 1 {
		t.Fatal("the cluster does not serve as it was")
	}
	s.again(now)
	if e.served.body != old.body || len(s.holding) != 1 {
		t.Fatal("the cluster has changed")
	}
	has[next.body] = true
	s.again(now)
	s.sweep(now)
	if e.served.body != next.body || len(s.holding) != 0 || s.entries[Assignments]["y"].shown != 1 {
		t.Fatal("the cluster has not changed")
	}
	s.put(Clusters, "a", full("x"), now)
	s.remove(e, now)
	if len(s.holding) != 0 || left != "a" {
		t.Errorf("%d wait, %q is gone", len(s.holding), left)
	}
}
