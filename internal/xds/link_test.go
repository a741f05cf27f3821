// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/tcptest"
)

// A server that ends the stream at any point: the state stays, and in the end it is the server's.
func TestServerClosesAnywhere(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		var plays []func(*dialogue)
		// Each play does one step more than the one before, and ends.
		steps := []func(*dialogue){
			func(*dialogue) {},
			func(d *dialogue) { d.next(Clusters) },
			func(d *dialogue) { d.give(Clusters, "1", "1", cluster("a", 1)) },
			func(d *dialogue) { d.next(Clusters) },
			func(d *dialogue) { d.next(Assignments) },
			func(d *dialogue) { d.give(Listeners, "1", "1", listener("l", 1, "r")) },
			func(d *dialogue) { d.give(Assignments, "1", "2", assignment("a", 1)) },
			func(d *dialogue) { d.next(Routes) },
			func(d *dialogue) { d.give(Routes, "1", "3", routes("r", 1)) },
			func(d *dialogue) { d.next(Routes) },
		}
		for n := range len(steps) + 1 {
			plays = append(plays, func(d *dialogue) {
				for _, step := range steps[:n] {
					step(d)
				}
				if n == len(steps) {
					d.stay()
				}
			})
		}
		o := observe(t, Config{Servers: []Server{play(t, plays...)}, Delta: delta})
		o.await("clusters a=1; assignments a=1; listeners l=1; routes r=1")
		o.awaitStatus("streams", func(s Status) bool { return s.StreamFailures == uint64(len(steps)) && s.Connected })
		if states, _ := o.seen(); len(states) != 1 {
			t.Errorf("states %q, want one: it stays in force", states)
		}
	})
}

// A stream begins with the versions of the one before, but not with those of another server.
func TestVersionsOnReconnect(t *testing.T) {
	server := play(t, func(d *dialogue) {
		d.next(Clusters)
		d.whole(Clusters, "c", "1", cluster("a", 1), cluster("b", 1))
		d.whole(Listeners, "l", "2")
		d.next(Assignments)
		d.whole(Assignments, "e", "3", assignment("a", 1))
		d.next(Assignments)
	}, func(d *dialogue) {
		a := d.next(Clusters)
		d.expect(a.version == "c" && a.nonce == "" && a.node != nil, "clusters", a)
		a = d.next(Listeners)
		d.expect(a.version == "l", "listeners", a)
		a = d.next(Assignments)
		d.expect(a.version == "" && len(a.names) == 2, "no version while one is missing", a)
		d.whole(Assignments, "f", "3", assignment("a", 1), assignment("b", 2))
		d.next(Assignments)
	}, func(d *dialogue) {
		a := d.next(Assignments)
		d.expect(a.version == "f" && a.nonce == "", "assignments", a)
		d.stay()
	})
	o := observe(t, Config{Servers: []Server{server}})
	o.await("clusters a=1 b=1; assignments a=1 b=2")
	o.awaitStatus("streams", func(s Status) bool { return s.StreamFailures == 2 && s.Connected })
}

// Servers are tried in their order; what the other gave is kept, and named to the next without versions it does not know.
func TestFailOver(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		first := play(t, func(d *dialogue) {
			d.next(Clusters)
			d.give(Clusters, "1", "1", static("a", 1), static("b", 1))
			d.give(Listeners, "1", "1", listener("l", 1))
			d.next(Listeners)
			d.next(Listeners)
		}, func(*dialogue) {})
		second := play(t, func(d *dialogue) {
			a := d.next(Clusters)
			d.expect(a.version == "", "no version", a)
			if d.delta {
				version, named := a.known["b"]
				d.expect(len(a.known) == 2 && named && version == "", "names without versions", a)
				d.part(Clusters, "x", "1", []string{"b"}, static("a", 2))
			} else {
				d.whole(Clusters, "x", "1", static("a", 2))
			}
			d.stay()
		})
		o := observe(t, Config{Servers: []Server{{Address: tcptest.Refusing(t).String()}, first, second}, Delta: delta})
		o.await("clusters a=2; listeners l=1")
		if s := o.Status(); s.Server != second.Address || !s.Connected {
			t.Errorf("status %+v", s)
		}
	})
}

// A first server that accepts and says nothing does not keep the client from the second.
func TestSilentServer(t *testing.T) {
	silent := play(t, func(d *dialogue) { d.stay() })
	c := newControl(t, true)
	c.set("1", static("a", 1), listener("l", 1))
	o := observe(t, Config{Servers: []Server{silent, c.Server}, FetchTimeout: 100 * time.Millisecond})
	o.await("clusters a=1; listeners l=1")
}

// A server that comes up late is found.
func TestServerComesUp(t *testing.T) {
	// Nobody else can take such an address meanwhile.
	path := filepath.Join(t.TempDir(), "server")
	o := observe(t, Config{Servers: []Server{{Address: "unix:" + path, Authority: "x"}}})
	s := o.awaitStatus("failures", func(s Status) bool { return s.StreamFailures > 2 })
	if s.Connected {
		t.Errorf("status %+v", s)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, &script{t: t, plays: []func(*dialogue){func(d *dialogue) {
		d.whole(Clusters, "1", "1", static("a", 1))
		d.whole(Listeners, "1", "1")
		d.stay()
	}}})
	o.await("clusters a=1")
}

// Pauses double up to their bound, and are random below it.
func TestPauses(t *testing.T) {
	b := Backoff{First: 500 * time.Millisecond, Longest: 30 * time.Second}
	bounds := []time.Duration{500, 1000, 2000, 4000, 8000, 16000, 30000, 30000}
	for _, bound := range bounds {
		if d := b.Next(); d <= 0 || d > bound*time.Millisecond || b.bound != bound*time.Millisecond {
			t.Errorf("pause %v below %v, want below %v ms", d, b.bound, int64(bound))
		}
	}
	b.Reset()
	if d := b.Next(); d > 500*time.Millisecond {
		t.Errorf("pause %v after a reset", d)
	}
}

// Update takes long: responses are accepted all the same, and it is called with the newest state only.
func TestSlowUpdate(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		const pushes = 500
		release := make(chan struct{})
		server := play(t, func(d *dialogue) {
			d.next(Listeners)
			d.give(Listeners, "1", "1")
			for i := range pushes {
				d.next(Clusters)
				d.give(Clusters, "v", "n", static("a", i))
			}
			d.next(Clusters)
			close(release)
			d.stay()
		})
		var calls atomic.Int64
		var o *observed
		made := make(chan struct{})
		o = observe(t, Config{Servers: []Server{server}, Delta: delta, Update: func(s Snapshot) error {
			<-made
			<-release
			calls.Add(1)
			o.add(text(t, s))
			return nil
		}})
		close(made)
		o.await("clusters a=499")
		if n := calls.Load(); n > 2 {
			t.Errorf("%d calls for %d pushes while the first one lasted", n, pushes)
		}
	})
}

// Errors name the rule.
func TestErrorsArePlain(t *testing.T) {
	server := play(t, func(d *dialogue) { d.next(Clusters) })
	o := observe(t, Config{Servers: []Server{server}})
	o.awaitStatus("error", func(s Status) bool { return strings.HasPrefix(s.Error, "receive: ") })
}
