// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/xlb-project/xlb/test/certtest"
)

// greeter says with whom it speaks, by the name of a cluster.
type greeter struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

func (greeter) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	headers, _ := metadata.FromIncomingContext(stream.Context())
	name := strings.Join(append(headers.Get(":authority"), headers.Get("token")...), " ")
	for _, m := range []*discoveryv3.DiscoveryResponse{
		{TypeUrl: Clusters.TypeURL(), VersionInfo: "1", Nonce: "1", Resources: bodies(static(name, 1))}, {TypeUrl: Listeners.TypeURL(), VersionInfo: "1", Nonce: "1"},
	} {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

// certificate is one for a name, signed by itself.
func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	template := certtest.Authority()
	template.Subject, template.DNSNames = pkix.Name{CommonName: name}, []string{name}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	own := certtest.Sign(t, template, nil)
	return own.TLS(), own.Pool()
}

// Both sides show a certificate; the authority need not be the certificate's name.
func TestTLS(t *testing.T) {
	server, serverPool := certificate(t, "envoy-gateway")
	client, clientPool := certificate(t, "client")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clientPool,
	})))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, greeter{})
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })

	good := &tls.Config{RootCAs: serverPool, ServerName: "envoy-gateway", Certificates: []tls.Certificate{client}}
	for _, c := range []struct {
		name string
		Server
		want, fault string
	}{
		{"authority", Server{TLS: good, Authority: "xds_cluster", Metadata: map[string]string{"token": "secret"}}, "clusters xds_cluster secret=1", ""},
		{"no authority", Server{TLS: good}, "clusters " + l.Addr().String() + "=1", ""},
		{"another name", Server{TLS: &tls.Config{RootCAs: serverPool, ServerName: "other", Certificates: good.Certificates}}, "", "not other"},
		{"no certificate", Server{TLS: &tls.Config{RootCAs: serverPool, ServerName: "envoy-gateway"}}, "", ""},
		{"plain text", Server{}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.Address = l.Addr().String()
			var o *observed
			log := &lines{}
			o = observe(t, Config{Servers: []Server{c.Server}, Logger: log.logger()})
			if c.want != "" {
				o.await(c.want)
				return
			}
			o.awaitStatus("failure", func(s Status) bool { return s.StreamFailures > 1 })
			if !strings.Contains(log.String(), c.fault) {
				t.Errorf("log %s, want %q", log.String(), c.fault)
			}
		})
	}
}

// A server may listen on a path.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xds.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, greeter{})
	o := observe(t, Config{Servers: []Server{{Address: "unix:" + path, Authority: "x"}}})
	o.await("clusters x=1")
}

// The modes of files hold for the daemon, also as root, and the error says what helps.
func TestUnixSocketOfAnotherUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xds.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		// The thread ends with the goroutine, which does not unlock it: no other is without the capability.
		runtime.LockOSThread()
		err := withoutOverride()
		if err == nil {
			_, err = dialTCP(t.Context(), "unix:"+path)
		}
		result <- err
	}()
	err = <-result
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "make the socket root's, or writable for all") {
		t.Errorf("got %v, want that the socket is another's, and what helps", err)
	}
}

// withoutOverride takes CAP_DAC_OVERRIDE from the effective capabilities of this thread.
func withoutOverride() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective &^= 1 << unix.CAP_DAC_OVERRIDE
	return unix.Capset(&header, &data[0])
}
