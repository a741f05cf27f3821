// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

// The parser reads the values of these fields in its own ways; routes may ask about them all the same.
func TestValuesOfFieldsThatFrameAreCompared(t *testing.T) {
	d := loaded(t)
	const plain = "GET / HTTP/1.1\r\nHost: other\r\n"
	tests := []struct{ name, value, head string }{
		{"host", "a", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		{"host", "shop.te", "GET / HTTP/1.1\r\nHost:shop.te\r\n\r\n"},
		{"host", "shop.tes", "GET / HTTP/1.1\r\nHost: shop.tes\r\n\r\n"},
		{"host", "long.name.of.a.shop.test:8080", "GET / HTTP/1.1\r\nX: y\r\nHost: \t long.name.of.a.shop.test:8080\r\n\r\n"},
		{"connection", "keep-alive", plain + "Connection: keep-alive\r\n\r\n"},
		{"connection", "Upgrade", plain + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
		{"upgrade", "websocket", plain + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
		{"expect", "100-continue", plain + "Expect: 100-continue\r\n\r\n"},
		{"transfer-encoding", "chunked", plain + "Transfer-Encoding: chunked\r\n\r\n"},
		{"trailer", "x-checksum", plain + "Transfer-Encoding: chunked\r\nTrailer: x-checksum\r\n\r\n"},
		{"content-length", "123", plain + "Content-Length: 123\r\n\r\n"},
		{"x-other", "v", plain + "X-Other: v\r\n\r\n"},
	}
	for i, tt := range tests {
		// A table of its own, with one route that asks for the value.
		number, field := uint32(i+1), maps.FieldKey{Table: uint32(i + 1), Len: uint32(len(tt.name))}
		copy(field.Name[:], tt.name)
		value := maps.ValueKey{PrefixLen: 32 + 8*uint32(len(tt.value)), Field: number}
		copy(value.Value[:], tt.value)
		for _, err := range []error{
			d.Config.Values.Put(value, maps.Value{Bits: 1}),
			d.Config.Fields.Put(field, maps.AskedField{Number: number, Flags: uint32(maps.AskedValues)}),
			d.Config.Routes.Put(number, maps.Route{Need: 1, First: 9, Flags: uint32(maps.RouteWebsocket)}),
			d.Config.Paths.Put(maps.PathKey{PrefixLen: 32, Vhost: number}, maps.Candidates{First: number, Count: 1}),
			d.Config.RouteTables.Put(number, maps.RouteTable{Flags: uint32(maps.TableFields), DefaultVhost: number}),
			d.Config.Listeners.Put(number, maps.Listener{Table: number, Number: number}),
		} {
			must(t, err)
		}
		e, err := d.Explain(number, 0, []byte(tt.head))
		must(t, err)
		if e.Verdict != uint32(maps.VerdictOk) || e.Cluster != 9 {
			t.Errorf("%q: %s, cluster %d: its %s is not compared", tt.head, maps.VerdictName(maps.Verdict(e.Verdict)), e.Cluster, tt.name)
		}
	}
}
