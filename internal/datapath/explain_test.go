// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

func TestExplainRoutesAHeadByTheLoadedMaps(t *testing.T) {
	d := loaded(t)
	const number, table, slowTable, strictTable, vhost = 3, 5, 6, 8, 7
	// Of the entry of number+4 it is not the first listener.
	const later = number + 4 + 7*uint32(maps.MaxListeners)
	path := maps.PathKey{PrefixLen: 32 + 8*2, Vhost: vhost}
	copy(path.Path[:], "/a")
	for _, err := range []error{
		d.Config.Routes.Put(11, maps.Route{First: 9, TimeoutNs: 1500}),
		d.Config.Paths.Put(path, maps.Candidates{First: 11, Count: 1}),
		d.Config.RouteTables.Put(table, maps.RouteTable{DefaultVhost: vhost}),
		d.Config.RouteTables.Put(slowTable, maps.RouteTable{Flags: uint32(maps.TableSlow)}),
		d.Config.RouteTables.Put(strictTable, maps.RouteTable{Flags: uint32(maps.TableUnderscores), DefaultVhost: vhost}),
		d.Config.Listeners.Put(number+3, maps.Listener{Table: strictTable, Number: number + 3}),
		d.Config.Listeners.Put(number, maps.Listener{Table: table, Number: number}),
		d.Config.Listeners.Put(number+4, maps.Listener{Table: table, Number: later}),
		d.Config.Listeners.Put(number+1, maps.Listener{Table: slowTable, Number: number + 1}),
	} {
		must(t, err)
	}
	before, err := d.Verdicts()
	must(t, err)
	upgrade := "Connection: upgrade\r\nUpgrade: websocket\r\n"
	long := "X: " + strings.Repeat("x", MaxExplained-len("GET /a HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n")) + "\r\n"
	tests := []struct {
		name     string
		listener uint32
		head     string
		want     maps.Explanation
	}{
		{"fast", number, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", maps.Explanation{TimeoutNs: 1500, Cluster: 9}},
		{"longest head", number, "GET /a HTTP/1.1\r\nHost: a\r\n" + long + "\r\n", maps.Explanation{TimeoutNs: 1500, Cluster: 9}},
		{"no route", number, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n", maps.Explanation{Verdict: uint32(maps.HandoverNoRoute)}},
		{"head", number, "BREW /a HTTP/1.1\r\nHost: a\r\n\r\n", maps.Explanation{Verdict: uint32(maps.HandoverMethod)}},
		{"upgrade", number, "GET /a HTTP/1.1\r\nHost: a\r\n" + upgrade + "\r\n",
			maps.Explanation{TimeoutNs: 1500, Cluster: 9, Verdict: uint32(maps.HandoverUpgrade)}},
		{"slow table", number + 1, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", maps.Explanation{Verdict: uint32(maps.HandoverTableSlow)}},
		{"underscores that nobody minds", number, "GET /a HTTP/1.1\r\nHost: a\r\na_b: c\r\n\r\n", maps.Explanation{TimeoutNs: 1500, Cluster: 9}},
		{"underscore in a name", number + 3, "GET /a HTTP/1.1\r\nHost: a\r\nlonger-than-a-word_b: c\r\n\r\n", maps.Explanation{Verdict: uint32(maps.HandoverNormalize)}},
		{"underscore in a value", number + 3, "GET /a?_ HTTP/1.1\r\nHost: a\r\na: _\r\n\r\n", maps.Explanation{TimeoutNs: 1500, Cluster: 9}},
		{"listener of an entry that others had", later, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", maps.Explanation{TimeoutNs: 1500, Cluster: 9}},
		{"the first listener of that entry", number + 4, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", maps.Explanation{Verdict: uint32(maps.HandoverListenerGone)}},
		{"the one before", later - uint32(maps.MaxListeners), "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", maps.Explanation{Verdict: uint32(maps.HandoverListenerGone)}},
		{"the one behind", later + uint32(maps.MaxListeners), "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", maps.Explanation{Verdict: uint32(maps.HandoverListenerGone)}},
		{"no listener", number + 2, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", maps.Explanation{Verdict: uint32(maps.HandoverListenerGone)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := d.Explain(tt.listener, 0, []byte(tt.head))
			must(t, err)
			tt.want.Listener, tt.want.Drawn = tt.listener, 1
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	after, err := d.Verdicts()
	must(t, err)
	for v := range after {
		if after[v] != before[v] {
			t.Errorf("%s was counted", maps.VerdictName(maps.Verdict(v)))
		}
	}
	if _, err := d.Explain(number, 0, make([]byte, MaxExplained+1)); err == nil || !strings.Contains(err.Error(), "3073 bytes, more than 3072") {
		t.Errorf("head too long: %v", err)
	}
}
