// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/certtest"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// named issues a certificate for names and addresses.
func (a *trust) named(t *testing.T, names []string, addresses ...net.IP) tls.Certificate {
	t.Helper()
	return certtest.Sign(t, &x509.Certificate{
		DNSNames: names, IPAddresses: addresses, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.Certificate).TLS()
}

// serveNamed answers requests over TLS, and tells what name was asked for.
func serveNamed(t *testing.T, certificate tls.Certificate) (netip.AddrPort, <-chan string) {
	t.Helper()
	names := make(chan string, 100)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		names <- hello.ServerName
		return &certificate, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return netip.MustParseAddrPort(l.Addr().String()), names
}

// The name that is sent to an endpoint, and the certificates that are accepted of it, are Envoy's.
func TestNamesOfSecuredEndpointsAreEnvoys(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	harness.OnlyXLB(t, "compares both itself")
	place, a := harness.SameHost(t), newTrust(t)
	const own, other = "own.test", "other.test"
	certificate := a.named(t, []string{own, "*.wild.test"}, net.IPv4(127, 0, 0, 9))
	hosts := []string{own, "OWN.Test", own + ":8080", other, "x.wild.test", "x.y.wild.test", "127.0.0.9", "127.0.0.9:80", "127.0.0.8", "[::1]:80", noHost}
	exact := func(name string) map[string]any {
		return map[string]any{"match_typed_subject_alt_names": []any{map[string]any{"san_type": "DNS", "matcher": map[string]any{"exact": name}}}}
	}
	for _, c := range []struct {
		name                     string
		socket, http, validation map[string]any
		rewrite                  string
	}{
		{name: "auto_sni", http: map[string]any{"auto_sni": true}},
		{name: "auto_sni beside sni", socket: map[string]any{"sni": other}, http: map[string]any{"auto_sni": true}},
		{name: "auto_san_validation", http: map[string]any{"auto_sni": true, "auto_san_validation": true}},
		{name: "auto_san_validation without auto_sni", socket: map[string]any{"sni": own}, http: map[string]any{"auto_san_validation": true}},
		{name: "auto_san_validation beside names", http: map[string]any{"auto_sni": true, "auto_san_validation": true}, validation: exact(other)},
		{name: "auto_sni_san_validation", socket: map[string]any{"auto_sni_san_validation": true}, http: map[string]any{"auto_sni": true}},
		{name: "auto_sni_san_validation beside names", socket: map[string]any{"sni": own, "auto_sni_san_validation": true}, validation: exact(other)},
		{name: "auto_host_sni", socket: map[string]any{"auto_host_sni": true, "sni": other}},
		{name: "auto_host_sni validated", socket: map[string]any{"auto_host_sni": true, "auto_sni_san_validation": true}},
		{name: "rewritten", http: map[string]any{"auto_sni": true, "auto_san_validation": true}, rewrite: own},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, names := serveNamed(t, certificate)
			validation := map[string]any{"trusted_ca": inline(a.pem)}
			maps.Copy(validation, c.validation)
			socket := map[string]any{
				"@type":              "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
				"common_tls_context": map[string]any{"validation_context": validation},
			}
			maps.Copy(socket, c.socket)
			assignment := assignmentOf("origins", address)
			endpoint := assignment["endpoints"].([]any)[0].(map[string]any)["lb_endpoints"].([]any)[0].(map[string]any)["endpoint"].(map[string]any)
			endpoint["hostname"] = own
			fields := map[string]any{"transport_socket": map[string]any{"name": "tls", "typed_config": socket}, "load_assignment": assignment}
			if c.http != nil {
				fields["typed_extension_protocol_options"] = map[string]any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": map[string]any{
					"@type":                          "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
					"upstream_http_protocol_options": c.http, "explicit_http_config": map[string]any{"http_protocol_options": map[string]any{}},
				}}
			}
			config := func(service netip.AddrPort) harness.Config {
				out := harness.OneCluster(service)
				out.Clusters = []harness.Cluster{{Name: "origins", Fields: fields}}
				out.Listeners[0].Manager = map[string]any{"http_protocol_options": map[string]any{"accept_http_10": true, "default_host_for_http_10": own}}
				if c.rewrite != "" {
					chain := rdsListener(&asFiles{}, "named", service, "")["filter_chains"].([]any)
					manager := chain[0].(map[string]any)["filters"].([]any)[0].(map[string]any)["typed_config"].(map[string]any)
					delete(manager, "rds")
					manager["route_config"] = tableOf("named", routeTo("/", "origins", map[string]any{"host_rewrite_literal": c.rewrite}))
					out.Listeners = []harness.Listener{{Address: service, Fields: map[string]any{"filter_chains": chain}}}
				}
				return out
			}
			service, beside := harness.Service(), harness.Service()
			harness.Start(t, harness.Modes(t)[0], config(service), place)
			harness.StartEnvoy(t, config(beside), place)
			answers := map[netip.AddrPort][]string{}
			for _, host := range hosts {
				for _, at := range []netip.AddrPort{service, beside} {
					answers[at] = append(answers[at], host+": "+askNamed(t, place, at, host, names))
				}
			}
			if diff := cmp.Diff(answers[beside], answers[service]); diff != "" {
				t.Errorf("-Envoy +XLB:\n%s", diff)
			}
		})
	}
}

// noHost stands for a request of HTTP/1.0 without a Host: default_host_for_http_10 is then what is sent and validated.
const noHost = ""

// askNamed is the status of an answer, and the names that connections for it asked for.
func askNamed(t *testing.T, place *harness.Place, service netip.AddrPort, host string, names <-chan string) string {
	t.Helper()
	head := fmt.Sprintf("GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	if host == noHost {
		head = "GET / HTTP/1.0\r\n\r\n"
	}
	report := runExchange(t, place, service, await.Patience, programs.Step{Send: head}, programs.Step{Receive: true})
	out := report.Error
	for _, r := range report.Replies {
		out += fmt.Sprint(r.Status)
	}
	for {
		select {
		case name := <-names:
			out += fmt.Sprintf(", SNI %q", name)
		default:
			return out
		}
	}
}
