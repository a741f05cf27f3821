// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/head"
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
			x := exchange{endpoint: tt.endpoint, head: head.Head{Method: "GET", Path: "/", Authority: "a", Length: -1, Fields: []field{
				{Name: []byte("X-Forwarded-Client-Cert"), Value: []byte("By=forged")}, {Name: []byte("X-Other"), Value: []byte("stays")},
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
