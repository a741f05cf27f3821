// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Rounds: 1, Duration: time.Second, Rate: 100, Clients: 8, Connections: 10, Limit: 50}
	for _, tt := range []struct {
		name   string
		change func(*Options)
		ok     bool
	}{
		{"good", func(*Options) {}, true},
		{"no limit and no warm-up", func(o *Options) { o.Limit, o.Warmup = 0, 0 }, true},
		{"a part", func(o *Options) { o.Kinds, o.Paths = []string{Idle}, []string{userSpace} }, true},
		{"no rounds", func(o *Options) { o.Rounds = 0 }, false},
		{"no rate", func(o *Options) { o.Rate = 0 }, false},
		{"negative limit", func(o *Options) { o.Limit = -1 }, false},
		{"unknown kind", func(o *Options) { o.Kinds = []string{"sleep"} }, false},
		{"unknown path", func(o *Options) { o.Paths = []string{"auto"} }, false},
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

func TestARoundBeginsAloneAndGoesPastXLBWhereSomethingConnects(t *testing.T) {
	o := Options{Kinds: []string{Flood, Burn}, Direct: true}
	var got []string
	for _, trial := range o.cycle() {
		name := trial.Kind
		if trial.Direct {
			name += " direct"
		}
		got = append(got, name)
	}
	if want := "alone, burn, flood, flood direct"; strings.Join(got, ", ") != want {
		t.Errorf("trials are %v, want %s", got, want)
	}
}

// trialsOf has three rounds: beside a flood the p99 is so many times that alone, whatever the machine does in a round.
func trialsOf(ratios ...float64) (trials []Trial) {
	for round, ratio := range ratios {
		alone := int64(100 * (round + 1))
		trials = append(trials,
			Trial{Path: kernel, Kind: Alone, Cycle: round, Requests: 10, P50: 50, P99: alone},
			Trial{Path: kernel, Kind: Flood, Cycle: round, Requests: 10, P50: 100, P99: int64(ratio * float64(alone)), Abuse: Abuse{Open: 64, Answers: 1234}},
			Trial{Path: kernel, Kind: Flood, Direct: true, Cycle: round, Requests: 10, P50: 50, P99: alone / 2})
	}
	return trials
}

func options() Options {
	return Options{Rounds: 3, Duration: time.Second, Rate: 100, Clients: 8, Kinds: []string{Flood}, Paths: []string{kernel}, Direct: true, Limit: 50}
}

func TestReportComparesWithinEachRound(t *testing.T) {
	r := Report{Options: options(), Limit: "cgroup v2", Trials: trialsOf(1, 2, 3)}
	dir := t.TempDir()
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	for file, wanted := range map[string][]string{
		"results.md": {
			"| flood | 100 | 400 | 0 | 2.00 [2.00..2.00] | 2.00 [1.00..3.00] | 4.00 [2.00..6.00] | 0 | 0 | 0 | 0 | 0 | 64 | 0 | 1234 | 0 |",
			"| flood, direct | 50 | 100 | 0 | 1.00 [1.00..1.00] | 0.50 [0.50..0.50] | - |",
			"50 % of a processor (cgroup v2)",
		},
		"results.json": {`"p99_us": 400`},
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

func TestReportSaysWhatIsMissed(t *testing.T) {
	for _, tt := range []struct {
		name    string
		trials  []Trial
		missed  int
		failure bool
	}{
		{"nothing", trialsOf(1, 1.2, 3), 0, false},
		{"a latency", trialsOf(1, 1.3, 3), 1, false},
		{"a request", append(trialsOf(1, 1), Trial{Path: kernel, Kind: Flood, Cycle: 2, Errors: 1}), 1, false},
		{"a trial that failed has no figures", append(trialsOf(1), Trial{Path: kernel, Kind: Flood, Cycle: 2, Errors: 1, Failure: "no"}), 0, true},
		{"what the machine shares is no fault", []Trial{{Path: kernel, Kind: Alone, P99: 1}, {Path: kernel, Kind: Burn, P99: 9}}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Report{Options: options(), Trials: tt.trials}
			r.Options.Kinds = []string{Burn, Flood}
			if got := r.Missed(); len(got) != tt.missed || (r.Failures() > 0) != tt.failure {
				t.Errorf("missed %v with %d failures, want %d missed, and failures: %t", got, r.Failures(), tt.missed, tt.failure)
			}
		})
	}
}
