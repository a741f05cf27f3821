// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// strictServer demands a certificate of an authority, and closes each connection behind its answer, so that each request has a handshake.
type strictServer struct {
	address netip.AddrPort

	mu sync.Mutex
	// Guarded by mu: the serial numbers that clients have shown, and what the server says of handshakes that fail.
	serials map[string]int
	errors  bytes.Buffer
}

// Write takes a line of the server's log.
func (s *strictServer) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errors.Write(line)
}

func (a *trust) strict(t *testing.T) *strictServer {
	t.Helper()
	chain, key := a.issue(t, webIdentity)
	own, err := tls.X509KeyPair([]byte(chain), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	s := &strictServer{serials: map[string]int{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = netip.MustParseAddrPort(l.Addr().String())
	server := &http.Server{
		ErrorLog:  log.New(s, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool(), NextProtos: []string{"http/1.1"}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			s.serials[r.TLS.PeerCertificates[0].SerialNumber.String()]++
			s.mu.Unlock()
			_, _ = io.WriteString(w, "strict")
		}),
	}
	server.SetKeepAlivesEnabled(false)
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.ServeTLS(l, "", "") }()
	return s
}

// has tells whether a client has shown the certificate.
func (s *strictServer) has(serial string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.serials[serial] > 0
}

func serialOf(t *testing.T, chain string) string {
	t.Helper()
	block, _ := pem.Decode([]byte(chain))
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c.SerialNumber.String()
}

// fileSocket is that of a server of the mesh, with a certificate and a key from files in a directory.
func (a *trust) fileSocket(dir string) map[string]any {
	file := func(name string) map[string]any { return fields{"filename": filepath.Join(dir, name)} }
	return fields{"name": "tls", "typed_config": fields{
		"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
		"common_tls_context": fields{
			"tls_certificates":   []any{fields{"certificate_chain": file("chain"), "private_key": file("key")}},
			"validation_context": fields{"trusted_ca": inline(a.pem)},
		},
	}}
}

// rotatedFiles puts pairs into directories of their own, and has a link lead to the last, as Kubernetes does.
type rotatedFiles struct {
	dir string
	n   int
}

func (f *rotatedFiles) put(t *testing.T, chain, key string) {
	t.Helper()
	f.n++
	one, link := filepath.Join(f.dir, strconv.Itoa(f.n)), filepath.Join(f.dir, "data")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(one, 0o755))
	for name, text := range map[string]string{"chain": chain, "key": key} {
		must(os.WriteFile(filepath.Join(one, name+".new"), []byte(text), 0o644))
		must(os.Rename(filepath.Join(one, name+".new"), filepath.Join(one, name)))
	}
	must(os.Symlink(one, link+".new"))
	must(os.Rename(link+".new", link))
}

// Certificates may change hundreds of times while connections are made: each connection has a certificate with its own key, none waits for another, no
// request fails, and the last one is in force at the end.
func TestCertificatesChangeWhileConnectionsAreMade(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy reads such files where a watched_directory is named")
	rotations := 300
	if testing.Short() {
		rotations = 50
	}
	for _, from := range []string{"server of secrets", "files"} {
		t.Run(from, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, service := harness.SameHost(t), harness.Service()
				a, v := newMesh(t)
				server, files := a.strict(t), &rotatedFiles{dir: t.TempDir()}
				put := func(chain, key string) { v.put(t, certificateSecret(chain, key)) }
				config := mesh(v, service, meshCluster(webIdentity, server.address))
				if from == "files" {
					put = func(chain, key string) { files.put(t, chain, key) }
					config = harness.OneCluster(service, server.address)
					config.Clusters[0].Fields = fields{"transport_socket": a.fileSocket(filepath.Join(files.dir, "data"))}
				}
				put(a.issue(t, callerIdentity))
				b := harness.Start(t, mode, config, place)
				load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 8})
				var last string
				for range rotations {
					chain, key := a.issue(t, callerIdentity)
					put(chain, key)
					last = serialOf(t, chain)
					awaitRequests(t, load, 4)
				}
				harness.Eventually(t, patience, "the last certificate is in force", func() bool { return server.has(last) })
				var final programs.LoadReport
				load.Finish(t, &final)
				requireClean(t, final)
				server.mu.Lock()
				defer server.mu.Unlock()
				if server.errors.Len() > 0 {
					t.Errorf("the server says: %.1000s", server.errors.String())
				}
				t.Logf("%d requests, %d of %d certificates; memory %d MiB", final.Total, len(server.serials), rotations+1, b.OwnMemory(t)>>20)
			})
		})
	}
}
