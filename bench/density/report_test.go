// SPDX-License-Identifier: Apache-2.0

package density

import (
	"errors"
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
	charged := mb * mega / 2
	one := Trial{
		Peer: peer, Services: services, Reached: reached, Cycle: 1, ReadySeconds: 1.5, IdleShare: 0.02,
		Idle: Stock{Anonymous: mb * mega / 2, Charged: &charged, PSS: mb * mega, Machine: 2 * mb * mega},
		Fast: Load{Requests: 5000, Rate: 5000, P50: 100, P99: 900, CPU: 40}, Paced: Load{Requests: 100, P50: 80, P99: 300},
	}
	if peer == peers.XLB {
		one.Fast.Share, one.Paced.Share = 0.9, 0.8
	}
	return one
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
	if rows := r.summary(); rows[0].Share == nil || rows[0].Share.Median != 0.8 || rows[1].Share != nil {
		t.Errorf("got shares %v and %v that the kernel moved, want 0.8 of XLB's and none of sidecars'", rows[0].Share, rows[1].Share)
	}
	if got := r.Failures(); got != 1 {
		t.Errorf("got %d failures, want 1", got)
	}
}

// uncharged takes from a trial what no memory cgroup said.
func uncharged(t Trial) Trial {
	t.Idle.Charged, t.Asked.Charged = nil, nil
	return t
}

func TestReportLeavesOutWhatNoCgroupSays(t *testing.T) {
	r := Report{Options: options(), Trials: []Trial{uncharged(taking(peers.XLB, 100, 100, 20)), uncharged(taking(peers.Redirected, 100, 100, 300))}}
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 100 | xlb | 100 | 1.50 [1.50..1.50] | 2.00 [2.00..2.00] | 10.0 | - | - | 20.0 |", "| 100 | xlb | - | - | 400.0 |"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, text.String())
		}
	}
	rows := r.summary()
	if len(rows) != 2 || rows[0].ChargedMB != nil || rows[0].TakenMB != nil || rows[0].AskedMB != nil || rows[0].EachKB != nil || rows[0].OwnMB.Median != 10 {
		t.Errorf("got %+v, want two rows without figures of what is charged", rows)
	}
}

func TestCheckFindsWhatXLBMisses(t *testing.T) {
	sidecars := taking(peers.Redirected, 100, 100, 300)
	changed := func(change func(*Trial)) Trial {
		one := taking(peers.XLB, 100, 100, 20)
		change(&one)
		return one
	}
	for _, tt := range []struct {
		name   string
		trials []Trial
		want   string
	}{
		{"nothing", []Trial{taking(peers.XLB, 100, 100, 20), sidecars}, ""},
		{"memory", []Trial{taking(peers.XLB, 100, 100, 301), sidecars}, "XLB takes 301.0 MB"},
		{"a service", []Trial{taking(peers.XLB, 100, 99, 20), sidecars}, "XLB serves 99"},
		{"a request", []Trial{changed(func(t *Trial) { t.Paced.Errors = 1 }), sidecars}, "with 1 errors"},
		{"every request", []Trial{changed(func(t *Trial) { t.Paced.Requests = 0 }), sidecars}, "a load behind XLB had no answer"},
		{"others' errors", []Trial{taking(peers.XLB, 100, 100, 20), func() Trial { one := sidecars; one.Reached, one.Fast.Errors = 99, 1; return one }()}, ""},
		{"no sidecars", []Trial{taking(peers.XLB, 100, 100, 20)}, "100 services: memory not compared: measure both"},
		{"no XLB", []Trial{sidecars}, "100 services: XLB was not measured"},
		{"no memory cgroup", []Trial{uncharged(taking(peers.XLB, 100, 100, 20)), uncharged(sidecars)}, "memory not compared: no memory cgroup"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := options()
			o.Counts = []int{100}
			got := strings.Join(Report{Options: o, Trials: tt.trials}.Missed(), "\n")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCheckOfFewServicesSaysThatNoMemoryIsCompared(t *testing.T) {
	o := options()
	o.Counts = []int{10}
	got := Report{Options: o, Trials: []Trial{taking(peers.XLB, 10, 10, 301), taking(peers.Redirected, 10, 10, 300)}}.Missed()
	if len(got) != 1 || !strings.Contains(got[0], "memory: not compared") {
		t.Errorf("got %q, want one line that memory was not compared", got)
	}
}

func TestAwaitOfSomeServicesCountsThem(t *testing.T) {
	const two = `{"count":2,"at":"2026-11-30T12:00:00Z"}`
	ended := errors.New("exit status 2")
	if have, err := answered(two, nil); err != nil || have.Count != 2 {
		t.Errorf("all: got %+v, %v, want 2", have, err)
	}
	if have, err := answered(two, ended); !errors.Is(err, errUnanswered) || have.Count != 2 {
		t.Errorf("some: got %+v, %v, want 2 and that a service does not answer", have, err)
	}
	if have, err := answered("", ended); !errors.Is(err, ended) || errors.Is(err, errUnanswered) || have.Count != 0 {
		t.Errorf("a client that broke: got %+v, %v, want its own error", have, err)
	}
}

func TestErrorsOfTheWarmUpCount(t *testing.T) {
	l := Load{Errors: 1, First: "the second"}
	l.addErrors(Load{Errors: 2, First: "the first"})
	if l.Errors != 3 || l.First != "the first" {
		t.Errorf("got %d errors, first %q, want 3 and the warm-up's", l.Errors, l.First)
	}
	l.addErrors(Load{})
	if l.Errors != 3 || l.First != "the first" {
		t.Errorf("without a warm-up: got %d errors, first %q, want no change", l.Errors, l.First)
	}
}
