// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// guardRig is a client that sends bytes out of band, on a wire to an endpoint that answers before
// it has read them.
type guardRig struct {
	*harness.Balancer
	clients *harness.Place
	service string
	mumbler *harness.Process
}

func newGuardRig(t *testing.T, mode harness.Mode) *guardRig {
	t.Helper()
	if !harness.FastPath(t) {
		t.Skip("needs a kernel of 6.12 or newer for the fast path")
	}
	clients, servers := harness.TwoHosts(t)
	nginx := servers.Nginx(t, harness.Nginx{Identity: "nginx"})
	service := harness.Service()
	r := &guardRig{Balancer: harness.Start(t, mode, harness.OneCluster(service, nginx.Address), clients), clients: clients, service: service.String()}
	r.mumbler = clients.Program(t, programs.MumblerProgram, programs.MumblerSpec{Address: r.service})
	return r
}

// ask has the client ask once, which must be answered whatever it does.
func (r *guardRig) ask(t *testing.T, how string) (m programs.Mumbled) {
	t.Helper()
	r.mumbler.Ask(t, how, &m)
	if m.Status != 200 || m.Body != "nginx" {
		t.Fatalf("%s request: %+v\n%s", how, m, r.Stderr())
	}
	return m
}

// urgent has it break the invariant so often. Programs tell of broken ones at most each 10 ms.
func (r *guardRig) urgent(t *testing.T, times int) {
	t.Helper()
	for range times {
		before := r.Metric(t, "xlb_guard_total", `what="urgent"`)
		r.ask(t, "urgent")
		harness.Eventually(t, await.Patience, "the guard is counted", func() bool {
			return r.Metric(t, "xlb_guard_total", `what="urgent"`) == before+1
		})
		time.Sleep(20 * time.Millisecond)
	}
}

// pathOf is the path of a client's connection, and the reason for it.
func (r *guardRig) pathOf(t *testing.T, client string) (path, reason string) {
	t.Helper()
	var list []admin.Connection
	if err := json.Unmarshal([]byte(r.Get(t, "/xlb/connections")), &list); err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Client.String() == client {
			return c.Path, c.Reason
		}
	}
	t.Fatalf("no connection of %s: %v", client, list)
	return "", ""
}

// requireLogged fails unless a line of the log has all of these.
func (r *guardRig) requireLogged(t *testing.T, parts ...string) {
	t.Helper()
lines:
	for line := range strings.Lines(r.Stderr()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue lines
			}
		}
		return
	}
	t.Errorf("no line of the log has %q:\n%s", parts, r.Stderr())
}

func (r *guardRig) xlb(t *testing.T, args ...string) string {
	t.Helper()
	return r.clients.Run(t, append(append([]string{harness.Binary(t)}, args...), "--admin", r.Admin.String())...).Output(t, commandPatience)
}

