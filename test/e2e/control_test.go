// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/certtest"
	"github.com/xlb-project/xlb/test/e2e/harness"
)

// authority signs certificates, which it leaves with their keys in files of its directory.
type authority struct {
	dir string
	own *certtest.Certificate // nil before it has signed itself
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.own = a.sign(t, "ca", certtest.Authority())
	return a
}

func (a *authority) file(name string) map[string]any {
	return map[string]any{"filename": filepath.Join(a.dir, name)}
}

// sign makes a certificate; the first signs itself.
func (a *authority) sign(t *testing.T, name string, template *x509.Certificate) *certtest.Certificate {
	t.Helper()
	template.Subject = pkix.Name{CommonName: name}
	c := certtest.Sign(t, template, a.own)
	for suffix, text := range map[string]string{".crt": c.PEM(), ".key": c.KeyPEM(t)} {
		if err := os.WriteFile(filepath.Join(a.dir, name+suffix), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (a *authority) serverConfig(t *testing.T) *tls.Config {
	t.Helper()
	server := a.sign(t, "server", &x509.Certificate{DNSNames: []string{"control.test"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return &tls.Config{Certificates: []tls.Certificate{server.TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.own.Pool(), MinVersion: tls.VersionTLS12}
}

// socket is the transport_socket of a client, which accepts servers of that name.
func (a *authority) socket(name string) map[string]any {
	return map[string]any{"name": "envoy.transport_sockets.tls", "typed_config": map[string]any{
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
		"sni":   "control.test",
		"common_tls_context": map[string]any{
			"tls_certificates": []any{map[string]any{"certificate_chain": a.file("client.crt"), "private_key": a.file("client.key")}},
			"validation_context": map[string]any{
				"trusted_ca":                    a.file("ca.crt"),
				"match_typed_subject_alt_names": []any{map[string]any{"san_type": "DNS", "matcher": map[string]any{"exact": name}}},
			},
		},
	}}
}

// shopWorld is a service of one cluster with one server.
func shopWorld(t *testing.T, d delivery, place *harness.Place) (w world, service string) {
	t.Helper()
	_, servers := origins(t, place, "a")
	address := harness.Service()
	w = world{}
	w.put(assignmentType, "shop", assignmentOf("shop", servers[0]))
	w.put(clusterType, "shop", edsCluster(d, "shop", "shop"))
	w.put(listenerType, "web", rdsListener(d, "web", address, "table"))
	w.put(routesType, "table", tableOf("table", routeTo("/", "shop", nil)))
	d.deliver(t, w)
	return w, address.String()
}

func withSocket(d delivery, socket map[string]any) map[string]any {
	fields := d.fields()
	cluster := fields["static_resources"].(map[string]any)["clusters"].([]any)[0].(map[string]any)
	cluster["transport_socket"] = socket
	return fields
}

func TestControlPlaneOverMutualTLS(t *testing.T) {
	harness.Beside(t)
	place := harness.SameHost(t)
	a := newAuthority(t)
	a.sign(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	starts := map[string]func(harness.Config) *harness.Balancer{
		"balancer": func(c harness.Config) *harness.Balancer { return harness.Start(t, harness.Modes(t)[0], c, place) },
		"envoy":    func(c harness.Config) *harness.Balancer { return harness.StartEnvoy(t, c, place) },
	}
	for name, start := range starts {
		d := serveControlPlaneWith(t, true, a.serverConfig(t))
		_, service := shopWorld(t, d, place)
		start(harness.Config{Fields: withSocket(d, a.socket("control.test"))})
		requireStatus(t, runExchange(t, place, addressOf(t, service), await.Patience, getAndReceive("/")...), http.StatusOK)
		t.Log(name)
	}
}

// runUnready starts XLB, waits until it can be asked, and returns what /ready says.
func runUnready(t *testing.T, place *harness.Place, fields map[string]any) (process *harness.Process, ready func() (int, string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "xlb.yaml")
	whole := maps.Clone(fields)
	if err := os.WriteFile(file, harness.YAML(t, harness.Config{Fields: whole}), 0o644); err != nil {
		t.Fatal(err)
	}
	admin := fmt.Sprintf("127.0.0.1:%d", place.FreePort(t))
	process = place.Run(t, harness.Binary(t), "run", "--config", file, "--admin", admin, "--cgroup", place.Cgroup())
	ready = func() (int, string) {
		response, err := place.HTTPClient().Get("http://" + admin + "/ready")
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	// The kernel verifies its programs first, which takes as long as other work lets it.
	harness.Eventually(t, patience, "the admin API answers", func() bool {
		status, _ := ready()
		return status != 0
	})
	return process, ready
}

func TestReadinessWaitsForTheControlPlane(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy says only that it is initializing")
	place := harness.SameHost(t)
	d := serveControlPlane(t, false)
	_, ready := runUnready(t, place, d.fields())
	want := "starting: waiting for clusters and listeners from " + d.address.String() + "\n"
	harness.Eventually(t, await.Patience, "/ready names the control plane", func() bool {
		status, text := ready()
		return status == http.StatusServiceUnavailable && text == want
	})
	_, service := shopWorld(t, d, place)
	harness.Eventually(t, await.Patience, "readiness", func() bool {
		status, _ := ready()
		return status == http.StatusOK
	})
	requireStatus(t, runExchange(t, place, addressOf(t, service), await.Patience, getAndReceive("/")...), http.StatusOK)
}

// Who pretends to be the control plane is not listened to.
func TestControlPlaneOfAnotherNameIsNotTrusted(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "it is about what XLB accepts")
	place := harness.SameHost(t)
	a := newAuthority(t)
	a.sign(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	others := newAuthority(t)
	others.sign(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	d := serveControlPlaneWith(t, false, a.serverConfig(t))
	shopWorld(t, d, place)
	for _, socket := range []map[string]any{a.socket("other.test"), others.socket("control.test")} {
		process, ready := runUnready(t, place, withSocket(d, socket))
		harness.Eventually(t, await.Patience, "a message about the certificate", func() bool {
			return strings.Contains(process.Stderr(), "match_typed_subject_alt_names") || strings.Contains(process.Stderr(), "certificate")
		})
		if status, text := ready(); status != http.StatusServiceUnavailable {
			t.Errorf("/ready: %d %s", status, text)
		}
	}
}

func TestBootstrapChangesBesideTheControlPlane(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy does not read its bootstrap again")
	place := harness.SameHost(t)
	d := serveControlPlane(t, true)
	w, service := shopWorld(t, d, place)
	b := harness.Start(t, harness.Modes(t)[0], harness.Config{Fields: d.fields()}, place)

	// A static listener that leads to a cluster of its own comes in addition.
	_, servers := origins(t, place, "fixed")
	fixed := harness.Service()
	more := d.fields()
	static := more["static_resources"].(map[string]any)
	static["clusters"] = append(static["clusters"].([]any), map[string]any{"name": "fixed", "load_assignment": assignmentOf("fixed", servers[0])})
	listener := rdsListener(d, "fixed", fixed, "none")
	manager := listener["filter_chains"].([]any)[0].(map[string]any)["filters"].([]any)[0].(map[string]any)["typed_config"].(map[string]any)
	delete(manager, "rds")
	manager["route_config"] = tableOf("fixed", routeTo("/", "fixed", nil))
	static["listeners"] = []any{listener}
	b.Reload(t, harness.Config{Fields: more})
	harness.Eventually(t, await.Patience, "both are served", func() bool { return strings.Contains(b.Get(t, "/listeners"), "fixed::") })
	for _, address := range []string{fixed.String(), service} {
		requireStatus(t, runExchange(t, place, addressOf(t, address), await.Patience, getAndReceive("/")...), http.StatusOK)
	}

	other := d.fields()
	other["node"] = map[string]any{"id": "other", "cluster": "test"}
	b.Reload(t, harness.Config{Fields: other})
	harness.Eventually(t, await.Patience, "a change of the node is refused", func() bool { return strings.Contains(b.Stderr(), "restart the daemon to change them") })

	// A dynamic cluster cannot take the place of the static one.
	w.put(clusterType, "fixed", map[string]any{"name": "fixed", "type": "STATIC"})
	w.put(assignmentType, "shop", assignmentOf("shop", servers[0]))
	d.deliver(t, w)
	harness.Eventually(t, await.Patience, "the control plane is still followed", func() bool { return strings.Contains(b.Get(t, "/clusters"), "shop::"+servers[0].String()) })
	requireStatus(t, runExchange(t, place, fixed, await.Patience, getAndReceive("/")...), http.StatusOK)
}
