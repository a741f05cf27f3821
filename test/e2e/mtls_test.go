// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	controlplane "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"

	"github.com/xlb-project/xlb/test/certtest"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

const (
	webIdentity    = "spiffe://cluster.local/ns/default/sa/web"
	callerIdentity = "spiffe://cluster.local/ns/default/sa/caller"
)

// trust is an authority of a mesh.
type trust struct {
	*certtest.Certificate
	pem string
}

func newTrust(t *testing.T) *trust {
	t.Helper()
	own := certtest.Authority()
	own.Subject = pkix.Name{CommonName: "mesh"}
	a := certtest.Sign(t, own, nil)
	return &trust{a, a.PEM()}
}

// issue makes a certificate for an identity, valid for both ends, and its key.
func (a *trust) issue(t *testing.T, identity string) (chain, key string) {
	t.Helper()
	uri, err := url.Parse(identity)
	if err != nil {
		t.Fatal(err)
	}
	c := certtest.Sign(t, &x509.Certificate{
		URIs: []*url.URL{uri}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.Certificate)
	return c.PEM(), c.KeyPEM(t)
}

func inline(text string) map[string]any { return map[string]any{"inline_string": text} }

// sidecar runs an Envoy in front of a server, which has to show no less than the caller's certificate to it.
func (a *trust) sidecar(t *testing.T, place *harness.Place, server netip.AddrPort) (netip.AddrPort, *harness.Balancer) {
	t.Helper()
	address := harness.Service()
	return address, a.sidecarAt(t, place, address, server)
}

// sidecarAt is sidecar at an address.
func (a *trust) sidecarAt(t *testing.T, place *harness.Place, address, server netip.AddrPort) *harness.Balancer {
	t.Helper()
	chain, key := a.issue(t, webIdentity)
	filters := toRoutes("server", nil).(map[string]any)
	filters["transport_socket"] = map[string]any{"name": "tls", "typed_config": map[string]any{
		"@type":                      "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
		"require_client_certificate": true,
		"common_tls_context": map[string]any{
			"alpn_protocols":   []any{"http/1.1"},
			"tls_certificates": []any{map[string]any{"certificate_chain": inline(chain), "private_key": inline(key)}},
			"validation_context": map[string]any{
				"trusted_ca":                    inline(a.pem),
				"match_typed_subject_alt_names": []any{map[string]any{"san_type": "URI", "matcher": map[string]any{"exact": callerIdentity}}},
			},
		},
	}}
	return harness.StartEnvoy(t, harness.Config{
		Listeners: []harness.Listener{{Address: address, Fields: map[string]any{"filter_chains": []any{filters}}}},
		Clusters:  []harness.Cluster{{Name: "server", Endpoints: []netip.AddrPort{server}}},
	}, place)
}

// vault is a server of secrets over a Unix socket.
type vault struct {
	path  string
	cache *cache.LinearCache
	stop  func()
}

func newVault(t *testing.T) *vault {
	t.Helper()
	// The path of a socket has to be short.
	dir, err := os.MkdirTemp("", "v")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	v := &vault{path: filepath.Join(dir, "s"), cache: cache.NewLinearCache(resource.SecretType)}
	l, err := net.Listen("unix", v.path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := grpc.NewServer()
	secretv3.RegisterSecretDiscoveryServiceServer(server, controlplane.NewServer(ctx, v.cache, nil))
	go func() { _ = server.Serve(l) }()
	v.stop = func() { cancel(); server.Stop() }
	t.Cleanup(v.stop)
	return v
}

func (v *vault) put(t *testing.T, secret *tlsv3.Secret) {
	t.Helper()
	if err := v.cache.UpdateResource(secret.GetName(), types.Resource(secret)); err != nil {
		t.Fatal(err)
	}
}

// hold gives it the caller's secrets of an authority.
func (v *vault) hold(t *testing.T, a *trust) (chain, key string) {
	t.Helper()
	chain, key = a.issue(t, callerIdentity)
	v.put(t, certificateSecret(chain, key))
	v.put(t, rootSecret(a.pem))
	return chain, key
}

// newMesh is an authority, and a server that holds the caller's secrets.
func newMesh(t *testing.T) (*trust, *vault) {
	t.Helper()
	a, v := newTrust(t), newVault(t)
	v.hold(t, a)
	return a, v
}

func source(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}

func certificateSecret(chain, key string) *tlsv3.Secret {
	return &tlsv3.Secret{Name: "default", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: source(chain), PrivateKey: source(key)}}}
}

