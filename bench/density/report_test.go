// SPDX-License-Identifier: Apache-2.0

package density

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/bench/peers"
)

func options() Options {
	return Options{Counts: []int{1, 10, 100}, Peers: Peers(), Rounds: 1, Duration: time.Second, Idle: time.Second, Rate: 100, Connections: 8, MemoryPercent: 85}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Options)
		ok     bool
	}{
		{"good", func(*Options) {}, true},
		{"no warm-up", func(o *Options) { o.Warmup = 0 }, true},
		{"one peer", func(o *Options) { o.Peers = []string{peers.XLB} }, true},
		{"no round", func(o *Options) { o.Rounds = 0 }, false},
		{"no rest", func(o *Options) { o.Idle = 0 }, false},
		{"unknown peer", func(o *Options) { o.Peers = []string{"haproxy"} }, false},
		{"too many", func(o *Options) { o.Counts = []int{most + 1} }, false},
		{"fewer last", func(o *Options) { o.Counts = []int{10, 1} }, false},
		{"all memory", func(o *Options) { o.MemoryPercent = 100 }, false},
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

// taking is a trial of a peer that takes so many MB, of which it owns half.
func taking(peer string, services, reached int, mb int64) Trial {
	return Trial{
		Peer: peer, Services: services, Reached: reached, Cycle: 1, ReadySeconds: 1.5, IdleShare: 0.02,
		Idle: Stock{Anonymous: mb * mega / 2, Charged: mb * mega / 2, PSS: mb * mega, Machine: 2 * mb * mega},
		Fast: Load{Rate: 5000, P50: 100, P99: 900, CPU: 40}, Paced: Load{P50: 80, P99: 300},
	}
}

func TestReportSaysWhatServingTakes(t *testing.T) {
	r := Report{Options: options(), Trials: []Trial{
		taking(peers.XLB, 10, 10, 20), taking(peers.Redirected, 10, 8, 240),
		{Peer: peers.XLB, Services: 1, Cycle: 1, Failure: "out of luck"},
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
		"| 10 | xlb | 10 | 1.50 [1.50..1.50] | 2.00 [2.00..2.00] | 10.0 | 10.0 | 20.0 | 20.0 |",
		"| 10 | envoy-sidecars | 8 | 1.50",
		"| 10 | envoy-sidecars | 30000.0 |", // 240 MB for 8
		"| 10 | xlb | 5000 [5000..5000] | 100 [100..100] | 900 [900..900] | 40.0 | 80 [80..80] | 300 [300..300] |",
		"out of luck",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	if rows := r.summary(); len(rows) != 2 || rows[0].TakenMB.Median != 20 || rows[0].Services != 10 || rows[1].EachKB.Median != 30000 || rows[1].Peer != peers.Redirected {
		t.Errorf("got %+v, want two rows, of XLB with 20 MB and of sidecars with 30,000 KB each", rows)
	}
	if got := r.Failures(); got != 1 {
		t.Errorf("got %d failures, want 1", got)
	}
}

func TestCheckFindsWhatXLBMisses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		trials []Trial
		want   string
	}{
		{"nothing", []Trial{taking(peers.XLB, 100, 100, 20), taking(peers.Redirected, 100, 100, 300)}, ""},
		{"alone", []Trial{taking(peers.XLB, 100, 100, 20)}, ""},
		{"memory", []Trial{taking(peers.XLB, 100, 100, 301), taking(peers.Redirected, 100, 100, 300)}, "XLB takes 301.0 MB"},
		{"memory of few", []Trial{taking(peers.XLB, 10, 10, 301), taking(peers.Redirected, 10, 10, 300)}, ""},
		{"a service", []Trial{taking(peers.XLB, 100, 99, 20)}, "XLB serves 99"},
		{"a request", []Trial{func() Trial { one := taking(peers.XLB, 100, 100, 20); one.Paced.Errors = 1; return one }()}, "with 1 errors"},
		{"others' errors", []Trial{func() Trial { one := taking(peers.Redirected, 100, 99, 20); one.Fast.Errors = 1; return one }()}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(Report{Options: options(), Trials: tt.trials}.Missed(), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
