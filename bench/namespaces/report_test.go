// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/bench/peers"
)

func options() Options {
	return Options{Topologies: []string{"same"}, Connections: []int{32}, Rounds: 3, Duration: time.Second, Warmup: time.Second}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Options)
		ok     bool
	}{
		{"good", func(*Options) {}, true},
		{"no warm-up", func(o *Options) { o.Warmup = 0 }, true},
		{"no round", func(o *Options) { o.Rounds = 0 }, false},
		{"no connection", func(o *Options) { o.Connections = []int{0} }, false},
		{"parts of a second", func(o *Options) { o.Duration = 1500 * time.Millisecond }, false},
		{"parts of a second before", func(o *Options) { o.Warmup = 100 * time.Millisecond }, false},
		{"unknown topology", func(o *Options) { o.Topologies = []string{"moon"} }, false},
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

// cycleOf is A B B A of XLB beside direct loads, with these rates of pods; one namespace has 1,000 and 3,000.
func cycleOf(number int, podRates [2]float64) (loads []Load) {
	one := func(peer string, pods bool, rate float64) {
		l := Load{Topology: "same", Connections: 32, Cycle: number, Peer: peer, Pods: pods, Rate: rate, P50: 100, P99: 200}
		if peer == peers.XLB {
			l.Fast = 1
		}
		loads = append(loads, l)
	}
	one(peers.Direct, false, 1000)
	one(peers.Direct, true, 900)
	one(peers.XLB, false, 1000)
	one(peers.XLB, true, podRates[0])
	one(peers.XLB, true, podRates[1])
	one(peers.XLB, false, 3000)
	return loads
}

// The ratio is of the means of a round, and the median over the rounds decides.
func TestReportHasRatiosWithinRounds(t *testing.T) {
	r := Report{Options: options(), Loads: append(append(cycleOf(1, [2]float64{1900, 2100}), cycleOf(2, [2]float64{1000, 1000})...), cycleOf(3, [2]float64{1940, 1960})...)}
	dir := t.TempDir()
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0.975 [0.500..1.000]", "| same | 32 | direct | 1000 | 100 | 200 | 900 | 100 | 200 | 0.900 [0.900..0.900] |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report has no %q:\n%s", want, text)
		}
	}
	if rows := r.summary(); len(rows) != 2 || rows[1].Peer != peers.XLB || rows[1].RateToOne.Median != 0.975 || rows[0].RateToOne.Median != 0.9 {
		t.Errorf("got %+v, want two rows, direct with 0.9 and XLB with 0.975", rows)
	}
	if got := r.Missed(); len(got) > 0 {
		t.Errorf("got %q, want nothing missed", got)
	}
}

func TestCheckFindsWhatIsMissed(t *testing.T) {
	good := [2]float64{2000, 2000}
	for _, tt := range []struct {
		name   string
		change func(loads []Load)
		want   string
	}{
		{"nothing", func([]Load) {}, ""},
		{"slow between pods", func(loads []Load) { loads[3].Rate = 1800 }, "between pods 0.950"},
		{"a request", func(loads []Load) { loads[4].Errors = 1 }, "1 errors"},
		{"the proxy", func(loads []Load) { loads[2].Fast = 0.5 }, "the kernel moved 0.500"},
		{"every request in one namespace", func(loads []Load) { loads[2].Rate, loads[5].Rate = 0, 0 }, "not compared"},
		{"direct is slow", func(loads []Load) { loads[1].Rate = 1 }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Report{Options: options(), Loads: cycleOf(1, good)}
			tt.change(r.Loads)
			got := strings.Join(r.Missed(), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
