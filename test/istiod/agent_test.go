// SPDX-License-Identifier: Apache-2.0

package istiod

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	controlplane "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xlb-project/xlb/test/certtest"
	"github.com/xlb-project/xlb/test/e2e/harness"
)

// newAuthority writes what istiod signs with where it looks for it, and returns what has to be set for that.
func newAuthority(t *testing.T) (environment []string) {
	t.Helper()
	template := certtest.Authority()
	template.Subject, template.NotAfter = pkix.Name{Organization: []string{"cluster.local"}}, time.Now().Add(24*time.Hour)
	own, dir := certtest.Sign(t, template, nil), t.TempDir()
	for name, text := range map[string]string{
		"ca-key.pem": own.KeyPEM(t), "ca-cert.pem": own.PEM(), "root-cert.pem": own.PEM(), "cert-chain.pem": own.PEM(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return append([]string{"ROOT_CA_DIR=" + dir}, signing...)
}

// signing has istiod sign certificates.
var signing = []string{"ENABLE_CA_SERVER=true", "PILOT_CERT_PROVIDER=istiod"}

// agent is to sidecars what Istio's is: it has istiod sign a certificate for a service account, and serves it over a Unix socket.
type agent struct {
	path    string
	secrets *cache.LinearCache
}

// newAgent shows istiod the token of a service account.
func newAgent(t *testing.T, c *control, token string) *agent {
	t.Helper()
	// The path of a socket has to be short.
	dir, err := os.MkdirTemp("", "sds")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	a := &agent{path: filepath.Join(dir, "s"), secrets: cache.NewLinearCache(resource.SecretType)}
	a.renew(t, c, token)
	l, err := net.Listen("unix", a.path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := grpc.NewServer()
	secretv3.RegisterSecretDiscoveryServiceServer(server, controlplane.NewServer(ctx, a.secrets, nil))
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { cancel(); server.Stop() })
	return a
}

// renew serves a new certificate.
func (a *agent) renew(t *testing.T, c *control, token string) {
	t.Helper()
	chain, key, root := c.certify(t, token)
	for _, s := range []*tlsv3.Secret{
		{Name: "default", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: source(chain), PrivateKey: source(key)}}},
		{Name: "ROOTCA", Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: source(root)}}},
	} {
		if err := a.secrets.UpdateResource(s.GetName(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// certify has istiod sign a certificate for who has the token.
func (c *control) certify(t *testing.T, token string) (chain, key, root string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		t.Fatal(err)
	}
	signed := c.sign(t, token, certtest.Encode("CERTIFICATE REQUEST", request))
	last := len(signed) - 1
	return strings.Join(signed[:last], ""), certtest.EncodeKey(t, private), signed[last]
}

func source(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}

// sign has istiod sign, and returns the chain with the root last. The messages are those of istio.v1.auth.IstioCertificateService as the wire has them: a text
// in field 1 (csr), and texts in field 1 (cert_chain).
func (c *control) sign(t *testing.T, token, request string) (chain []string) {
	t.Helper()
	// Whom it trusts a client of istiod learns from Kubernetes, which is not here.
	security := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
	conn, err := grpc.NewClient("passthrough:///"+c.secure.String(), grpc.WithTransportCredentials(security), grpc.WithContextDialer(c.dial))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	var reply fieldmaskpb.FieldMask
	err = conn.Invoke(ctx, "/istio.v1.auth.IstioCertificateService/CreateCertificate", wrapperspb.String(request), &reply)
	if err != nil || len(reply.Paths) < 2 {
		t.Fatalf("istiod signs no certificate: %v, %d in the chain\n%s", err, len(reply.Paths), c.Stderr())
	}
	return reply.Paths
}

// cluster is that of the secrets, by the name that istiod gives it.
func (a *agent) cluster() object {
	return object{
		"name": "sds-grpc", "type": "STATIC", "connect_timeout": "1s",
		"typed_extension_protocol_options": object{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
			"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": object{"http2_protocol_options": object{}},
		}},
		"load_assignment": object{"cluster_name": "sds-grpc", "endpoints": []any{object{"lb_endpoints": []any{
			object{"endpoint": object{"address": object{"pipe": object{"path": a.path}}}},
		}}}},
	}
}

// bootstrapWith is for a sidecar that has its secrets from an agent.
func (c *control) bootstrapWith(app string, a *agent) harness.Config {
	config := c.bootstrap(app)
	static := config.Fields["static_resources"].(object)
	static["clusters"] = append(static["clusters"].([]any), a.cluster())
	return config
}
