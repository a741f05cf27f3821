// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// Table is a compiled route table.
type Table struct {
	Flags maps.TableFlags
	// VHosts are the names of the virtual hosts, which are 1 to len(VHosts). One without a name stands for none.
	VHosts []string
	// Default is the virtual host of "*", or 0.
	Default uint32
	// Hosts is sorted by direction and key.
	Hosts []Host
	// Paths is sorted by virtual host and key.
	Paths []Path
	// Tuples holds the lists that Paths point into, one behind the other.
	Tuples []Tuple
	// TupleNumbers is how many numbers Tuples have: they are 1 to TupleNumbers.
	TupleNumbers uint32
	// Buckets is sorted by tuple and classes.
	Buckets []Bucket
	// Automata find further lists of routes; those of one virtual host lie together.
	Automata []Automaton
	// Routes holds the lists that Paths, Tuples, Buckets and Automata point into, one behind the other.
	Routes []Route
	// Splits holds the lists that Routes point into.
	Splits []Split
	// Retries is what Routes point into, each once.
	Retries []Retry
	// Fields is sorted by name.
	Fields []Field
	// Values and Prefixes are sorted by field and text.
	Values, Prefixes []Value
	// Missing are the conditions that hold for a request without any of the Fields.
	Missing uint64
	// RequestTimeout and MaxRequests are those of the listener's requests and connections; 0 for no limit.
	RequestTimeout time.Duration
	MaxRequests    uint32
}

// Equal reports whether two tables hold the same.
func (t *Table) Equal(other *Table) bool {
	return t == other || t.SameLimits(other) && t.Flags == other.Flags && t.Default == other.Default && t.Missing == other.Missing && t.TupleNumbers == other.TupleNumbers &&
		slices.Equal(t.VHosts, other.VHosts) && slices.Equal(t.Hosts, other.Hosts) && slices.Equal(t.Paths, other.Paths) &&
		slices.Equal(t.Tuples, other.Tuples) && slices.Equal(t.Buckets, other.Buckets) &&
		slices.Equal(t.Routes, other.Routes) && slices.Equal(t.Splits, other.Splits) && slices.Equal(t.Retries, other.Retries) &&
		slices.Equal(t.Fields, other.Fields) && slices.Equal(t.Values, other.Values) && slices.Equal(t.Prefixes, other.Prefixes) &&
		slices.EqualFunc(t.Automata, other.Automata, equalAutomata)
}

// SameLimits reports whether two tables have the same limits of requests and connections.
func (t *Table) SameLimits(other *Table) bool {
	return t.RequestTimeout == other.RequestTimeout && t.MaxRequests == other.MaxRequests
}

// Host is an entry of the host trie.
type Host struct {
	Direction maps.HostDirection
	// Key as the trie holds it: reversed for HostBackward, with a 0 byte behind it
	// when the whole host must match.
	Key   string
	VHost uint32
}

// Path is an entry of the path trie, or of the hash of paths.
type Path struct {
	VHost uint32
	// Key as the maps hold it: with a 0 byte behind it when the whole path must match.
	Key string
	List
	// Automata[Automaton : Automaton+Automata] may lead to earlier routes.
	Automaton, Automata uint32
}

// List are candidates: Routes[First : First+Count], in order, and those of
// Tuples[Tuple : Tuple+TupleCount], of which there may be none.
type List struct {
	First, Count      uint32
	Tuple, TupleCount uint32
}

// Tuple is a part of an index: routes that ask for values of the same headers.
type Tuple struct {
	// Number in Buckets. Paths share it. 0: the routes ask for no values.
	Number uint32
	// Order of the first of its routes.
	Order uint32
	// Slots of the headers, ascending; 0, behind them, is none.
	Slots [maps.MaxTupleFields]uint8
	// With Number 0 the routes are Routes[First : First+Count], in order.
	First, Count uint32
}