func rootSecret(text string) *tlsv3.Secret {
	return &tlsv3.Secret{Name: "ROOTCA", Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: source(text)}}}
}

// cluster is that of the secrets.
func (v *vault) cluster() harness.Cluster {
	return harness.Cluster{Name: "sds-grpc", Fields: map[string]any{
		"typed_extension_protocol_options": map[string]any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": map[string]any{
			"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions", "explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}},
		}},
		"load_assignment": map[string]any{"cluster_name": "sds-grpc", "endpoints": []any{map[string]any{"lb_endpoints": []any{
			map[string]any{"endpoint": map[string]any{"address": map[string]any{"pipe": map[string]any{"path": v.path}}}},
		}}}},
	}}
}

func secretOf(name string) map[string]any {
	return map[string]any{"name": name, "sds_config": map[string]any{"resource_api_version": "V3", "initial_fetch_timeout": "1s", "api_config_source": map[string]any{
		"api_type": "GRPC", "transport_api_version": "V3", "set_node_on_first_message_only": true,
		"grpc_services": []any{map[string]any{"envoy_grpc": map[string]any{"cluster_name": "sds-grpc"}}},
	}}}
}

// meshSockets are what Istio writes for a cluster of endpoints with and without sidecars.
func meshSockets(server string) []any {
	return []any{
		map[string]any{"name": "tlsMode-istio", "match": map[string]any{"tlsMode": "istio"}, "transport_socket": meshSocketWith(server, secretOf)},
		map[string]any{"name": "tlsMode-disabled", "match": map[string]any{}, "transport_socket": map[string]any{"name": "raw", "typed_config": map[string]any{
			"@type": "type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer",
		}}},
	}
}

// meshSocketWith is that of a server with that name, with secrets from there.
func meshSocketWith(server string, secret func(name string) map[string]any) map[string]any {
	return map[string]any{"name": "tls", "typed_config": map[string]any{
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
		"sni":   "outbound_.80_._.web.default.svc.cluster.local",
		"common_tls_context": map[string]any{
			"tls_params":                         map[string]any{"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"},
			"alpn_protocols":                     []any{"istio-peer-exchange", "istio"},
			"tls_certificate_sds_secret_configs": []any{secret("default")},
			"combined_validation_context": map[string]any{
				"default_validation_context":           map[string]any{"match_typed_subject_alt_names": []any{map[string]any{"san_type": "URI", "matcher": map[string]any{"exact": server}}}},
				"validation_context_sds_secret_config": secret("ROOTCA"),
			},
		},
	}}
}

// meshCluster has an endpoint behind a sidecar, and perhaps one without.
func meshCluster(server string, secured netip.AddrPort, plain ...netip.AddrPort) harness.Cluster {
	endpoints := []any{map[string]any{
		"endpoint": map[string]any{"address": socketOf(secured)},
		"metadata": map[string]any{"filter_metadata": map[string]any{"envoy.transport_socket_match": map[string]any{"tlsMode": "istio"}}},
	}}
	for _, p := range plain {
		endpoints = append(endpoints, map[string]any{"endpoint": map[string]any{"address": socketOf(p)}, "load_balancing_weight": 3})
	}
	return harness.Cluster{Name: "origins", Fields: map[string]any{
		"transport_socket_matches": meshSockets(server),
		"load_assignment":          map[string]any{"cluster_name": "origins", "endpoints": []any{map[string]any{"lb_endpoints": endpoints}}},
	}}
}

// mesh is a configuration with that cluster; for Envoy the server of secrets has to be in its bootstrap.
func mesh(v *vault, service netip.AddrPort, cluster harness.Cluster) harness.Config {
	config := harness.OneCluster(service)
	config.Clusters = []harness.Cluster{cluster, v.cluster()}
	config.Fields = map[string]any{"node": map[string]any{"id": "e2e", "cluster": "e2e"}}
	return config
}

func meshForEnvoy(v *vault, service netip.AddrPort, cluster harness.Cluster) harness.Config {
	config := mesh(v, service, cluster)
	config.Clusters = config.Clusters[:1]
	own := v.cluster()
	static := map[string]any{"name": own.Name, "type": "STATIC", "connect_timeout": "1s"}
	for k, f := range own.Fields {
		static[k] = f
	}
	config.Fields["static_resources"] = map[string]any{"clusters": []any{static}}
	return config
}