// A client that goes on breaking an invariant loses the fast path, for its connection, and nobody
// else does.
func TestClientThatBreaksInvariantsLosesTheFastPathAlone(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "its fast path is guarded")
	r := newGuardRig(t, harness.Mode{Fast: true, Auto: true})
	client := r.ask(t, "plain").Client
	if ready := r.Get(t, "/ready"); ready != "LIVE\n" {
		t.Errorf("/ready: got %q, want LIVE alone", ready)
	}
	r.urgent(t, 3)
	if n := r.Metric(t, "xlb_guarded"); n != 0 {
		t.Errorf("xlb_guarded: got %.0f after three, want 0", n)
	}
	r.urgent(t, 1)
	harness.Eventually(t, await.Patience, "the connection is kept off the fast path", func() bool {
		return r.Metric(t, "xlb_guarded", `scope="client"`) == 1
	})

	// It is served as before, in user space.
	_, slow := r.Served(t)
	const plain = 5
	for range plain {
		r.ask(t, "plain")
	}
	if _, now := r.Served(t); now != slow+plain {
		t.Errorf("requests served in user space: got %.0f, want %.0f", now, slow+plain)
	}
	if n := r.Metric(t, "xlb_handovers_total", `reason="guarded"`); n != 1 {
		t.Errorf("hand-overs because of a guard: got %.0f, want that of the first", n)
	}
	if path, reason := r.pathOf(t, client); path != "slow" || reason != "guarded" {
		t.Errorf("path of the connection: got %s, %s, want slow, guarded", path, reason)
	}

	// Others are where they were.
	_, slow = r.Served(t)
	var load programs.LoadReport
	r.clients.Program(t, programs.LoadProgram, programs.LoadSpec{Address: r.service, Connections: 4, Requests: 250}).Next(t, &load)
	if load.Failed > 0 || load.Total != 1000 {
		t.Errorf("requests of others: %d, of which %d failed: %v", load.Total, load.Failed, load.Failures)
	}
	// To begin with there may be too few i-socks.
	if _, now := r.Served(t); now > slow+2*4 {
		t.Errorf("requests of others that were served in user space: %.0f of %d", now-slow, load.Total)
	}
	if off := r.Metric(t, "xlb_guarded", `scope="endpoint"`) + r.Metric(t, "xlb_guarded", `scope="machine"`); off != 0 {
		t.Errorf("endpoints, and the machine, off the fast path: %.0f, want 0", off)
	}

	// All who are asked tell of it.
	const told = "1 client connection off the fast path"
	if ready := r.Get(t, "/ready"); !strings.HasPrefix(ready, "LIVE\n") || !strings.Contains(ready, told) {
		t.Errorf("/ready: %q", ready)
	}
	if table := r.xlb(t, "get", "guards"); !strings.Contains(table, "1 client connection") {
		t.Errorf("xlb get guards:\n%s", table)
	}
	if stats := r.xlb(t, "get", "stats"); !strings.Contains(stats, "xlb.guards.urgent") {
		t.Errorf("xlb get stats:\n%s", stats)
	}
	if report := r.xlb(t, "check"); !strings.Contains(report, "off the fast path: 1 client connection") {
		t.Errorf("xlb check:\n%s", report)
	}
	r.requireLogged(t, "level=WARN", "guard=urgent", "client="+client, "endpoint=10.99.0.2:", "cgroup=/", "cookie=", "lease=")
	r.requireLogged(t, "level=WARN", "kept off the fast path", "client="+client, "4 x concurrent or urgent")

	// Nothing is left when it has gone.
	r.mumbler.Kill(t)
	harness.Eventually(t, await.Patience, "a connection that has closed is kept no more", func() bool {
		return r.Metric(t, "xlb_guarded") == 0 && r.Get(t, "/ready") == "LIVE\n"
	})
}

// With --fast-path=on broken invariants are told of, and change nothing.
func TestBrokenInvariantsAreOnlyToldOfWithTheFastPathOn(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "its fast path is guarded")
	r := newGuardRig(t, harness.Mode{Fast: true})
	r.urgent(t, 8)
	client := r.ask(t, "plain").Client
	r.requireLogged(t, "level=WARN", "guard=urgent", "client="+client)
	if path, reason := r.pathOf(t, client); path != "fast" {
		t.Errorf("path of the connection: got %s, %s, want fast", path, reason)
	}
	if n, ready := r.Metric(t, "xlb_guarded"), r.Get(t, "/ready"); n != 0 || ready != "LIVE\n" {
		t.Errorf("off the fast path: %.0f, /ready %q", n, ready)
	}
}

