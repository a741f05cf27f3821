// SPDX-License-Identifier: Apache-2.0

package istiod

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// Where the server's sidecar listens (testdata/secured.yaml).
const inbound = "127.82.2.1:9443"

// tap passes connections on, and sees how each begins.
type tap struct {
	port           string
	secured, plain atomic.Int64
}

func newTap(t *testing.T, to string) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.82.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &tap{}
	_, p.port, _ = net.SplitHostPort(l.Addr().String())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(c, to)
		}
	}()
	return p
}

// handshake is the first byte of TLS.
const handshake = 22

func (p *tap) pass(c net.Conn, to string) {
	defer c.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(c, server)
		_ = c.Close()
	}()
	first := make([]byte, 1)
	if _, err := io.ReadFull(c, first); err != nil {
		return // a connection that was opened beforehand
	}
	if first[0] == handshake {
		p.secured.Add(1)
	} else {
		p.plain.Add(1)
	}
	if _, err := server.Write(first); err == nil {
		_, _ = io.Copy(server, c)
	}
}

const (
	secured = "secured.default.svc.cluster.local"
	open    = "open.default.svc.cluster.local"
)

// securedRequests are made of a server that can be reached by mutual TLS alone.
var securedRequests = []request{
	{"GET", secured, "/", ""},
	{"GET", "secured", "/a?b=c", ""},
	{"POST", secured, "/", "Content-Length: 0\r\n"},
	{"GET", secured, "/forged", "X-Forwarded-Client-Cert: By=forged\r\n"},
	{"GET", open, "/", ""},
}

// Certificates are signed by istiod, and configurations are istiod's, also that of the server's sidecar, an Envoy: an unchanged client reaches by XLB what it reaches by
// Envoy. What PeerAuthentication says holds for both.
func TestServersWithSidecarsAreReachedByMutualTLS(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		w := &world{place: harness.SameHost(t), a: newOriginAt(t, "a", "127.0.0.1:0"), b: newOrigin(t, "b")}
		tap := newTap(t, inbound)
		w.control = startIstiod(t, w.place, emptyKubernetes(t), "testdata/mesh-mtls.yaml", true, slices.Concat(upstream, newAuthority(t))...)
		peers := func(mode string) {
			t.Helper()
			w.configure(t, "secured.yaml", map[string]string{"MODE": mode, "TAP": tap.port, "SERVER": w.a.port, "OPEN": w.b.port})
		}
		peers("STRICT")
		harness.Eventually(t, patience, "istiod has read its files", func() bool { return len(w.log.lines("Full push, new service")) > 0 })
		caller := newAgent(t, w.control, tokenOf("caller"))
		w.startSidecars(t, mode, caller, newAgent(t, w.control, tokenOf("web")))
		w.compareSecured(t)
		if tap.secured.Load() == 0 || tap.plain.Load() != 0 {
			t.Errorf("STRICT: the server has seen %d connections with TLS, %d without", tap.secured.Load(), tap.plain.Load())
		}
		if reply, err := direct(t); err == nil {
			t.Errorf("STRICT: without TLS the server answers %s", reply)
		}

		load := w.place.Program(t, programs.LoadProgram, programs.LoadSpec{
			Address: atXLB, Connections: 2, Asks: []programs.Ask{{Path: "/", Host: secured}}, Pause: time.Millisecond,
		})
		for range 3 {
			time.Sleep(200 * time.Millisecond)
			caller.renew(t, w.control, tokenOf("caller"))
		}
		peers("PERMISSIVE")
		harness.Eventually(t, patience, "PERMISSIVE: without TLS the server answers, too", func() bool {
			reply, err := direct(t)
			return err == nil && strings.HasPrefix(reply, "200")
		})
		if tap.plain.Load() != 0 {
			t.Errorf("PERMISSIVE: %d connections without TLS", tap.plain.Load())
		}
		// Whoever knows that the server does not want TLS stops speaking it; until then the server refuses some.
		var report programs.LoadReport
		load.Finish(t, &report)
		if report.Failed != 0 || report.Total < 100 {
			t.Errorf("%d of %d requests failed while certificates changed: %v", report.Failed, report.Total, report.Failures)
		}
		t.Logf("%d requests, none failed, over %d connections with TLS", report.Total, tap.secured.Load())
		peers("DISABLE")
		for _, to := range []string{atXLB, atEnvoy} {
			harness.Eventually(t, patience, to+" speaks plain text, whichever of its threads does", func() bool {
				for range 10 {
					if reply := ask(t, w.place, to, securedRequests[0])[0]; reply.Status != http.StatusOK || !strings.Contains(reply.Body, "client=[]") {
						return false
					}
				}
				return true
			})
		}
		w.compareSecured(t)
		if tap.plain.Load() == 0 {
			t.Error("DISABLE: no connection without TLS")
		}
		if refused := w.log.lines("ACK ERROR"); len(refused) > 0 {
			t.Errorf("istiod was told:\n%s", strings.Join(refused, ""))
		}
	})
}

// startSidecars runs XLB and Envoy for clients, and Envoy for the server, and waits until a request comes through.
func (w *world) startSidecars(t *testing.T, mode harness.Mode, clients, server *agent) {
	t.Helper()
	harness.StartEnvoy(t, w.bootstrapWith("web", server), w.place)
	w.xlb = harness.Start(t, mode, w.bootstrapWith("xlb", clients), w.place)
	w.envoy = harness.StartEnvoy(t, w.bootstrapWith("envoy", clients), w.place)
	for _, to := range []string{atXLB, atEnvoy} {
		w.await(t, to, request{"GET", secured, "/", ""}, func(r programs.Reply) bool { return r.Status == http.StatusOK })
	}
}

// compareSecured makes requests by XLB and by Envoy. The server tells what its sidecar says of the client's certificate.
func (w *world) compareSecured(t *testing.T) {
	t.Helper()
	for _, r := range securedRequests {
		got, want := ask(t, w.place, atXLB, r)[0], ask(t, w.place, atEnvoy, r)[0]
		if got.Status != want.Status || got.Identity != want.Identity || got.Body != want.Body {
			t.Errorf("%s%s: XLB answers %d of %q %s, Envoy %d of %q %s", r.service, r.path, got.Status, got.Identity, got.Body, want.Status, want.Identity, want.Body)
		}
		t.Logf("%s %s%s: %d %s", r.method, r.service, r.path, got.Status, got.Body)
	}
}

// direct asks the server's sidecar without TLS.
func direct(t *testing.T) (string, error) {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + netip.MustParseAddrPort(inbound).String() + "/")
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	return r.Status, nil
}
