// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
)

// both runs a test in each form of the protocol.
func both(t *testing.T, test func(t *testing.T, delta bool)) {
	for name, delta := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, delta)
		})
	}
}

// What is new appears with what it refers to; what is changed leaves the old in place until then.
func TestWarming(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		steps := make(chan struct{})
		server := play(t, func(d *dialogue) {
			d.next(Clusters)
			d.next(Listeners)
			d.give(Clusters, "1", "1", cluster("a", 1))
			d.give(Listeners, "1", "1", listener("l", 1, "r"))
			d.next(Assignments)
			d.next(Routes)
			d.give(Assignments, "1", "1", assignment("a", 1))
			d.give(Routes, "1", "1", routes("r", 1))
			<-steps
			// A cluster and a listener change what they refer to, and something is new.
			d.give(Clusters, "2", "2", cluster("a", 2, "b"), cluster("c", 2))
			d.give(Listeners, "2", "2", listener("l", 2, "r", "q"), listener("m", 2, "q"))
			// The old ones serve, and what they refer to still changes.
			d.give(Assignments, "3", "3", assignment("a", 3))
			d.give(Routes, "3", "3", routes("r", 3))
			<-steps
			d.give(Routes, "4", "4", routes("q", 4))
			d.give(Assignments, "4", "4", assignment("c", 4))
			<-steps
			d.give(Assignments, "5", "5", assignment("b", 5))
			<-steps
			// A change back needs nothing to be sent.
			d.give(Clusters, "6", "6", cluster("a", 6, "x"), cluster("c", 2))
			d.give(Clusters, "7", "7", cluster("a", 7, "b"), cluster("c", 2))
			<-steps
			if d.delta {
				d.part(Clusters, "8", "8", []string{"c"})
				d.part(Listeners, "8", "8", []string{"l"})
			} else {
				d.whole(Clusters, "8", "8", cluster("a", 7, "b"))
				d.whole(Listeners, "8", "8", listener("m", 2, "q"))
			}
			d.stay()
		})
		o := observe(t, Config{Servers: []Server{server}, Delta: delta})
		for _, want := range []string{
			"clusters a=1; assignments a=1; listeners l=1; routes r=1",
			"clusters a=1; assignments a=3; listeners l=1; routes r=3",
			"clusters a=1 c=2; assignments a=3 c=4; listeners l=2 m=2; routes q=4 r=3",
			"clusters a=2 c=2; assignments b=5 c=4; listeners l=2 m=2; routes q=4 r=3",
			"clusters a=7 c=2; assignments b=5 c=4; listeners l=2 m=2; routes q=4 r=3",
		} {
			o.await(want)
			steps <- struct{}{}
		}
		o.await("clusters a=7; assignments b=5; listeners m=2; routes q=4")
		for _, kind := range []Kind{Assignments, Routes} {
			if n := len(o.Status().Kinds[kind].Resources); n != 1 {
				t.Errorf("%d %s are known, want 1", n, kind)
			}
		}
	})
}

// What is not sent in time counts as absent, and is taken when it comes.
func TestFetchTimeout(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		late := make(chan struct{})
		server := play(t, func(d *dialogue) {
			d.next(Clusters)
			d.give(Clusters, "1", "1", cluster("a", 1), cluster("b", 1))
			d.give(Listeners, "1", "1", listener("l", 1, "r"))
			d.next(Assignments)
			d.give(Assignments, "1", "1", assignment("a", 1))
			<-late
			d.give(Assignments, "2", "2", assignment("b", 2))
			d.give(Routes, "2", "2", routes("r", 2))
			d.stay()
		})
		o := observe(t, Config{Servers: []Server{server}, Delta: delta, FetchTimeout: time.Second})
		o.await("clusters a=1 b=1; assignments a=1; listeners l=1")
		s := o.Status()
		if s.FetchTimeouts != 2 || s.Kinds[Routes].Resources[0].State != DoesNotExist {
			t.Errorf("status %+v", s)
		}
		close(late)
		o.await("clusters a=1 b=1; assignments a=1 b=2; listeners l=1; routes r=2")
	})
}

// A server that says little does not hold the first state back for ever; without any answer there is none.
func TestFirstState(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		answer := make(chan struct{})
		server := play(t, func(d *dialogue) {
			d.next(Clusters)
			<-answer
			d.give(Clusters, "1", "1")
			d.stay()
		})
		o := observe(t, Config{Servers: []Server{server}, Delta: delta, FetchTimeout: 100 * time.Millisecond})
		time.Sleep(200 * time.Millisecond)
		if states, _ := o.seen(); len(states) > 0 {
			t.Errorf("states %q before the server has answered", states)
		}
		close(answer)
		o.await("")
	})
}

// A refused resource is no reason to serve without it.
func TestRefusedIsNotAbsent(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		mend := make(chan struct{})
		server := play(t, func(d *dialogue) {
			d.next(Clusters)
			d.give(Clusters, "1", "1", static("a", 1))
			d.give(Listeners, "1", "1", listener("l", 1, "r"))
			d.next(Routes)
			d.give(Routes, "1", "1", routes("r", -1))
			a := d.next(Routes)
			d.expect(a.fault == "r: is bad", "refused", a)
			<-mend
			d.give(Routes, "2", "2", routes("r", 2))
			d.stay()
		})
		o := observe(t, Config{Servers: []Server{server}, Delta: delta, FetchTimeout: time.Second})
		o.await("clusters a=1")
		time.Sleep(1500 * time.Millisecond)
		s := o.Status()
		r, l := s.Kinds[Routes].Resources[0], s.Kinds[Listeners].Resources[0]
		if s.FetchTimeouts != 0 || r.State != Nacked || r.Error != "is bad" || r.FailedVersion != "1" || r.Body != nil || !l.Warming {
			t.Errorf("status %+v", s)
		}
		close(mend)
		o.await("clusters a=1; listeners l=1; routes r=2")
	})
}