// On a kernel that cannot run the fast path auto serves all the same, and says so.
func TestAutoServesWhereTheKernelCannot(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy needs no kernel")
	place, service := harness.SameHost(t), harness.Service()
	_, addresses := origins(t, place, "server")
	if !harness.FastPath(t) {
		t.Skip("needs a kernel of 6.12 or newer, which has what is hidden here")
	}
	b := harness.Start(t, harness.Mode{Auto: true, Lacks: "sock_send_length"}, harness.OneCluster(service, addresses...), place)
	var load programs.LoadReport
	place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 2, Requests: 50}).Next(t, &load)
	if load.Failed > 0 || load.Total != 100 {
		t.Errorf("requests: %d, of which %d failed: %v", load.Total, load.Failed, load.Failures)
	}
	if fast, slow := b.Served(t); fast != 0 || slow != 100 {
		t.Errorf("served: %.0f fast, %.0f slow, want all slow", fast, slow)
	}
	if n := b.Metric(t, "xlb_fast_path"); n != 0 {
		t.Errorf("xlb_fast_path: got %.0f, want 0", n)
	}
	if ready := b.Get(t, "/ready"); !strings.HasPrefix(ready, "LIVE\nthis kernel off the fast path: ") {
		t.Errorf("/ready: %q", ready)
	}
	if log := b.Stderr(); !strings.Contains(log, "the kernel cannot run the fast path") || !strings.Contains(log, "tracepoint sock_send_length") {
		t.Errorf("nothing of it in the log:\n%s", log)
	}
}

// Who asks for the fast path is told what is missing, and so is who asks what this machine can do.
func TestKernelWithoutTheTracepointIsRefusedInWords(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy needs no kernel")
	if !harness.FastPath(t) {
		t.Skip("needs a kernel of 6.12 or newer, which has what is hidden here")
	}
	place, service := harness.SameHost(t), harness.Service()
	older := func(args ...string) *harness.Process {
		argv := harness.OnOlderKernel(t, "sock_send_length", append([]string{harness.Binary(t)}, args...))
		return place.Run(t, argv...)
	}
	config := readable(t, "xlb.yaml", harness.YAML(t, harness.OneCluster(service, harness.Service())))
	run := older("run", "--config", config, "--cgroup", place.Cgroup(), "--admin", fmt.Sprintf("127.0.0.1:%d", place.FreePort(t)), "--fast-path=on")
	if code := run.Wait(t, commandPatience); code != 2 {
		t.Errorf("exit code: got %d, want 2", code)
	}
	requireMessage(t, run.Stderr(), 1, []string{"lacks what the fast path needs", "tracepoint sock_send_length", "Linux 6.3", "--fast-path=off", "xlb check"})
	report := older("check").Output(t, commandPatience)
	for _, want := range []string{"outcome of sends      missing", "sock_send_length: not supported", "verdict: slow path only"} {
		if !strings.Contains(report, want) {
			t.Errorf("xlb check does not say %q:\n%s", want, report)
		}
	}
}

// A client that leaves amid a response breaks no invariant, and its endpoint neither, which sends the rest. What an endpoint sends on an
// idle connection does.
func TestRestOfAResponseWhoseClientHasLeftIsNoGuards(t *testing.T) {
	harness.OnlyXLB(t, "its fast path is guarded")
	if !harness.FastPath(t) {
		t.Skip("needs a kernel of 6.12 or newer for the fast path")
	}
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			clients, servers := topology.places(t)
			service, server, client := harness.Service(), servers.Puppet(t), clients.Puppet(t)
			b := harness.Start(t, harness.Mode{Fast: true}, harness.OneCluster(service, server.Address), clients)
			ask := func() (here, there int) {
				here = client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn
				say(t, client, here, get("/"))
				return here, heard(t, server, "\r\n\r\n")
			}
			unasked := func() float64 { return b.Metric(t, "xlb_guard_total", `what="unasked"`) }

			here, there := ask()
			say(t, server, there, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n0123456789")
			heard(t, client, "0123456789")
			client.Pull(t, programs.Pull{Do: programs.PuppetClose, Conn: here})
			say(t, server, there, "0123456789")
			harness.Eventually(t, patience, "the lease has ended", func() bool { return b.Metric(t, "xlb_leases_active") == 0 })
			if n := unasked(); n != 0 {
				t.Errorf("the rest of a response is counted as %.0f broken invariants", n)
			}

			_, there = ask()
			say(t, server, there, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")
			heard(t, client, "OK")
			say(t, server, there, "HTTP/1.1 200 OK\r\n\r\n")
			harness.Eventually(t, patience, "what nobody asked for is counted", func() bool { return unasked() == 1 })
		})
	}
}
