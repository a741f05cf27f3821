// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/heels/stand"
	"github.com/xlb-project/xlb/test/heels/traffic"
)

// patience bounds waits for what takes a moment.
const patience = 30 * time.Second

// bed is a stand with its processes, for one test.
type bed struct {
	*stand.Stand
	t       testing.TB
	servers map[*stand.Host]*lab.Process
	// option is the agents' configuration of the TCP option; empty: the default.
	option string
	// pace bounds what servers send on a connection, in bytes per second; 0: nothing does.
	pace int
}

func newBed(t testing.TB) *bed {
	t.Helper()
	return newBedOf(t, stand.Options{})
}

// newBedOf is newBed with options; cgroups are chosen here.
func newBedOf(t testing.TB, o stand.Options) *bed {
	t.Helper()
	o.Cgroups = harness.CgroupPath(t, "")
	s, err := stand.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, s.Close()) })
	must(t, s.WatchResets())
	return &bed{Stand: s, t: t, servers: map[*stand.Host]*lab.Process{}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// got returns the value of a call that must not fail.
func got[T any](t testing.TB, value T, err error) T {
	t.Helper()
	must(t, err)
	return value
}

// serve starts a server on every server host, at each port of every address it has.
func (b *bed) serve(ports ...uint16) {
	b.t.Helper()
	for _, h := range b.Servers {
		b.serveOn(h, ports...)
	}
}

func (b *bed) serveOn(h *stand.Host, ports ...uint16) {
	b.t.Helper()
	o := traffic.ServerOptions{Name: h.Name, Pace: b.pace}
	for _, port := range ports {
		// Both families: an unspecified IPv6 address takes IPv4 as well.
		o.Listen = append(o.Listen, netip.AddrPortFrom(netip.IPv6Unspecified(), port))
	}
	p := b.traffic(h, traffic.ServerRole, o)
	b.servers[h] = p
	harness.Eventually(b.t, patience, "server on "+h.Name+" is ready", func() bool {
		if err := p.Exited(); err != nil {
			b.t.Fatal(err)
		}
		return strings.HasPrefix(p.Output(), traffic.Ready)
	})
}

// served ends the servers and adds up what they report.
func (b *bed) served() traffic.ServerReport {
	b.t.Helper()
	all := traffic.ServerReport{Errors: map[string]int64{}}
	for _, h := range b.Servers {
		p, runs := b.servers[h]
		if !runs {
			continue
		}
		delete(b.servers, h)
		must(b.t, p.Stop())
		var r traffic.ServerReport
		_, text, _ := strings.Cut(p.Output(), "\n")
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			b.t.Fatalf("report of %s: %v: %q%s", h.Name, err, p.Output(), p.Quote())
		}
		all.Connections += r.Connections
		all.Requests += r.Requests
		for what, n := range r.Errors {
			all.Errors[h.Name+": "+what] += n
		}
	}
	return all
}

func (b *bed) traffic(h *stand.Host, role string, options any) *lab.Process {
	b.t.Helper()
	text, err := json.Marshal(options)
	must(b.t, err)
	p, err := h.Start("traffic "+role, "/proc/self/exe", trafficCommand, role, string(text))
	must(b.t, err)
	return p
}

// load is a client that runs.
type load struct {
	b *bed
	p *lab.Process
}

// start starts a client.
func (b *bed) start(o traffic.ClientOptions) load {
	b.t.Helper()
	return load{b, b.traffic(b.Client, traffic.ClientRole, o)}
}

// report waits for the client's end.
func (l load) report() (r traffic.ClientReport) {
	l.b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	out, err := l.p.Wait(ctx)
	must(l.b.t, err)
	must(l.b.t, json.Unmarshal([]byte(out), &r))
	return r
}

// finish ends a load that would go on, and returns its report.
func (l load) finish() traffic.ClientReport {
	l.b.t.Helper()
	must(l.b.t, l.p.Stop())
	return l.report()
}

// ask runs a client.
func (b *bed) ask(o traffic.ClientOptions) traffic.ClientReport {
	b.t.Helper()
	return b.start(o).report()
}

// few is a load of some short connections.
func few(target netip.AddrPort, n int) traffic.ClientOptions {
	return traffic.ClientOptions{Target: target, Connections: n, Concurrency: 4, Requests: 3, Request: 1000, Answer: 5000, Timeout: patience}
}

// bulk is a load of large messages, which the kernel hands to devices in super-packets.
func bulk(target netip.AddrPort) traffic.ClientOptions {
	if testing.Short() {
		return traffic.ClientOptions{Target: target, Connections: 3, Concurrency: 3, Requests: 2, Request: 1 << 20, Answer: 3 << 20, Timeout: patience}
	}
	return traffic.ClientOptions{Target: target, Connections: 6, Concurrency: 3, Requests: 4, Request: 3 << 20, Answer: 5 << 20, Timeout: patience}
}

// complete fails the test unless every connection of a load ended well, seen as one with the target.
func complete(t testing.TB, o traffic.ClientOptions, r traffic.ClientReport) {
	t.Helper()
	if r.Errors != 0 || r.Connections != int64(o.Connections) || r.Requests != int64(o.Connections*o.Requests) {
		t.Fatalf("%d connections and %d requests ended well, want %d and %d; errors: %v", r.Connections, r.Requests, o.Connections, o.Connections*o.Requests, r.Kinds)
	}
	if r.Elsewhere != 0 {
		t.Fatalf("%d connections are not with %s, as the client sees it", r.Elsewhere, o.Target)
	}
}

// shared fails the test unless each of the servers answered something.
func (b *bed) shared(r traffic.ClientReport, servers ...*stand.Host) {
	b.t.Helper()
	var want []string
	for _, h := range servers {
		want = append(want, h.Name)
	}
	if have := slices.Sorted(maps.Keys(r.Servers)); !slices.Equal(have, want) {
		b.t.Fatalf("servers %v answered (%v), want %v", have, r.Servers, want)
	}
}

// seen counts packets at a host while do runs.
func (b *bed) seen(h *stand.Host, do func()) stand.Packets {
	b.t.Helper()
	before := got2(h.Packets())(b.t)
	do()
	return got2(h.Packets())(b.t).Since(before)
}

// got2 is got for calls in one expression.
func got2[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T { t.Helper(); return got(t, value, err) }
}
