// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
)

// Cases that vary one thing and show what grows with it.
const (
	// caseConnections varies the number of kept-alive connections.
	caseConnections = "connections"
	// caseSizes varies the size of bodies.
	caseSizes = "sizes"
	// caseRate varies how many requests a second are sent, whatever the answers take.
	caseRate = "rate"
	// caseChain varies how many services ask each other for an answer.
	caseChain = "chain"
	// caseDensity varies how many services one host has.
	caseDensity = "density"
	// caseInterference varies how many connections of a neighbour's clients are at work.
	caseInterference = "interference"
	// caseRules varies how many services are configured that nobody asks.
	caseRules = "rules"
	// caseChanges varies how many times a second a control plane changes endpoints.
	caseChanges = "changes"
)

// scaleCases in the order in which they run.
var scaleCases = []string{caseConnections, caseSizes, caseRate, caseChain, caseDensity, caseInterference, caseRules, caseChanges}

// Which messages have the body, in the sizes case.
const (
	wayResponse = "response"
	wayRequest  = "request"
)

// scaleOptions are the options of these cases.
type scaleOptions struct {
	// ConnectionCounts of the connections case.
	ConnectionCounts []int `json:"connection_counts"`
	// Sizes of bodies in bytes, which SizeConnections connections send and receive.
	Sizes           []int `json:"sizes_bytes"`
	SizeConnections int   `json:"size_connections"`
	// Shares of what direct connections can do, in percent, that RateConnections ask for. Capacity in requests a second stands
	// for what they can do; 0: it is found out.
	Shares          []int `json:"shares_percent"`
	RateConnections int   `json:"rate_connections"`
	Capacity        int   `json:"capacity,omitempty"`
	// Hops are the lengths of chains of services, which ChainConnections connections ask.
	Hops             []int `json:"hops"`
	ChainConnections int   `json:"chain_connections"`
	// Services are how many one host has in the density case.
	Services []int `json:"services"`
	// Noise are the neighbour's connections in the interference case, WatchedRate the requests a second of those who are
	// watched, over WatchedConnections.
	Noise              []int `json:"noise"`
	WatchedRate        int   `json:"watched_rate"`
	WatchedConnections int   `json:"watched_connections"`
	// Rules are numbers of unrelated services in the rules case, beside which RuleConnections ask.
	Rules           []int `json:"rules"`
	RuleConnections int   `json:"rule_connections"`
	// Changes are numbers of changes a second in the changes case.
	Changes []int `json:"changes"`
}

func (o *scaleOptions) addFlags(flags *pflag.FlagSet) {
	flags.IntSliceVar(&o.ConnectionCounts, "connection-counts", []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, "numbers of connections in the case connections")
	flags.IntSliceVar(&o.Sizes, "sizes", []int{0, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}, "sizes of bodies in bytes in the case sizes")
	flags.IntVar(&o.SizeConnections, "size-connections", 32, "number of connections in the case sizes")
	flags.IntSliceVar(&o.Shares, "shares", []int{5, 10, 20, 40, 60, 80}, "rates in the case rate, in percent of what direct connections can do")
	flags.IntVar(&o.RateConnections, "rate-connections", 32, "number of connections in the case rate")
	flags.IntVar(&o.Capacity, "capacity", 0, "requests a second that stand for what direct connections can do; 0: find out")
	flags.IntSliceVar(&o.Hops, "hops", []int{1, 3, 5, 7, 9}, "numbers of services in a chain in the case chain")
	flags.IntVar(&o.ChainConnections, "chain-connections", 50, "number of connections in the case chain")
	flags.IntSliceVar(&o.Services, "services", []int{1, 10, 100, 1000}, "numbers of services in the case density")
	flags.IntSliceVar(&o.Noise, "noise", []int{0, 1, 2, 4, 8, 16, 32, 64, 128}, "numbers of the neighbour's connections in the case interference")
	flags.IntVar(&o.WatchedRate, "watched-rate", 1000, "requests a second of the watched clients in the case interference")
	flags.IntVar(&o.WatchedConnections, "watched-connections", 5, "connections of the watched clients in the case interference")
	flags.IntSliceVar(&o.Rules, "rules", []int{0, 1000, 10_000, 100_000}, "numbers of unrelated services in the case rules")
	flags.IntVar(&o.RuleConnections, "rule-connections", 8, "number of connections in the case rules")
	flags.IntSliceVar(&o.Changes, "changes", []int{0, 100}, "changes a second of endpoints in the case changes")
}

