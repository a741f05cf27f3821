// SPDX-License-Identifier: Apache-2.0

package density

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/podnet"
)

// Peers are who is measured, in the order of the first round (podnet.Order).
func Peers() []string { return []string{peers.Direct, peers.XLB, peers.Redirected} }

// Options of a run.
type Options struct {
	// Counts are of services, fewer first.
	Counts []int    `json:"counts"`
	Peers  []string `json:"peers"`
	Rounds int      `json:"rounds"`
	// Duration is the length of each of the two loads, behind Warmup of the first; Idle is how long the balancer is left alone before them, and again
	// as long while its processor time is measured.
	Duration time.Duration `json:"duration_ns"`
	Warmup   time.Duration `json:"warmup_ns"`
	Idle     time.Duration `json:"idle_ns"`
	// Rate is the second load's requests a second.
	Rate float64 `json:"rate"`
	// Connections are the least; there is one for each service that is served.
	Connections int `json:"connections"`
	// MemoryPercent is how much of the memory that the machine can give when a measurement begins Envoys may take, in percent: no more are started then.
	MemoryPercent int `json:"memory_percent"`
	// Tools are the paths of programs.
	Tools podnet.Tools `json:"-"`
	// Describe returns what the report says of the machine; it reads sysctls, named as "net/ipv4/tcp_rmem". nil: nothing.
	Describe func(sysctl func(name string) (string, error)) fmt.Stringer `json:"-"`
}

// most bounds the services: one pod more has the clients.
const most = podnet.Most - 1

// Validate returns what is wrong with the options.
func (o Options) Validate() error {
	if o.Rounds < 1 || o.Duration <= 0 || o.Warmup < 0 || o.Idle <= 0 || o.Rate <= 0 || o.Connections < 1 {
		return fmt.Errorf("%d rounds of %s behind %s, at rest for %s, %g requests a second over at least %d connections: all but the warm-up must be positive",
			o.Rounds, o.Duration, o.Warmup, o.Idle, o.Rate, o.Connections)
	}
	if o.MemoryPercent < 1 || o.MemoryPercent > 95 {
		return fmt.Errorf("%d %% of the available memory: use 1 to 95", o.MemoryPercent)
	}
	last := 0
	for _, n := range o.Counts {
		if n < 1 || n > most || n <= last {
			return fmt.Errorf("%d services: use 1 to %d, fewer first", n, most)
		}
		last = n
	}
	for _, name := range o.Peers {
		if !slices.Contains(Peers(), name) {
			return fmt.Errorf("peer %q: use some of %s", name, strings.Join(Peers(), ", "))
		}
	}
	return nil
}
