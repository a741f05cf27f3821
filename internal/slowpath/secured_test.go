// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
)

// A server that knows XLB by its certificate is not told of others by whoever asks XLB.
func TestClientsDoNotSayWhatCertificatesTheyHad(t *testing.T) {
	const said = "X-Forwarded-Client-Cert: By=forged\r\n"
	for _, tt := range []struct {
		name     string
		endpoint ChosenEndpoint
		passes   bool
	}{
		{"over TLS", securedPick{tls: &model.UpstreamTLS{}}, false},
		{"in plain text", securedPick{}, true},
		{"to an endpoint that is never secured", &fakePick{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := exchange{endpoint: tt.endpoint, Request: headers.Request{Head: head.Head{Method: "GET", Path: "/", Authority: "a", Length: -1, Fields: []field{
				{Name: []byte("X-Forwarded-Client-Cert"), Value: []byte("By=forged")}, {Name: []byte("X-Other"), Value: []byte("stays")},
			}}}}
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
