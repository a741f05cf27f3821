// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

// A connection for which one name was asked serves no request for which another would be.
func TestConnectionsToOneAddressDifferByTheNameThatIsAskedFor(t *testing.T) {
	address := netip.MustParseAddrPort("127.0.0.1:443")
	to := func(tls model.UpstreamTLS, hostname, host string) place {
		d := destination{address: address, target: &Target{TLS: &tls, Hostname: hostname, Host: host}}
		return d.place()
	}
	for _, tt := range []struct {
		name string
		tls  model.UpstreamTLS
		same bool
	}{
		{"a name of the cluster", model.UpstreamTLS{Key: "k", SNI: "a"}, true},
		{"that of the request", model.UpstreamTLS{Key: "k", AutoSNI: true}, false},
		{"that of the certificate is the request's", model.UpstreamTLS{Key: "k", SNI: "a", HostSAN: true}, false},
		{"that of the endpoint", model.UpstreamTLS{Key: "k", AutoHostSNI: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := to(tt.tls, "one", "one.example") == to(tt.tls, "two", "two.example"); got != tt.same {
				t.Errorf("one connection for both: %t, want %t", got, tt.same)
			}
		})
	}
	if to(model.UpstreamTLS{Key: "k"}, "", "") == (&destination{address: address}).place() {
		t.Error("a connection in plain text would serve a request that is to be secured")
	}
}

// A server that knows XLB by its certificate is not told of others by whoever asks XLB.
func TestClientsDoNotSayWhatCertificatesTheyHad(t *testing.T) {
	const said = "X-Forwarded-Client-Cert: By=forged\r\n"
	for _, tt := range []struct {
		name     string
		endpoint Picked
		passes   bool
	}{
		{"over TLS", securedPick{tls: &model.UpstreamTLS{}}, false},
		{"in plain text", securedPick{}, true},
		{"to an endpoint that is never secured", &fakePick{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := exchange{endpoint: tt.endpoint, head: head{method: "GET", path: "/", authority: "a", length: -1, fields: []field{
				{[]byte("X-Forwarded-Client-Cert"), []byte("By=forged")}, {[]byte("X-Other"), []byte("stays")},
			}}}
			sent := string(x.appendRequestHead(nil))
			if strings.Contains(sent, said) != tt.passes || !strings.Contains(sent, "X-Other: stays\r\n") {
				t.Errorf("sent %q", sent)
			}
		})
	}
}

type securedPick struct{ tls *model.UpstreamTLS }

func (p securedPick) Address() netip.AddrPort                { return netip.AddrPort{} }
func (p securedPick) Done(Outcome)                           {}
func (p securedPick) Security() (*model.UpstreamTLS, string) { return p.tls, "" }

// securing has the front's endpoints be secured so, in name only.
func securing(tls *model.UpstreamTLS, secured *atomic.Int32) frontOption {
	return func(c *Config, _ *model.Route) {
		c.Balancer = securedBalancer{c.Balancer, tls}
		c.Secure = func(_ context.Context, conn net.Conn, _ Target) (net.Conn, error) {
			secured.Add(1)
			return conn, nil
		}
	}
}

type securedBalancer struct {
	Balancer
	tls *model.UpstreamTLS
}

func (b securedBalancer) Pick(cluster string, criteria model.Metadata, hash uint64, skip func(netip.AddrPort) bool) (Picked, bool) {
	p, ok := b.Balancer.Pick(cluster, criteria, hash, skip)
	return namedPick{p, b.tls}, ok
}

type namedPick struct {
	Picked
	tls *model.UpstreamTLS
}

func (p namedPick) Security() (*model.UpstreamTLS, string) { return p.tls, "" }

func TestRequestWithoutAHostComesToNoEndpointWhoseCertificateIsToBeForIt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tls    model.UpstreamTLS
		head   string
		status string
	}{
		{"no host, to be validated", model.UpstreamTLS{Key: "k", HostSAN: true}, "GET / HTTP/1.0\r\n\r\n", "503"},
		{"a host, to be validated", model.UpstreamTLS{Key: "k", HostSAN: true}, "GET / HTTP/1.0\r\nHost: a\r\n\r\n", "200"},
		{"no host, not to be validated", model.UpstreamTLS{Key: "k"}, "GET / HTTP/1.0\r\n\r\n", "200"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var secured atomic.Int32
			f := newFront(t, list(httpEndpoint(t, func(http.ResponseWriter, *http.Request) {})), securing(&tt.tls, &secured))
			got := f.exchange(tt.head)
			if !strings.HasPrefix(got, "HTTP/1.0 "+tt.status) || (secured.Load() > 0) != (tt.status == "200") {
				t.Errorf("%d connections secured, got %q", secured.Load(), got)
			}
		})
	}
}
