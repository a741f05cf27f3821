// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/tcptest"
)

const secretType = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

// ownSecret and authoritySecret are secrets in JSON.
func ownSecret(chain, key string) map[string]any {
	return map[string]any{"name": "default", "tls_certificate": map[string]any{"certificate_chain": inline(chain), "private_key": inline(key)}}
}

func authoritySecret(text string) map[string]any {
	return map[string]any{"name": "ROOTCA", "validation_context": map[string]any{"trusted_ca": inline(text)}}
}

// Secrets that come as other resources do, from files or from the control plane, may be exchanged under load, and one that cannot be used changes nothing.
func TestSecretsComeAsOtherResourcesDo(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	forDeliveries(t, func(t *testing.T, d delivery, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		x := newWarmingWorld(t, d, place)
		put := func(chain, key string) {
			t.Helper()
			x.w.put(secretType, "default", ownSecret(chain, key))
			x.w.put(secretType, "ROOTCA", authoritySecret(x.a.pem))
			if f, ok := d.(*asFiles); ok {
				for name, secret := range x.w[secretType] {
					secret["@type"] = secretType
					f.replace(t, f.path(secretType, name), []any{secret})
				}
			}
		}
		put(x.chain, x.key)
		x.secure("shop", "shop-1", "60s", func(name string) map[string]any {
			return map[string]any{"name": name, "sds_config": d.source(secretType, name)}
		})
		d.deliver(t, x.w)
		b := start(harness.Config{Fields: d.fields()})
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: x.service.String(), Connections: 4})
		awaitRequests(t, load, 50)
		for range 5 {
			put(x.a.issue(t, callerIdentity))
			d.deliver(t, x.w)
			awaitRequests(t, load, 50)
		}
		// The key of another certificate.
		chain, _ := x.a.issue(t, callerIdentity)
		_, key := x.a.issue(t, callerIdentity)
		put(chain, key)
		d.deliver(t, x.w)
		harness.Eventually(t, patience, "the pair is refused", func() bool {
			return strings.Contains(b.Get(t, "/config_dump"), "error_state") || b.IsEnvoy() && strings.Contains(b.Stderr(), "KEY_VALUES_MISMATCH")
		})
		awaitRequests(t, load, 50)
		var final programs.LoadReport
		load.Finish(t, &final)
		requireClean(t, final)
		if got := x.status(t, "/"); got != http.StatusOK {
			t.Errorf("%d with a secret that cannot be used", got)
		}
		if s, ok := d.(*byServer); ok {
			harness.Eventually(t, patience, "the secret is refused", func() bool { return s.refusals() != "" })
			t.Log(s.refusals())
		}
		t.Logf("%d requests: %v, Envoy: %v", final.Total, final.Served, b.IsEnvoy())
	})
}

// meshedTCP is a listener without HTTP that leads to such an endpoint.
func meshedTCP(v *vault, service, endpoint netip.AddrPort, envoy bool) harness.Config {
	build := mesh
	if envoy {
		build = meshForEnvoy
	}
	config := build(v, service, meshCluster(webIdentity, endpoint))
	config.Listeners = []harness.Listener{{Address: service, TCP: map[string]any{"cluster": "origins"}}}
	return config
}

// Connections without HTTP are secured, too: what a client sends never comes to the endpoint in plain text.
func TestConnectionsWithoutHTTPAreSecured(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "compares both itself")
	place := harness.SameHost(t)
	a, v := newMesh(t)
	_, addresses := origins(t, place, "meshed")
	secured, _ := a.sidecar(t, place, addresses[0])
	first := make(chan byte, 64)
	raw := tcptest.Listen(t, func(conn net.Conn) {
		var b [1]byte
		if n, _ := conn.Read(b[:]); n == 1 {
			first <- b[0]
		}
		_ = conn.Close()
	})
	run := func(name string, start func(service, endpoint netip.AddrPort)) {
		t.Run(name, func(t *testing.T) {
			service, strange := harness.Service(), harness.Service()
			start(service, secured)
			start(strange, raw)
			requireStatus(t, runExchange(t, place, service, patience, getAndReceive("/")...), http.StatusOK)
			runExchange(t, place, strange, patience, getAndReceive("/")...)
			select {
			case b := <-first:
				if b != 22 {
					t.Errorf("the first byte is %q, and no handshake", b)
				}
			case <-time.After(5 * time.Second):
				t.Error("nobody has connected")
			}
		})
	}
	for _, mode := range harness.Modes(t) {
		run(fmt.Sprintf("fast %v", mode.Fast), func(service, endpoint netip.AddrPort) {
			harness.Start(t, mode, meshedTCP(v, service, endpoint, false), place)
		})
	}
	run("envoy", func(service, endpoint netip.AddrPort) {
		harness.StartEnvoy(t, meshedTCP(v, service, endpoint, true), place)
	})
}

