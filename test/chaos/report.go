// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/chaos/traffic"
	"github.com/xlb-project/xlb/test/violation"
)

// Summary is what a run has counted.
type Summary struct {
	Seed     uint64 `json:"seed"`
	FastPath bool   `json:"fast_path"`
	// Seconds of load.
	Seconds float64           `json:"seconds"`
	Counts  map[string]uint64 `json:"counts"`
	// FastShare of the requests that XLB counted.
	FastShare     float64 `json:"fast_share"`
	ClientsKilled int     `json:"clients_killed"`
	ServersKilled int     `json:"servers_killed"`
	Reloads       int     `json:"reloads"`
	Before        Residue `json:"before"`
	After         Residue `json:"after"`
	// DaemonMemory in bytes, every ten seconds.
	DaemonMemory []int64           `json:"daemon_memory"`
	Failures     []json.RawMessage `json:"failures"`
}

func (s *Summary) json(t testing.TB) []byte {
	t.Helper()
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

// progress brings the summary up to date and writes a line of it.
func (r *run) progress() {
	s := &r.summary
	s.Seconds = time.Since(r.began).Seconds()
	s.Counts = map[string]uint64{}
	for c, n := range r.ledger.Counts() {
		s.Counts[traffic.CountNames[c]] = n
	}
	if fast, slow := r.balancer.Served(r); fast+slow > 0 {
		s.FastShare = fast / (fast + slow)
	}
	s.DaemonMemory = append(s.DaemonMemory, r.balancer.Memory(r))
	fmt.Fprintln(r.options.Progress, s.line())
}

// line is the summary in short.
func (s *Summary) line() string {
	var errors strings.Builder
	for c, name := range traffic.CountNames {
		if n := s.Counts[name]; n > 0 && traffic.Count(c).IsVisibleError() {
			fmt.Fprintf(&errors, " %s %d", name, n)
		}
	}
	return fmt.Sprintf("chaos: %.0f s, %d requests, %d ok, %d left by plan, fast path %.0f %%, daemon %d MB; errors:%s; killed: %d clients, %d servers; %d reloads",
		s.Seconds, s.Counts["requests"], s.Counts["ok"]+s.Counts["tunnel_ok"], s.Counts["left_by_plan"], 100*s.FastShare,
		s.DaemonMemory[len(s.DaemonMemory)-1]>>20, &errors, s.ClientsKilled, s.ServersKilled, s.Reloads)
}

// smallestCalmShare is how many of the requests without faults of their own have
// to be answered: others' faults take some with them. Without this bound a
// balancer that refuses everything would pass.
const smallestCalmShare = 0.95

// shownFailures bounds what is printed; the file has all.
const shownFailures = 10

// judge fails the test for what clients and servers have found, and for answers
// that were too few.
func (r *run) judge() {
	counts := r.ledger.Counts()
	if share := float64(counts[traffic.CalmOK]) / float64(counts[traffic.CalmRequests]); share < smallestCalmShare {
		r.Errorf("requests without faults of their own: %.1f %% answered, want at least %.0f %%", 100*share, 100*smallestCalmShare)
	}
	r.readFailures()
	for i, f := range r.summary.Failures {
		if i == shownFailures {
			r.Errorf("%d failures, more in %s", len(r.summary.Failures), r.file(traffic.FailuresFile))
			return
		}
		violation.Errorf(r, "seed %d: %s", r.options.Seed, f)
	}
}

// readFailures collects the failures that nothing excuses.
func (r *run) readFailures() {
	file, err := os.Open(r.file(traffic.FailuresFile))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var f traffic.Failure
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			r.Fatalf("%s: %v: %s", traffic.FailuresFile, err, lines.Bytes())
		}
		if f.UnlessKilled && r.killed[f.Server] {
			r.summary.Counts[traffic.CountNames[traffic.KilledShort]]++
			continue
		}
		r.summary.Failures = append(r.summary.Failures, json.RawMessage(strings.Clone(lines.Text())))
	}
	if err := lines.Err(); err != nil {
		r.Fatal(err)
	}
}
