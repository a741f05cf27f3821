// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/certtest"
)

// certificates are those of a control plane by the name of "envoy-gateway", and of its clients, in the form of Envoy's SDS by file.
type certificates struct {
	dir    string
	server tls.Certificate
}

func newCertificates(t *testing.T) *certificates {
	t.Helper()
	c := &certificates{dir: t.TempDir()}
	template := certtest.Authority()
	template.DNSNames = []string{"envoy-gateway"}
	own := certtest.Sign(t, template, nil)
	c.write(t, "tls.crt", own.PEM())
	c.write(t, "ca.crt", own.PEM())
	c.write(t, "tls.key", own.KeyPEM(t))
	c.secret(t, "xds-certificate.json", "xds_certificate", `"tls_certificate": {"certificate_chain": {"filename": "@/tls.crt"}, "private_key": {"filename": "@/tls.key"}}`)
	c.trust(t, "envoy-gateway")
	c.server = own.TLS()
	return c
}

func (c *certificates) write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600))
}

func (c *certificates) secret(t *testing.T, file, name, content string) {
	t.Helper()
	c.write(t, file, fmt.Sprintf(`{"resources": [{"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", "name": %q, %s}]}`,
		name, strings.ReplaceAll(content, "@", c.dir)))
}

// trust lets clients connect to servers with that name only.
func (c *certificates) trust(t *testing.T, name string) {
	t.Helper()
	c.secret(t, "xds-trusted-ca.json", "xds_trusted_ca", `"validation_context": {"trusted_ca": {"filename": "@/ca.crt"},
		"match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": "`+name+`"}}]}`)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// gatewayBootstrap is the bootstrap that Envoy Gateway 1.9.1 passes in the arguments.
func gatewayBootstrap(t *testing.T, c *certificates, change ...Option) (*Bootstrap, error) {
	t.Helper()
	text, err := os.ReadFile("testdata/envoy-gateway-1.9.1.bootstrap.yaml")
	must(t, err)
	return ParseBootstrap("b.yaml", []byte(strings.ReplaceAll(string(text), "@certs@", c.dir)), change...)
}

var gatewayNode = AsNode(NodeName{ID: "eg-1", Cluster: "envoy-gateway-system/eg", Zone: "z"})

func TestBootstrapOfEnvoyGateway(t *testing.T) {
	b, err := gatewayBootstrap(t, newCertificates(t), gatewayNode)
	must(t, err)
	d := b.Dynamic
	if !d.Delta || d.FetchTimeout != 0 || len(d.Servers) != 1 || d.Servers[0].Address != "0.0.0.0:18000" {
		t.Errorf("dynamic: %+v", d)
	}
	if d.Node.GetId() != "eg-1" || d.Node.GetCluster() != "envoy-gateway-system/eg" || d.Node.GetLocality().GetZone() != "z" {
		t.Errorf("node: %v", d.Node)
	}
	cfg, err := b.Assemble(Resources{})
	must(t, err)
	if cfg.Admin != netip.MustParseAddrPort("127.0.0.1:0") || cfg.MaxConnections != 50000 {
		t.Errorf("admin %s, at most %d connections", cfg.Admin, cfg.MaxConnections)
	}
	var paths []string
	for _, n := range b.Notes() {
		paths = append(paths, n.Path)
	}
	want := []string{
		"stats_config", "layered_runtime.layers[0].static_layer",
		"overload_manager.resource_monitors[0].typed_config.max_active_downstream_connections",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestCertificateOfAControlPlaneIsReadFromFilesOfSecrets(t *testing.T) {
	c := newCertificates(t)
	b, err := gatewayBootstrap(t, c, gatewayNode)
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	handshake := func() error {
		client, err := net.Dial("tcp", listener.Addr().String())
		must(t, err)
		defer client.Close()
		server, err := listener.Accept()
		must(t, err)
		failed := make(chan error, 1)
		go func() {
			defer server.Close()
			failed <- tls.Server(server, &tls.Config{Certificates: []tls.Certificate{c.server}, ClientAuth: tls.RequireAnyClientCert}).Handshake()
		}()
		err = tls.Client(client, b.Dynamic.Servers[0].TLSConfig()).Handshake()
		client.Close()
		return errors.Join(err, <-failed)
	}
	must(t, handshake())
	// The files are read for each connection.
	c.trust(t, "other")
	if err := handshake(); err == nil || !strings.Contains(err.Error(), "match_typed_subject_alt_names") {
		t.Errorf("with another name: %v", err)
	}
	c.trust(t, "envoy-gateway")
	must(t, handshake())
	for file, text := range map[string]string{"xds-trusted-ca.json": "{}", "xds-certificate.json": "{"} {
		before, err := os.ReadFile(filepath.Join(c.dir, file))
		must(t, err)
		c.write(t, file, text)
		if _, err := gatewayBootstrap(t, c, gatewayNode); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s with %s: %v", file, text, err)
		}
		c.write(t, file, string(before))
	}
}

func TestNotesNameIgnoredFields(t *testing.T) {
	text, err := os.ReadFile("testdata/resources/envoy-gateway-1.9.1.Listener.json")
	must(t, err)
	all := map[string]json.RawMessage{}
	must(t, json.Unmarshal(text, &all))
	const name = "envoy-gateway-system/eg/http"
	const manager = "default_filter_chain.filters[0].typed_config."
	for _, tt := range []struct {
		envoyHeaders bool
		want         []string
	}{
		{false, []string{manager + "http2_protocol_options", manager + "access_log", manager + "use_remote_address", "access_log"}},
		{true, []string{manager + "http2_protocol_options", manager + "access_log", "access_log"}},
	} {
		b, err := ParseBootstrap("b.yaml", []byte(dynamicBase), EnvoyHeaders(tt.envoyHeaders))
		must(t, err)
		body := resource(t, Listeners, all[name])
		if _, err := b.CheckResource(Listeners, name, body); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, n := range b.NotesOn(Listeners, name, body) {
			if n.Resource != "listener "+name || n.Reason == "" {
				t.Errorf("note: %+v", n)
			}
			got[n.Path] = true
		}
		want := map[string]bool{}
		for _, path := range tt.want {
			want[path] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Envoy headers %t: notes (-want +got):\n%s", tt.envoyHeaders, diff)
		}
	}
	b := dynamicBootstrap(t)
	body := resource(t, Listeners, []byte(httpListener("shop", "127.0.0.1", rdsManager+", use_remote_address: false")))
	if notes := b.NotesOn(Listeners, "shop", body); len(notes) != 0 {
		t.Errorf("use_remote_address: false: got %+v, want no notes", notes)
	}
}

func TestListenerAtEveryAddressIsBound(t *testing.T) {
	for _, tt := range []struct {
		address, more    string
		bound, unlimited bool
	}{
		{"0.0.0.0", "", true, false},
		{"'::'", "", true, false},
		{"127.0.0.1", "", false, false},
		{"0.0.0.0", ", bypass_overload_manager: true", true, true},
	} {
		text := strings.TrimSuffix(httpListener("shop", tt.address, rdsManager), "}") + tt.more + "}"
		cfg, err := dynamicBootstrap(t).Assemble(Resources{Listeners: bodiesOf(t, Listeners, map[string]string{"shop": text})})
		must(t, err)
		if l := cfg.Listeners[0]; l.Bound != tt.bound || l.Unlimited != tt.unlimited {
			t.Errorf("%s%s: bound %t, unlimited %t", tt.address, tt.more, l.Bound, l.Unlimited)
		}
	}
}

func TestHealthCheckFilterComesBeforeAllRoutes(t *testing.T) {
	const filter = `{name: h, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.health_check.v3.HealthCheck, pass_through_mode: false, headers: [{name: ':path', string_match: {exact: /ready}}]}}`
	b := dynamicBootstrap(t)
	text := strings.Replace(httpListener("shop", "127.0.0.1", rdsManager), "http_filters: [", "http_filters: ["+filter+", ", 1)
	if !strings.Contains(text, filter) {
		t.Fatalf("no place for the filter: %s", text)
	}
	body := resource(t, Listeners, []byte(text))
	_, err := b.CheckResource(Listeners, "shop", body)
	must(t, err)
	cfg, err := b.Assemble(Resources{Listeners: map[string]*anypb.Any{"shop": body}})
	must(t, err)
	for path, want := range map[string]int{"/ready": 200, "/ready?a": 0, "/other": 0} {
		r := cfg.Listeners[0].Routes.Match(&matcher.Request{Authority: "any", Path: path, Method: "GET", Values: func(string) []string { return nil }})
		if got := statusOf(r); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
}

func statusOf(r *model.Route) int {
	if r == nil || r.Direct == nil {
		return 0
	}
	return r.Direct.Status
}