// Bucket is an entry of an index.
type Bucket struct {
	// Tuple is its number.
	Tuple uint32
	// Classes of the values, as the Tuple has its Slots; 0 is that of a missing header.
	Classes [maps.MaxTupleFields]uint32
	// The candidates are Routes[First : First+Count], in order.
	First, Count uint32
}

// Route is a candidate: taken when all bits of Need are set and none of Forbid. With
// RouteSlow the request is handed over then: the route may match, or may not.
type Route struct {
	Need, Forbid uint64
	// Order is what decides between routes of several lists: the lowest is taken. It grows with the position in the virtual
	// host, but is the same for neighbours that never stand in two lists of one request, and 0 in a list that is the only one.
	Order uint32
	// Numerator and Denominator are a share of the requests: those of which the draw, modulo Denominator, is less than
	// Numerator. Both are 0 for all requests.
	Numerator, Denominator uint32
	// Timeout from the end of the request to the end of the response; 0 for none.
	Timeout time.Duration
	// Idle as in model.Route.
	Idle  time.Duration
	Flags maps.RouteFlags
	// Hash is what is hashed of a request, as maps.Route has it; 0 is nothing.
	Hash uint32
	// Rewrite is what the endpoint gets in place of the first bytes of the path.
	Rewrite Rewrite
	// Retry is the index into Table.Retries, plus 1; 0 is none.
	Retry uint32
	// Cluster when it is one; then First, Count and Total are 0. With RouteSlow there is none.
	Cluster model.ClusterKey
	// Criteria name one of the cluster's Subsets; without any it is the cluster itself.
	Criteria model.Metadata
	// Otherwise the shares are Splits[First : First+Count], up to Total.
	First, Count, Total uint32
}

// Retry is what the kernel looks for where a request may be sent again: these responses, or no response at all.
type Retry struct {
	// Statuses has a bit for each status from maps.FirstStatus on. Limited is a response of any status that says x-envoy-ratelimited; in
	// no other case does such a one count.
	Statuses [maps.StatusWords]uint64
	Limited  bool
}

// Rewrite is a text that stands in place of the first Cut bytes of a path, or of all of it. The zero value changes nothing.
type Rewrite struct {
	// Text begins with a slash and is at most maps.MaxRewrite bytes long.
	Text string
	// Cut is at most the length of the path; WholePath stands for that.
	Cut uint32
}

// WholePath is a Rewrite.Cut that leaves nothing of a path.
const WholePath uint32 = maps.NoLimit

// Split is a share of a weighted route: of the draws below Below that no earlier
// share took.
type Split struct {
	Below    uint32
	Cluster  model.ClusterKey
	Criteria model.Metadata
}

// Field is a header that routes ask about, or what is compared like one.
type Field struct {
	// Name in lower case; ":method" and ":path" are names as well, and "?" followed by the name of a query parameter.
	Name string
	// Present are the conditions that hold for a value that is not in the table's Values and
	// begins with none of its Prefixes.
	Present uint64
	// Missing are the conditions that hold for a request without the header.
	Missing uint64
	// Flags say whether it has Values, and Prefixes; the highest byte is the number by which Route.Hash knows it.
	Flags maps.AskedFlags
	// Slot names the header in Tuples; 0: none asks for its value.
	Slot uint32
	// Class of a value that is not in the table's Values and begins with none of its Prefixes;
	// 0 without a Slot.
	Class uint32
	// Automata[Automaton : Automaton+Automata] tell what else holds for a value that is not in
	// the table's Values.
	Automaton, Automata uint32
}

// Value is a header's value, or the beginning of one.
type Value struct {
	// Field is the header's place in the table's Fields.
	Field uint32
	Text  string
	// Bits are all conditions on the header that hold.
	Bits uint64
	// Class tells it from the header's other values in Buckets; 0 without a Slot.
	Class uint32
}

// Terminator stands behind a key that must match whole. No host and no path that
// the kernel accepts contains it.
const Terminator = "\x00"

// Reversed returns the bytes of a host from the last to the first, as the keys of HostBackward have them.
func Reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}
