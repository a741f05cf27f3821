// SPDX-License-Identifier: Apache-2.0

package maps

// Turn is an entry of a schedule: the index of an endpoint or of a group, in 8 bytes because the array is mapped into memory.
type Turn = uint64

// Config are the maps that hold the compiled configuration. Reconcile writes them, the kernel programs read them.
type Config struct {
	VIPs        Table[ListenerKey, uint32]
	Listeners   Table[uint32, Listener]
	RouteTables Table[uint32, RouteTable]
	Routes      Table[uint32, Route]
	Splits      Table[uint32, Split]
	Rewrites    Table[uint32, Rewrite]
	RetrySets   Table[uint32, RetrySet]
	Automata    Table[uint32, Automaton]
	Cells       Table[uint32, Cells]
	Accepts     Table[uint32, Candidates]
	// AcceptedValues are for automata over the values of headers.
	AcceptedValues Table[uint32, Value]
	Schedules      Table[uint32, Turn]
	Hosts          Table[HostKey, uint32]
	// VHosts are the words of struct vhost. A word is exchanged by one store.
	VHosts Table[uint32, uint64]
	// PathTexts exchanges what a key has without a moment in which a program finds neither; what was exchanged before, or deleted,
	// must not be read by any program any more.
	PathTexts Table[PathText, Candidates]
	Paths     Table[PathKey, Candidates]
	Tuples    Table[uint32, Tuple]
	// Buckets leads to BucketLists, each of which is two 32-bit numbers in one word: the first route is the lower half, and the number of
	// routes the upper one. A list is exchanged by one store.
	Buckets     Table[BucketKey, uint32]
	BucketLists Table[uint32, uint64]
	Fields      Table[FieldKey, AskedField]
	Values      Table[ValueKey, Value]
	Prefixes    Table[ValueKey, Value]
	// Sizes of the arrays above, in entries.
	Sizes Sizes
	// Settle returns when no program still uses what was unlinked before the call.
	Settle func() error
}

// Sizes are the numbers of entries that maps hold.
type Sizes struct {
	Listeners, RouteTables, Routes, Splits, Tuples, Schedules uint32
	VHosts, Rewrites, RetrySets                               uint32
	Automata, Cells, Accepts, AcceptedValues, BucketLists     uint32
	Clusters, Groups, Endpoints, Slots, HashPlaces            uint32
}
