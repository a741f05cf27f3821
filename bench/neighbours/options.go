// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What the hostile pod does.
const (
	// Alone does nothing: every ratio is to this.
	Alone = "alone"
	// Burn calculates, and opens no connection: what the machine itself shares.
	Burn = "burn"
	// Idle opens connections, asks once on each, and keeps them.
	Idle = "idle"
	// Flood asks as fast as it may, over a few connections.
	Flood = "flood"
	// Unread asks for long responses and reads nothing of them.
	Unread = "unread"
	// Leak sends the head of requests and never the body.
	Leak = "leak"
	// Crash is killed when it has opened connections, repeatedly.
	Crash = "crash"
)

// Kinds are all that the hostile pod can do, in the order of a round.
func Kinds() []string { return []string{Alone, Burn, Idle, Flood, Unread, Leak, Crash} }

// The paths of the watched client's requests: values of xlb run's --fast-path.
const (
	kernel    = "on"
	userSpace = "off"
)

// Paths are all of them.
func Paths() []string { return []string{kernel, userSpace} }

// pathNames are for people.
var pathNames = map[string]string{kernel: "kernel", userSpace: "user space"}

// Options of a run.
type Options struct {
	// Rounds are measurements of each kind under each path.
	Rounds int `json:"rounds"`
	// Duration is how long the watched client is measured in a trial, behind Warmup of the same load.
	Duration time.Duration `json:"duration_ns"`
	Warmup   time.Duration `json:"warmup_ns"`
	Kinds    []string      `json:"kinds"`
	Paths    []string      `json:"paths"`
	// Rate is the watched client's requests a second, over so many Clients, connections that it keeps.
	Rate    float64 `json:"rate"`
	Clients int     `json:"clients"`
	// Direct adds a trial behind that of each kind that connects, in which the hostile pod connects to its servers' own addresses: what it does to others without XLB.
	Direct bool `json:"direct"`
	// Connections are how many the hostile pod tries to open that opens many.
	Connections int `json:"connections"`
	// Limit is the hostile pod's processor time, its server's included, in hundredths of a processor; 0: it has none.
	Limit int `json:"limit"`
	// Processors are how many the hostile pod and its server may run on, the machine's last; 0: all.
	Processors int `json:"processors"`
	// XLB is the path of the binary.
	XLB string `json:"-"`
	// Describe returns what the report says of the machine; it reads sysctls, named as "net/ipv4/tcp_rmem". nil: nothing.
	Describe func(sysctl func(name string) (string, error)) fmt.Stringer `json:"-"`
}

// Validate returns what is wrong with the options.
func (o Options) Validate() error {
	if o.Rounds < 1 || o.Duration <= 0 || o.Warmup < 0 || o.Rate <= 0 || o.Clients < 1 || o.Connections < 1 || o.Limit < 0 || o.Processors < 0 {
		return fmt.Errorf("%d rounds of %s behind %s, %g requests a second over %d connections, %d hostile ones, %d hundredths of a processor on %d: none may be negative, and only the warm-up, the limit and the processors may be 0",
			o.Rounds, o.Duration, o.Warmup, o.Rate, o.Clients, o.Connections, o.Limit, o.Processors)
	}
	for _, one := range []struct {
		what         string
		has, allowed []string
	}{{"kind", o.Kinds, Kinds()}, {"path", o.Paths, Paths()}} {
		for _, name := range one.has {
			if !slices.Contains(one.allowed, name) {
				return fmt.Errorf("%s %q: use some of %s", one.what, name, strings.Join(one.allowed, ", "))
			}
		}
	}
	return nil
}

// kinds are those of a round: all ratios need the first.
func (o Options) kinds() (kinds []string) {
	for _, kind := range Kinds() {
		if kind == Alone || len(o.Kinds) == 0 || slices.Contains(o.Kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func (o Options) paths() []string {
	if len(o.Paths) == 0 {
		return Paths()
	}
	return o.Paths
}
