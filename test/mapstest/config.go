// SPDX-License-Identifier: Apache-2.0

package mapstest

import "github.com/xlb-project/xlb/internal/maps"

// NewFakeConfig returns configuration maps in memory; fail may be nil.
func NewFakeConfig(sizes maps.Sizes, fail func() bool) *maps.Config {
	return &maps.Config{
		VIPs:           NewFakeTable[maps.ListenerKey, uint32](fail),
		Listeners:      NewFakeTable[uint32, maps.Listener](fail),
		RouteTables:    NewFakeTable[uint32, maps.RouteTable](fail),
		Routes:         NewFakeTable[uint32, maps.Route](fail),
		Splits:         NewFakeTable[uint32, maps.Split](fail),
		Rewrites:       NewFakeTable[uint32, maps.Rewrite](fail),
		RetrySets:      NewFakeTable[uint32, maps.RetrySet](fail),
		Automata:       NewFakeTable[uint32, maps.Automaton](fail),
		Cells:          NewFakeTable[uint32, maps.Cells](fail),
		Accepts:        NewFakeTable[uint32, maps.Candidates](fail),
		AcceptedValues: NewFakeTable[uint32, maps.Value](fail),
		Schedules:      NewFakeTable[uint32, maps.Turn](fail),
		Hosts:          NewFakeTable[maps.HostKey, uint32](fail),
		VHosts:         NewFakeTable[uint32, uint64](fail),
		PathTexts:      NewFakeTable[maps.PathText, maps.Candidates](fail),
		Paths:          NewFakeTable[maps.PathKey, maps.Candidates](fail),
		Tuples:         NewFakeTable[uint32, maps.Tuple](fail),
		Buckets:        NewFakeTable[maps.BucketKey, uint32](fail),
		BucketLists:    NewFakeTable[uint32, uint64](fail),
		Fields:         NewFakeTable[maps.FieldKey, maps.AskedField](fail),
		Values:         NewFakeTable[maps.ValueKey, maps.Value](fail),
		Prefixes:       NewFakeTable[maps.ValueKey, maps.Value](fail),
		Sizes:          sizes,
		SynchronizeRCU: func() error { return nil },
	}
}
