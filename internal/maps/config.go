// SPDX-License-Identifier: Apache-2.0

package maps

import "github.com/xlb-project/xlb/internal/maps/bpfmap"

// Turn is an entry of a schedule: the index of an endpoint or of a group, in 8 bytes because the array is mapped into memory.
type Turn = uint64

// Config are the maps that hold the compiled configuration. Reconcile writes them, the kernel programs read them.
type Config struct {
	VIPs bpfmap.Table[ListenerKey, uint32]
	// Listeners are by Sizes.ListenerIndex. An entry is exchanged by one store.
	Listeners   bpfmap.Table[uint32, Listener]
	RouteTables bpfmap.Table[uint32, RouteTable]
	Routes      bpfmap.Table[uint32, Route]
	Splits      bpfmap.Table[uint32, Split]
	Rewrites    bpfmap.Table[uint32, Rewrite]
	RetrySets   bpfmap.Table[uint32, RetrySet]
	Automata    bpfmap.Table[uint32, Automaton]
	Cells       bpfmap.Table[uint32, Cells]
	Accepts     bpfmap.Table[uint32, Candidates]
	// AcceptedValues are for automata over the values of headers.
	AcceptedValues bpfmap.Table[uint32, Value]
	Schedules      bpfmap.Table[uint32, Turn]
	Hosts          bpfmap.Table[HostKey, uint32]
	// VHosts are the words of struct vhost. A word is exchanged by one store.
	VHosts bpfmap.Table[uint32, uint64]
	// PathTexts exchanges what a key has without a moment in which a program finds neither; what was exchanged before, or deleted,
	// must not be read by any program any more.
	PathTexts bpfmap.Table[PathText, Candidates]
	Paths     bpfmap.Table[PathKey, Candidates]
	Tuples    bpfmap.Table[uint32, Tuple]
	// Buckets leads to BucketLists, each of which is two 32-bit numbers in one word: the first route is the lower half, and the number of
	// routes the upper one. A list is exchanged by one store.
	Buckets     bpfmap.Table[BucketKey, uint32]
	BucketLists bpfmap.Table[uint32, uint64]
	Fields      bpfmap.Table[FieldKey, AskedField]
	Values      bpfmap.Table[ValueKey, Value]
	Prefixes    bpfmap.Table[ValueKey, Value]
	// Sizes of the arrays above, in entries.
	Sizes Sizes
	// SynchronizeRCU returns when no program still uses what was unlinked before the call.
	SynchronizeRCU func() error
}

// Sizes are the numbers of entries that maps hold.
type Sizes struct {
	// Listeners is a power of two.
	Listeners, RouteTables, Routes, Splits, Tuples, Schedules uint32
	VHosts, Rewrites, RetrySets                               uint32
	Automata, Cells, Accepts, AcceptedValues, BucketLists     uint32
	Clusters, Groups, Endpoints, Slots, HashPlaces, Anchors   uint32
	// Clients is how many sockets of clients there is room for.
	Clients uint32
}

// ListenerIndex is where the entry of the listener with that number is: at the number's low bits. It may be another listener's.
func (s *Sizes) ListenerIndex(number uint32) uint32 { return number & (s.Listeners - 1) }
