// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// The operators whose values two proxies do not share; test/routes compares the others with Envoy.
func TestFormatOfTimeAndAddress(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 6_007_000, time.FixedZone("east", 3600))
	client, other := net.Pipe()
	t.Cleanup(func() { _ = client.Close(); _ = other.Close() })
	for _, tt := range []struct {
		name      string
		forwarded string
		parts     []rewrite.FormatPart
		want      string
	}{
		{"date in UTC", "", []rewrite.FormatPart{{Kind: rewrite.FormatTime, Text: "2006-01-02 15:04:05"}}, "2026-01-02 02:04:05"},
		{"seconds", "", []rewrite.FormatPart{{Kind: rewrite.FormatSeconds}}, "1767319445"},
		{"milliseconds", "", []rewrite.FormatPart{{Kind: rewrite.FormatFraction, Max: 3}}, "006"},
		{"nanoseconds", "", []rewrite.FormatPart{{Kind: rewrite.FormatFraction, Max: 9}}, "006007000"},
		{"remote port", "", []rewrite.FormatPart{{Kind: rewrite.FormatRemotePort}}, "4711"},
		{"remote address", "", []rewrite.FormatPart{{Kind: rewrite.FormatRemoteAddress}}, "127.0.0.9:4711"},
		{"forwarded address", "10.0.0.1, fd00::1", []rewrite.FormatPart{{Kind: rewrite.FormatRemoteAddress}}, "[fd00::1]:0"},
		{"forwarded port", "10.0.0.1", []rewrite.FormatPart{{Kind: rewrite.FormatRemotePort}}, "0"},
		{"direct address of what was forwarded", "10.0.0.1", []rewrite.FormatPart{{Kind: rewrite.FormatDirectAddress}}, "127.0.0.9:4711"},
		{"direct port", "10.0.0.1", []rewrite.FormatPart{{Kind: rewrite.FormatDirectPort}}, "4711"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &Request{Began: began, Conn: addressed{client, netip.MustParseAddrPort("127.0.0.9:4711")}}
			if tt.forwarded != "" {
				r.Head.Fields = []head.Field{{Name: []byte("X-Forwarded-For"), Value: []byte(tt.forwarded)}}
			}
			if diff := cmp.Diff(tt.want, r.format(rewrite.Format{Parts: tt.parts}, nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// addressed is a connection from elsewhere.
type addressed struct {
	net.Conn
	remote netip.AddrPort
}

func (a addressed) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(a.remote) }
