// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// A server that says the same twice, under one nonce, is answered twice; nothing is handed out anew.
func TestSameNonceTwice(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		server := play(t, func(d *dialogue) {
			d.next(Clusters)
			d.give(Listeners, "1", "l1")
			for range 2 {
				d.give(Clusters, "1", "c1", cluster("a", 1))
				a := d.next(Clusters)
				d.expect(a.nonce == "c1" && a.fault == "", "accepted", a)
			}
			for range 2 {
				d.give(Assignments, "1", "e1", assignment("a", 1))
			}
			d.give(Clusters, "2", "c1", cluster("a", 2)) // a nonce that was used before means nothing
			a := d.next(Clusters)
			d.expect(a.nonce == "c1" && a.fault == "", "accepted", a)
			d.stay()
		})
		o := observe(t, Config{Servers: []Server{server}, Delta: delta})
		o.await("clusters a=2; assignments a=1")
		states, _ := o.seen()
		if len(states) > 2 {
			t.Errorf("states %q, want at most two", states)
		}
	})
}

// Connections that are cut after any number of bytes, in the middle of frames and messages, leave what is in force as it is; in the end the client has what the
// server has.
func TestConnectionsAreCutAnywhere(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		c := newControl(t, true)
		c.set("1", cluster("a", 1), assignment("a", 1), listener("l", 1, "r"), routes("r", 1))
		cut := newCutter(t, c.Address)
		o := observe(t, Config{Servers: []Server{{Address: cut.address}}, Delta: delta})
		const want = "clusters a=1; assignments a=1; listeners l=1; routes r=1"
		o.await(want)
		o.awaitStatus("streams were cut", func(s Status) bool { return s.StreamFailures >= cuts/4 && s.Connected })
		if states, _ := o.seen(); len(states) != 1 || states[0] != want {
			t.Errorf("states %q, want one", states)
		}
		c.set("2", cluster("a", 2), assignment("a", 2), listener("l", 2, "r"), routes("r", 2))
		o.await("clusters a=2; assignments a=2; listeners l=2; routes r=2")
	})
}

// cuts is how many connections are cut, each some bytes later than the one before: the later ones, which begin with what is known, have less to say than that.
const (
	cuts    = 40
	cutStep = 23
)

// cutter passes connections on to a server.
type cutter struct {
	address string
	served  atomic.Int64
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, done := &cutter{address: l.Addr().String()}, make(chan struct{})
	go func() {
		defer close(done)
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			n := c.served.Add(1)
			go pass(client, to, n)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return c
}

// pass cuts the first connections.
func pass(client net.Conn, to string, n int64) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, client); server.Close() }()
	if n <= cuts {
		_, _ = io.CopyN(client, server, n*cutStep)
		return
	}
	_, _ = io.Copy(client, server)
}

// A server that takes its time with TLS, or never ends its handshake, keeps nobody from the next one.
func TestSlowTLS(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go func() { _, _ = c.Write([]byte{22, 3, 3, 0, 200, 2}) }() // the beginning of an answer
		}
	}()
	_, pool := certificate(t, "control")
	slow := Server{Address: l.Addr().String(), TLS: &tls.Config{RootCAs: pool, ServerName: "control"}}
	c := newControl(t, true)
	c.set("1", static("a", 1), listener("l", 1))
	o := observe(t, Config{Servers: []Server{slow, c.Server}, FetchTimeout: 100 * time.Millisecond})
	o.await("clusters a=1; listeners l=1")
}

// Wrappers within wrappers without end are bytes like others: a resource is unwrapped once.
func TestWrappersInWrappers(t *testing.T) {
	body := packed(static("a", 2))
	for range 1000 {
		body = packed(&discoveryv3.Resource{Name: "a", Version: "2", Resource: body})
	}
	server := play(t, func(d *dialogue) {
		d.next(Clusters)
		d.whole(Listeners, "1", "l1")
		d.whole(Clusters, "1", "c1", static("a", 1))
		d.next(Clusters)
		d.send(&discoveryv3.DiscoveryResponse{TypeUrl: Clusters.TypeURL(), VersionInfo: "2", Nonce: "c2", Resources: []*anypb.Any{body}})
		a := d.next(Clusters)
		d.expect(a.fault != "" && a.version == "1", "refused", a)
		d.stay()
	})
	o := observe(t, Config{Servers: []Server{server}})
	o.await("clusters a=1")
	o.awaitStatus("refused", func(s Status) bool { return s.Kinds[Clusters].Rejected == 1 })
	if states, _ := o.seen(); fmt.Sprint(states) != "[clusters a=1]" {
		t.Errorf("states %q", states)
	}
}