// validate returns every problem of the options, each with the flag's name.
func (o scaleOptions) validate() error {
	return errors.Join(
		positive("connection-counts", o.ConnectionCounts...),
		within("sizes", 0, maxBody, o.Sizes...),
		positive("size-connections", o.SizeConnections),
		within("shares", 1, 1000, o.Shares...),
		positive("rate-connections", o.RateConnections),
		within("capacity", 0, 1<<30, o.Capacity),
		within("hops", 1, 30, o.Hops...),
		positive("chain-connections", o.ChainConnections),
		within("services", 1, 4000, o.Services...),
		within("noise", 0, 4000, o.Noise...),
		positive("watched-rate", o.WatchedRate),
		positive("watched-connections", o.WatchedConnections),
		within("rules", 0, 130_000, o.Rules...),
		positive("rule-connections", o.RuleConnections),
		within("changes", 0, 10_000, o.Changes...))
}

func within(flag string, least, most int, values ...int) error {
	if len(values) == 0 || slices.Min(values) < least || slices.Max(values) > most {
		return fmt.Errorf("--%s is %v: use %d to %d", flag, values, least, most)
	}
	return nil
}

// Scaled is what the loads of these cases vary. It is exported because tests compare loads field by field.
type Scaled struct {
	// Size of a body in bytes, and Way, the message that has it; of the sizes case. In the rules case Way is what becomes of connections.
	Size int    `json:"size_bytes,omitempty"`
	Way  string `json:"way,omitempty"`
	// Share is the rate, in percent of what direct connections can do; of the rate case.
	Share int `json:"share_percent,omitempty"`
	// Hops is how many services are in the chain; of the chain case.
	Hops int `json:"hops,omitempty"`
	// Services is how many the host has; of the density case.
	Services int `json:"services,omitempty"`
	// Noise is how many connections the neighbour's clients have; of the interference case.
	Noise int `json:"noise,omitempty"`
	// Rules is how many unrelated services there are; of the rules case.
	Rules int `json:"rules,omitempty"`
	// Changes is how many there are a second; of the changes case.
	Changes int `json:"changes,omitempty"`
}

// scaleLoads lists what is measured of these cases, in order.
func (o options) scaleLoads() []load {
	var loads []load
	if o.asksFor(caseConnections) {
		for _, n := range o.Scale.ConnectionCounts {
			loads = append(loads, load{Case: caseConnections, Connections: n})
		}
	}
	if o.asksFor(caseSizes) {
		for _, way := range []string{wayResponse, wayRequest} {
			for _, size := range o.Scale.Sizes {
				loads = append(loads, sized(o.Scale.SizeConnections, way, size))
			}
		}
	}
	if o.asksFor(caseRate) {
		for _, share := range o.Scale.Shares {
			loads = append(loads, atShare(o.Scale.RateConnections, share))
		}
	}
	if o.asksFor(caseChain) {
		for _, n := range o.Scale.Hops {
			loads = append(loads, chained(o.Scale.ChainConnections, n))
		}
	}
	if o.asksFor(caseDensity) {
		for _, n := range o.Scale.Services {
			loads = append(loads, load{Case: caseDensity, Connections: n, Scaled: Scaled{Services: n}})
		}
	}
	if o.asksFor(caseInterference) {
		for _, n := range o.Scale.Noise {
			loads = append(loads, beside(o.Scale.WatchedConnections, o.Scale.WatchedRate, n))
		}
	}
	if o.asksFor(caseRules) {
		for _, way := range []string{wayShort, wayKept} {
			for _, n := range o.Scale.Rules {
				loads = append(loads, load{Case: caseRules, Connections: o.Scale.RuleConnections, Scaled: Scaled{Way: way, Rules: n}})
			}
		}
	}
	if o.asksFor(caseChanges) {
		for _, n := range o.Scale.Changes {
			loads = append(loads, load{Case: caseChanges, Connections: changeConnections, Rate: changeRate, Scaled: Scaled{Changes: n}})
		}
	}
	return loads
}

func sized(connections int, way string, size int) load {
	return load{Case: caseSizes, Connections: connections, Scaled: Scaled{Size: size, Way: way}}
}

func atShare(connections, share int) load {
	return load{Case: caseRate, Connections: connections, Scaled: Scaled{Share: share}}
}

func chained(connections, hops int) load {
	return load{Case: caseChain, Connections: connections, Scaled: Scaled{Hops: hops}}
}

// beside is the load of the watched clients of the interference case.
func beside(connections, rate, noise int) load {
	return load{Case: caseInterference, Connections: connections, Rate: rate, Scaled: Scaled{Noise: noise}}
}

// runsIn reports whether a load is measured in a topology.
func (l load) runsIn(topology lab.Topology) bool {
	return topology == lab.SameHost || !slices.Contains([]string{caseChain, caseDensity, caseRules, caseChanges}, l.Case)
}

// isScaled reports whether a load is one of these cases'.
func (l load) isScaled() bool { return slices.Contains(scaleCases, l.Case) }

