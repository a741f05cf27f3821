// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Violation is something that must not happen.
type Violation struct {
	At    time.Time
	Seed  uint64
	Phase string
	// Side is "client" or "server"; Who the process that noticed.
	Side, Who string
	What      string
	// ID is the exchange that is wrong; Foreign whose bytes these are, if they say so.
	ID      string
	Foreign string `json:",omitempty"`
	// Offset in the body of the first byte that differs.
	Offset    int64  `json:",omitempty"`
	Want, Got string `json:",omitempty"`
	// Order as the side knows it: mechanism, act, sizes.
	Order string
	// Before is the act of the exchange before on a client's connection, and Port the client's own, by which the daemon names the connection.
	Before string `json:",omitempty"`
	Port   int    `json:",omitempty"`
	// Exchange is how many the process had done.
	Exchange int64
	// Timed: nothing was wrong but that it took longer than the traffic's patience. Other work on the machine may be the reason.
	Timed bool `json:",omitempty"`
}

func (v *Violation) String() string {
	return fmt.Sprintf("seed %d, phase %s: %s %s, exchange %d: %s: exchange %s [%s] behind [%s], port %d, bytes of %q, offset %d, want %q, got %q",
		v.Seed, v.Phase, v.Side, v.Who, v.Exchange, v.What, v.ID, v.Order, v.Before, v.Port, v.Foreign, v.Offset, v.Want, v.Got)
}

// ViolationsFile is the name of the file of violations in a run's directory: a line of JSON for each.
const ViolationsFile = "violations.jsonl"

// book is what a process has counted, and where it writes violations down.
type book struct {
	seed       uint64
	phase, who string
	side       string
	file       *os.File

	mu     sync.Mutex // guards counts
	counts map[string]int64
}

func openBook(directory string, seed uint64, side, who, phase string) (*book, error) {
	file, err := os.OpenFile(filepath.Join(directory, ViolationsFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the file of violations: %w", err)
	}
	return &book{seed: seed, side: side, who: who, phase: phase, file: file, counts: map[string]int64{}}, nil
}

func (b *book) count(what string) { b.add(what, 1) }

func (b *book) add(what string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[what] += n
}

// Report is what a process has counted.
type Report struct{ Counts map[string]int64 }

func (b *book) report() Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Report{Counts: maps.Clone(b.counts)}
}

// Names of counts that others look at.
const (
	// Exchanges that a client began, or a server read the head of.
	Exchanges = "exchanges"
	// Right were right to the last byte.
	Right = "right"
	// Honest exchanges are those in which nothing excuses a failure but what others do; HonestRight are the right ones of them.
	Honest      = "honest"
	HonestRight = "honest and right"
	// Violations were written down.
	Violations = "violations"
)

// violate writes a violation down. A line goes in one write: lines of many processes do not mix.
func (b *book) violate(v Violation) {
	b.mu.Lock()
	b.counts[Violations]++
	v.Exchange = b.counts[Exchanges]
	b.mu.Unlock()
	v.At, v.Seed, v.Phase, v.Side, v.Who = time.Now(), b.seed, b.phase, b.side, b.who
	line, err := json.Marshal(v)
	if err == nil {
		_, err = b.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("write down a violation: %v: %s", err, v.String()))
	}
}

// ReadViolations returns what processes have written down in a directory.
func ReadViolations(directory string) (all []Violation, err error) {
	file, err := os.Open(filepath.Join(directory, ViolationsFile))
	if err != nil {
		if os.IsNotExist(err) {
			return nil, nil
		}
		return nil, err
	}
	defer file.Close()
	for lines := json.NewDecoder(file); lines.More(); {
		var v Violation
		if err := lines.Decode(&v); err != nil {
			return all, fmt.Errorf("%s: %w", file.Name(), err)
		}
		all = append(all, v)
	}
	return all, nil
}
