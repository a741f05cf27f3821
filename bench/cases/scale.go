// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
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

// scaleLoads lists what is measured of these cases, in order.
func (o Options) scaleLoads() []Load {
	var loads []Load
	if o.asksFor(Connections) {
		for _, n := range o.Scale.ConnectionCounts {
			loads = append(loads, Load{Case: Connections, Connections: n})
		}
	}
	if o.asksFor(Sizes) {
		for _, way := range []string{WayResponse, WayRequest} {
			for _, size := range o.Scale.Sizes {
				loads = append(loads, Sized(o.Scale.SizeConnections, way, size))
			}
		}
	}
	if o.asksFor(Rate) {
		for _, share := range o.Scale.Shares {
			loads = append(loads, AtShare(o.Scale.RateConnections, share))
		}
	}
	if o.asksFor(Chain) {
		for _, n := range o.Scale.Hops {
			loads = append(loads, Chained(o.Scale.ChainConnections, n))
		}
	}
	if o.asksFor(Density) {
		for _, n := range o.Scale.Services {
			loads = append(loads, Load{Case: Density, Connections: n, Scaled: Scaled{Services: n}})
		}
	}
	if o.asksFor(Interference) {
		for _, n := range o.Scale.Noise {
			loads = append(loads, Beside(o.Scale.WatchedConnections, o.Scale.WatchedRate, n))
		}
	}
	if o.asksFor(Rules) {
		for _, way := range []string{WayShort, WayKept} {
			for _, n := range o.Scale.Rules {
				loads = append(loads, Load{Case: Rules, Connections: o.Scale.RuleConnections, Scaled: Scaled{Way: way, Rules: n}})
			}
		}
	}
	if o.asksFor(Changes) {
		for _, n := range o.Scale.Changes {
			loads = append(loads, Load{Case: Changes, Connections: ChangeConnections, Rate: ChangeRate, Scaled: Scaled{Changes: n}})
		}
	}
	return loads
}