// Endpoints with a sidecar get TLS from user space, the others plain text from the kernel, each as often as its weight says. Certificates change under load,
// and no request is lost.
func TestEndpointsOfAMeshAreSpokenToByTLS(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "compares both itself")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := origins(t, place, "meshed", "plain")
		a, v := newMesh(t)
		secured, sidecar := a.sidecar(t, place, addresses[0])
		x := harness.Start(t, mode, mesh(v, service, meshCluster(webIdentity, secured, addresses[1])), place)
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 4})
		for range 5 {
			time.Sleep(200 * time.Millisecond)
			chain, key := a.issue(t, callerIdentity)
			v.put(t, certificateSecret(chain, key))
		}
		var report programs.LoadReport
		load.Finish(t, &report)
		requireClean(t, report)
		served := x.EndpointRequests(t)
		total := served[secured.String()] + served[addresses[1].String()]
		if share := float64(served[secured.String()]) / float64(total); share < 0.22 || share > 0.28 || total < 100 {
			t.Errorf("of %d requests %.3f go to the endpoint of weight 1 of 4: %v", total, share, served)
		}
		if mode.Fast {
			handed := x.Metric(t, "xlb_handovers_total", `reason="endpoint_tls"`)
			t.Logf("%d requests, %v handed over for TLS", total, handed)
			if handed == 0 {
				t.Error("no request was handed over for TLS")
			}
			fast, slow := x.Served(t)
			if fast < 2*slow {
				t.Errorf("%v requests by the kernel, %v by the daemon", fast, slow)
			}
		}
		if n := sidecar.Metric(t, "envoy_listener_ssl_connection_error"); n != 0 {
			t.Errorf("the sidecar has seen %v connections that were not as they should be", n)
		}
		dump := x.Get(t, "/config_dump")
		if strings.Contains(dump, "PRIVATE KEY") {
			t.Error("/config_dump has a private key")
		}
	})
}

// What is answered when a connection cannot be secured is what Envoy answers with the same configuration.
func TestFailuresToSecureAConnectionAreEnvoys(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	harness.OnlyXLB(t, "compares both itself")
	place := harness.SameHost(t)
	_, addresses := origins(t, place, "meshed")
	a, other, v := newTrust(t), newTrust(t), newVault(t)
	secured, _ := a.sidecar(t, place, addresses[0])
	chain, key := a.issue(t, callerIdentity)
	strangeChain, strangeKey := a.issue(t, "spiffe://cluster.local/ns/default/sa/stranger")
	for _, c := range []struct {
		name    string
		cluster harness.Cluster
		secrets []*tlsv3.Secret
	}{
		{"as it should be", meshCluster(webIdentity, secured), []*tlsv3.Secret{certificateSecret(chain, key), rootSecret(a.pem)}},
		{"another name", meshCluster("spiffe://cluster.local/ns/default/sa/other", secured), []*tlsv3.Secret{certificateSecret(chain, key), rootSecret(a.pem)}},
		{"another authority", meshCluster(webIdentity, secured), []*tlsv3.Secret{certificateSecret(chain, key), rootSecret(other.pem)}},
		{"a stranger", meshCluster(webIdentity, secured), []*tlsv3.Secret{certificateSecret(strangeChain, strangeKey), rootSecret(a.pem)}},
		{"an endpoint in plain text", meshCluster(webIdentity, addresses[0]), []*tlsv3.Secret{certificateSecret(chain, key), rootSecret(a.pem)}},
		{"no secrets", meshCluster(webIdentity, secured), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			v = newVault(t)
			for _, s := range c.secrets {
				v.put(t, s)
			}
			service, beside := harness.Service(), harness.Service()
			harness.StartEnvoy(t, meshForEnvoy(v, beside, c.cluster), place)
			harness.Start(t, harness.Modes(t)[0], mesh(v, service, c.cluster), place)
			answers := map[netip.AddrPort]string{}
			for _, address := range []netip.AddrPort{service, beside} {
				report := runExchange(t, place, address, 10*time.Second, getAndReceive("/")...)
				for _, r := range report.Replies {
					answers[address] += fmt.Sprintf("%d %s", r.Status, r.Body)
				}
			}
			t.Logf("%s", answers[service])
			if answers[service] != answers[beside] {
				t.Errorf("Envoy answers %s", answers[beside])
			}
		})
	}
}