// title names what loads have in common that differ in their step alone.
func (l load) title() string {
	switch l.Case {
	case caseConnections, caseDensity:
		return l.Case
	case caseSizes:
		return fmt.Sprintf("%s, %s bodies, %d connections", l.Case, l.Way, l.Connections)
	case caseInterference:
		return fmt.Sprintf("%s, %d requests/s from %d connections watched", l.Case, l.Rate, l.Connections)
	case caseRules:
		return fmt.Sprintf("%s, %d %s connections", l.Case, l.Connections, l.Way)
	case caseChanges:
		return fmt.Sprintf("%s, %d services of %d endpoints, %d requests/s", l.Case, changedServices, changedEndpoints, l.Rate)
	case caseRate, caseChain:
		return fmt.Sprintf("%s, %d connections", l.Case, l.Connections)
	}
	return l.String()
}

// step is what the case varies, and stepName what it counts.
func (l load) step() int {
	switch l.Case {
	case caseConnections, caseDensity:
		return l.Connections
	case caseSizes:
		return l.Size
	case caseRate:
		return l.Share
	case caseChain:
		return l.Hops
	case caseInterference:
		return l.Noise
	case caseRules:
		return l.Rules
	case caseChanges:
		return l.Changes
	}
	return 0
}

func (l load) stepName() string {
	switch l.Case {
	case caseSizes:
		return "bytes"
	case caseRate:
		return "% of direct"
	case caseChain, caseDensity:
		return "services"
	case caseInterference:
		return "neighbour's connections"
	case caseRules:
		return "unrelated services"
	case caseChanges:
		return "changes/s"
	}
	return l.Case
}

// scaledString names one load.
func (l load) scaledString() string {
	if l.title() == l.stepName() {
		return fmt.Sprintf("%d %s", l.step(), l.stepName())
	}
	return fmt.Sprintf("%s, %d %s", l.title(), l.step(), l.stepName())
}

// comparedWith reports whether the figures of both loads are compared, so that they are measured in the same rounds.
func (l load) comparedWith(other load) bool {
	return l.isScaled() && l.Case == other.Case && l.title() == other.title()
}

// takesPartScaled reports whether a peer is measured under a load of these cases.
func (p peer) takesPartScaled(l load) bool {
	switch l.Case {
	case caseDensity:
		return p.name != peerEnvoy2 && !p.isFilter()
	case caseInterference:
		return p.name == peerDirect || p.name == peerXLB || p.name == peerEnvoy || p.name == peerSidecars
	case caseRules:
		return p.takesRules(l)
	case caseChanges:
		return p.name == peerXLB || p.name == peerEnvoy
	}
	return p.name != peerSidecars && !p.isFilter()
}

// scaledEndpoints is what a load of these cases needs.
func (l load) scaledEndpoints() kind {
	if l.Case == caseChain || l.Case == caseDensity || l.Case == caseChanges {
		return nothing
	}
	if l.Case == caseSizes && l.Way == wayRequest {
		return sinks
	}
	return nginxes
}

// pathOf is the request target of a load.
func (o options) pathOf(l load) string {
	if l.Case == caseSizes {
		return pathOfSize(l.Size, l.Way)
	}
	return o.path()
}

// pathOfSize is where an endpoint answers with so many bytes. Sinks answer everywhere.
func pathOfSize(size int, way string) string {
	if size == 0 || way == wayRequest {
		return "/"
	}
	return "/" + strconv.Itoa(size)
}

// generateScaled makes one load of these cases.
func (b *bed) generateScaled(ctx context.Context, l load, targets []netip.AddrPort, path string, d time.Duration) (loadgen.Report, error) {
	switch l.Case {
	case caseInterference:
		return b.generateWatched(ctx, l, targets, d)
	case caseRules:
		if l.Way == wayShort {
			return b.generateSelf(ctx, targets, "load", l, d, "--path", path)
		}
	case caseRate:
		return b.generateAtRate(ctx, targets, b.offered(l), l.Connections, generators, d)
	}
	return b.generateKeepalive(ctx, l, targets, path, d)
}

// sinkProcess is the i-th endpoint that reads whole bodies before it answers.
func sinkProcess(i int) process {
	return process{
		name: endpointName(i), tool: toolSelf, host: lab.ServerHost,
		args: func(s site, _ string) []string { return []string{"service", "--listen", s.endpoints[i].String()} },
	}
}

// layScaled prepares a load of these cases.
func (b *bed) layScaled(l load) error {
	if l.Case == caseSizes {
		return b.layBodies(l)
	}
	return nil
}

// observe takes what only these cases ask for, after the figures of a turn.
func (b *bed) observe(ctx context.Context, p peer, o options, targets []netip.AddrPort, m *measurement) (err error) {
	if m.Case == caseInterference {
		m.NoiseRate = b.noise
	}
	if m.Case != caseRate {
		return nil
	}
	m.Offered = b.offered(m.load)
	if p.name == peerXLB {
		m.Programs, err = b.programCosts(ctx, m.load, targets, o.pathOf(m.load), o.Duration)
	}
	return err
}
