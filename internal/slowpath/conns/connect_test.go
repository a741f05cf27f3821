// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

// A connection for which one name was asked serves no request for which another would be.
func TestConnectionsToOneAddressDifferByTheNameThatIsAskedFor(t *testing.T) {
	address := netip.MustParseAddrPort("127.0.0.1:443")
	to := func(tls model.UpstreamTLS, hostname, host string) peer {
		d := Destination{Address: address, Target: &Target{TLS: &tls, Hostname: hostname, Host: host}}
		return d.peer()
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
	if to(model.UpstreamTLS{Key: "k"}, "", "") == (&Destination{Address: address}).peer() {
		t.Error("a connection in plain text would serve a request that is to be secured")
	}
}