// An endpoint that stalls in the handshake costs the time to connect, and the answer is Envoy's.
func TestEndpointsThatStallInTheHandshake(t *testing.T) {
	suite.Long(t, suite.Clock)
	harness.Beside(t)
	harness.OnlyXLB(t, "compares both itself")
	place := harness.SameHost(t)
	_, v := newMesh(t)
	endpoint := tcptest.Listen(t, func(net.Conn) {})
	cluster := meshCluster(webIdentity, endpoint)
	cluster.Fields["connect_timeout"] = "0.5s"
	service, beside := harness.Service(), harness.Service()
	harness.StartEnvoy(t, meshForEnvoy(v, beside, cluster), place)
	b := harness.Start(t, harness.Modes(t)[0], mesh(v, service, cluster), place)
	before := b.Descriptors(t)
	answers := map[netip.AddrPort]string{}
	for _, address := range []netip.AddrPort{service, beside} {
		for range 5 {
			begun := time.Now()
			r := runExchange(t, place, address, patience, getAndReceive("/")...).Replies[0]
			answers[address] = fmt.Sprintf("%d %s", r.Status, r.Body)
			if took := time.Since(begun); took < 400*time.Millisecond {
				t.Errorf("answered after %v", took)
			}
		}
	}
	if answers[service] != answers[beside] {
		t.Errorf("%s, and Envoy answers %s", answers[service], answers[beside])
	}
	harness.Eventually(t, patience, "no connection is left", func() bool { return b.Descriptors(t) <= before+2 })
}

// Health checks are secured as requests are.
func TestHealthChecksAreSecured(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "compares both itself")
	place := harness.SameHost(t)
	a, v := newMesh(t)
	_, addresses := origins(t, place, "meshed")
	secured, _ := a.sidecar(t, place, addresses[0])
	// The second is plain, and so fails a check that is secured.
	cluster := meshCluster(webIdentity, secured)
	lbs := cluster.Fields["load_assignment"].(map[string]any)["endpoints"].([]any)[0].(map[string]any)
	second := meshCluster(webIdentity, addresses[0]).Fields["load_assignment"].(map[string]any)["endpoints"].([]any)[0].(map[string]any)["lb_endpoints"].([]any)
	lbs["lb_endpoints"] = append(lbs["lb_endpoints"].([]any), second...)
	cluster.Fields["health_checks"] = []any{map[string]any{
		"timeout": "1s", "interval": "0.2s", "unhealthy_threshold": 1, "healthy_threshold": 1, "http_health_check": map[string]any{"path": "/"},
	}}
	service, beside := harness.Service(), harness.Service()
	for _, b := range []*harness.Balancer{
		harness.StartEnvoy(t, meshForEnvoy(v, beside, cluster), place), harness.Start(t, harness.Modes(t)[0], mesh(v, service, cluster), place),
	} {
		awaitFlags(t, b, secured, "healthy")
		awaitFlags(t, b, addresses[0], "/failed_active_hc")
	}
}

// Servers of secrets that are slow, die, or send nonsense leave what has come before in force.
func TestServersOfSecretsThatFail(t *testing.T) {
	suite.Long(t, suite.Clock)
	harness.Beside(t)
	harness.OnlyXLB(t, "it is about what stays in force in XLB")
	place, service := harness.SameHost(t), harness.Service()
	a, v := newTrust(t), newVault(t)
	chain, key := v.hold(t, a)
	_, addresses := origins(t, place, "meshed")
	secured, _ := a.sidecar(t, place, addresses[0])
	b := harness.Start(t, harness.Modes(t)[0], mesh(v, service, meshCluster(webIdentity, secured)), place)
	good := func(what string) {
		t.Helper()
		if got := runExchange(t, place, service, patience, getAndReceive("/")...).Replies[0].Status; got != http.StatusOK {
			t.Errorf("%s: %d", what, got)
		}
	}
	refused := func() bool { return strings.Contains(b.Get(t, "/config_dump"), "error_state") }
	good("at first")
	for name, secret := range map[string][2]string{"truncated": {chain[:len(chain)/2], key}, "another key": {chain, key[:len(key)/2]}, "empty": {"", ""}} {
		v.put(t, certificateSecret(secret[0], secret[1]))
		harness.Eventually(t, patience, name+" is refused", refused)
		good(name)
		v.put(t, certificateSecret(chain, key))
		harness.Eventually(t, patience, "the good one is back", func() bool { return !refused() })
	}
	v.put(t, rootSecret(""))
	harness.Eventually(t, patience, "an empty authority is refused", refused)
	good("an empty authority")
	v.put(t, rootSecret(a.pem))
	before := b.Descriptors(t)
	v.stop()
	if err := os.Remove(v.path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	good("the server is dead")
	silent, err := net.Listen("unix", filepath.Clean(v.path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	time.Sleep(2 * time.Second)
	good("the server is silent")
	if after := b.Descriptors(t); after > before+4 {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}
