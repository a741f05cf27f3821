// SPDX-License-Identifier: Apache-2.0

package interference

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/bench/peers"
)

func options() Options {
	return Options{Peers: Peers(), Neighbours: []int{0, 8, 128}, Rounds: 1, Duration: time.Second, Rate: 1000, Connections: 5}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Options)
		ok     bool
	}{
		{"good", func(*Options) {}, true},
		{"no round", func(o *Options) { o.Rounds = 0 }, false},
		{"no rate", func(o *Options) { o.Rate = 0 }, false},
		{"fewer last", func(o *Options) { o.Neighbours = []int{8, 0} }, false},
		{"the same twice", func(o *Options) { o.Neighbours = []int{8, 8} }, false},
		{"parts of a second", func(o *Options) { o.Duration = 1500 * time.Millisecond }, false},
		{"unknown peer", func(o *Options) { o.Peers = []string{"haproxy"} }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options()
			tt.change(&o)
			if err := o.Validate(); (err == nil) != tt.ok {
				t.Errorf("got %v, want an error: %t", err, !tt.ok)
			}
		})
	}
}

// one is a round's load with that p99.
func one(peer string, neighbour int, p99 int64) Load {
	return Load{Peer: peer, Neighbour: neighbour, Cycle: 1, Requests: 1000, P50: 50, P99: p99, Got: 20000}
}

func TestReportHasRatiosToDirectAndToNoNeighbour(t *testing.T) {
	r := Report{Options: options(), Loads: []Load{
		one(peers.Direct, 0, 100), one(peers.XLB, 0, 120), one(peers.Direct, 8, 400), one(peers.XLB, 8, 360), one(peers.Redirected, 8, 4000),
		{Peer: peers.Redirected, Cycle: 1, Failure: "out of luck"},
	}}
	dir := t.TempDir()
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 8 | xlb | 50 | 360 | 1.00 [1.00..1.00] | 0.90 [0.90..0.90] | 3.00 [3.00..3.00] | 0 | 20000 | 1.00 [1.00..1.00] | 0 |",
		"| 8 | envoy-sidecars | 50 | 4000 | 1.00 [1.00..1.00] | 10.00 [10.00..10.00] | - |",
		"out of luck",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	rows := r.summary()
	if last := rows[len(rows)-1]; len(rows) != 5 || last.P99ToDirect == nil || last.P99ToDirect.Median != 10 || last.P99ToAlone != nil {
		t.Errorf("got %+v, want five rows, the last with 10 times the p99 of direct connections and no ratio to itself alone", rows)
	}
	if got := r.Failures(); got != 1 {
		t.Errorf("got %d failures, want 1", got)
	}
}

// complete has all that is compared, and is good.
func complete() []Load {
	return []Load{
		one(peers.Direct, 8, 100), one(peers.XLB, 8, 110), one(peers.Redirected, 8, 110),
		one(peers.Direct, 64, 100), one(peers.XLB, 64, 110), one(peers.Redirected, 64, 110),
	}
}

func TestCheckFindsWhatIsMissed(t *testing.T) {
	const xlb = 1
	for _, tt := range []struct {
		name   string
		change func([]Load) []Load
		want   string
	}{
		{"nothing", func(l []Load) []Load { return l }, ""},
		{"slower than direct", func(l []Load) []Load { l[xlb].P99 = 111; l[2].P99 = 200; return l }, "times that of direct"},
		{"slower than sidecars", func(l []Load) []Load { l[2].P99 = 109; return l }, "times that of envoy-sidecars"},
		{"a neighbour without a target", func(l []Load) []Load { return append(l, one(peers.Direct, 128, 100), one(peers.XLB, 128, 900)) }, ""},
		{"a request", func(l []Load) []Load { l[xlb].Errors = 2; return l }, "2 errors"},
		{"a request without a target", func(l []Load) []Load { l = append(l, one(peers.XLB, 128, 900)); l[6].Errors = 2; return l }, "2 errors"},
		{"a request of the neighbour", func(l []Load) []Load { l[xlb].GotErrors = 3; return l }, "3 of the neighbour"},
		{"every request of the neighbour", func(l []Load) []Load { l[xlb].Got = 0; return l }, "the neighbour behind XLB had no answer"},
		{"every request", func(l []Load) []Load { l[xlb].Requests, l[xlb].P99 = 0, 0; return l }, "the watched clients of xlb had no answer"},
		{"every direct request", func(l []Load) []Load { l[0].Requests, l[0].P99 = 0, 0; return l }, "the watched clients of direct had no answer"},
		{"others' requests", func(l []Load) []Load { l[2].Errors, l[2].GotErrors = 1, 1; return l }, ""},
		{"direct not measured", func(l []Load) []Load { return l[1:] }, "neighbour of 8 connections: p99 not compared to that of direct"},
		{"XLB alone", func(l []Load) []Load { return l[xlb : xlb+1] }, "neighbour of 8 connections: p99 not compared to that of envoy-sidecars"},
		{"no neighbour with a target", func([]Load) []Load { return []Load{one(peers.XLB, 0, 1)} }, "neighbour of 64 connections: p99 not compared"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options()
			o.Neighbours = []int{0, 8, 64, 128}
			got := strings.Join(Report{Options: o, Loads: tt.change(complete())}.Missed(), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