// What an incremental server removes while something refers to it stays, and is not claimed on the next stream.
func TestRemovedButReferredTo(t *testing.T) {
	server := play(t, func(d *dialogue) {
		d.next(Clusters)
		d.part(Clusters, "1", "1", nil, cluster("a", 1))
		d.part(Listeners, "1", "1", nil)
		d.next(Assignments)
		d.part(Assignments, "1", "1", nil, assignment("a", 1))
		d.part(Assignments, "2", "2", []string{"a"})
		d.next(Assignments)
		d.next(Assignments)
	}, func(d *dialogue) {
		a := d.next(Assignments)
		d.expect(len(a.known) == 0 && len(a.subscribe) == 1, "asked for, not claimed", a)
		d.part(Clusters, "3", "3", nil, static("b", 3))
		d.stay()
	})
	o := observe(t, Config{Servers: []Server{server}, Delta: true})
	o.await("clusters a=1 b=3; assignments a=1")
	if r := o.Status().Kinds[Assignments].Resources[0]; r.State != DoesNotExist || r.Body == nil {
		t.Errorf("status %+v", r)
	}
}

// An error of Update is counted; the next state is handed out all the same.
func TestUpdateFails(t *testing.T) {
	c := newControl(t, true)
	c.set("1", static("a", 1), listener("l", 1))
	var o *observed
	made := make(chan struct{})
	o = observe(t, Config{Servers: []Server{c.Server}, Update: func(s Snapshot) error {
		<-made
		o.add(text(t, s))
		return errors.New("no")
	}})
	close(made)
	o.await("clusters a=1; listeners l=1")
	c.set("2", static("a", 2), listener("l", 1))
	o.await("clusters a=2; listeners l=1")
	o.awaitStatus("count", func(s Status) bool { return s.Updates == 2 && s.UpdateErrors == 2 })
}

// An update that is cut off counts nowhere, and the log has nothing of it.
func TestUpdateThatIsCutOffCountsNowhere(t *testing.T) {
	c := newControl(t, true)
	c.set("1", static("a", 1), listener("l", 1))
	var log lines
	cutOff := make(chan struct{})
	behind := make(chan Status, 1)
	var o *observed
	first := true
	o = observe(t, Config{Servers: []Server{c.Server}, Logger: log.logger(), Update: func(Snapshot) error {
		if first {
			first = false
			close(cutOff)
			return fmt.Errorf("the end: %w", ErrUnfinished)
		}
		behind <- o.Status()
		return nil
	}})
	<-cutOff
	c.set("2", static("a", 2), listener("l", 1))
	// What calls Update logs first what the call before has come to; others may log meanwhile.
	if s := await.Next(t, behind, "the next update"); s.Updates != 0 || s.UpdateErrors != 0 || strings.Contains(log.String(), "the end") {
		t.Errorf("counted are %d updates, %d errors; want none; the log says\n%s", s.Updates, s.UpdateErrors, log.String())
	}
}

// A server that does not notice that a name was given up for a moment does not send the resource again.
func TestGivenUpForAMoment(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		seen := make(chan struct{})
		server := play(t, func(d *dialogue) {
			d.next(Clusters)
			d.give(Listeners, "1", "1")
			d.give(Clusters, "1", "1", cluster("a", 1))
			d.next(Assignments)
			d.give(Assignments, "1", "1", assignment("a", 1))
			<-seen
			if d.delta {
				d.part(Clusters, "2", "2", []string{"a"})
			} else {
				d.whole(Clusters, "2", "2")
			}
			<-seen
			d.give(Assignments, "3", "3", assignment("a", 3)) // it crosses the request that gives a up
			d.give(Clusters, "4", "4", cluster("a", 4))
			d.stay()
		})
		o := observe(t, Config{Servers: []Server{server}, Delta: delta})
		o.await("clusters a=1; assignments a=1")
		seen <- struct{}{}
		o.await("")
		if n := len(o.Status().Kinds[Assignments].Resources); n != 0 {
			t.Errorf("%d assignments are shown, want none", n)
		}
		seen <- struct{}{}
		o.await("clusters a=4; assignments a=3")
	})
}

// What static clusters and listeners refer to is asked for by name, also where nothing is asked for as a whole.
func TestNames(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		server := play(t, func(d *dialogue) {
			a := d.next(Assignments)
			d.expect(slices.Equal(append(a.names, a.subscribe...), []string{"a", "b"}) && a.node != nil, "by name", a)
			a = d.next(Routes)
			d.expect(slices.Equal(append(a.names, a.subscribe...), []string{"r"}), "by name", a)
			d.none(Clusters)
			d.give(Assignments, "1", "1", assignment("a", 1), assignment("b", 1))
			d.give(Routes, "1", "1", routes("r", 1))
			d.next(Routes)
			d.give(Assignments, "2", "2", assignment("b", 2))
			d.stay()
		})
		names := map[Kind][]string{Assignments: {"b", "a"}, Routes: {"r"}}
		o := observe(t, Config{Servers: []Server{server}, Delta: delta, Names: names})
		o.await("assignments a=1 b=2; routes r=1")
	})
}
