// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/pods"
)

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Rate: 100, Duration: time.Second, Life: time.Second, Processes: 4, Counts: []int{1, 10}}
	for _, tt := range []struct {
		name   string
		change func(*Options)
		ok     bool
	}{
		{"good", func(*Options) {}, true},
		{"memory alone", func(o *Options) { o.Rate, o.Duration = 0, 0 }, true},
		{"no memory", func(o *Options) { o.Counts = nil }, true},
		{"negative rate", func(o *Options) { o.Rate = -1 }, false},
		{"no duration", func(o *Options) { o.Duration = 0 }, false},
		{"too many", func(o *Options) { o.Counts = []int{maxCount + 1} }, false},
		{"fewer last", func(o *Options) { o.Counts = []int{10, 1} }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := good
			tt.change(&o)
			if err := o.Validate(); (err == nil) != tt.ok {
				t.Errorf("got %v, want an error: %t", err, !tt.ok)
			}
		})
	}
}

// stages of so many pods: each has 2 KB of its own and 10 KB of the kernel's, beside 1 MB of either.
func stages(n int64) Memory {
	return Memory{Pods: int(n), Stages: []Stage{{Name: joined, Stock: Stock{Anonymous: 1<<20 + n*2<<10, Charged: 1<<20 + n*10<<10, Kernel: n * 11 << 10, Descriptors: int(100 + 3*n)}}}}
}

func TestReportSaysWhatEachPodTakes(t *testing.T) {
	r := Report{
		Churn:  &Churn{Pods: pods.ChurnReport{Joined: 10, P99: 1500 * time.Microsecond}, Neighbours: []Neighbour{{Where: "host", Requests: 7}}},
		Memory: []Memory{stages(1), stages(101)},
	}
	dir := t.TempDir()
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	for file, wanted := range map[string][]string{
		"results.md":   {"| 101 | joined | 2.0 | 10.0 | 12.0 | 11.0 | 3.0 |", "| 10 | 0 | 0 | 0.00 | 1.50 |", "| host | 7 | 0 |"},
		"results.json": {`"served_p99_ns": 1500000`},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wanted {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q:\n%s", file, want, text)
			}
		}
	}
}

func TestReportSaysWhatWasLost(t *testing.T) {
	for _, tt := range []struct {
		name  string
		churn Churn
		want  bool
	}{
		{"nothing", Churn{}, false},
		{"a pod", Churn{Pods: pods.ChurnReport{Failed: 1}}, true},
		{"a request of others", Churn{Neighbours: []Neighbour{{}, {Errors: 1}}}, true},
		{"a namespace that stays", Churn{Namespaces: 1}, true},
		{"a namespace that cannot be joined", Churn{FailedJoins: 1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := (Report{Churn: &tt.churn}).Lost(); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
