// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"net/netip"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// Image is a compiled configuration. Its numbers mean something inside one table
// or cluster only; reconcile turns them into indices of maps.
type Image struct {
	// Listeners in the order of the configuration.
	Listeners []Listener
	// Clusters in the order of the configuration. One that is as in the image before is the same pointer, if one Compiler made both; so are all
	// Listeners, if they are. Neither is changed later.
	Clusters []*Cluster
}

// SameListeners reports whether both images have the listeners of one compilation. False does not mean that they differ.
func (im *Image) SameListeners(other *Image) bool {
	if len(im.Listeners) == 0 || len(other.Listeners) == 0 {
		return len(im.Listeners) == len(other.Listeners)
	}
	return len(im.Listeners) == len(other.Listeners) && &im.Listeners[0] == &other.Listeners[0]
}

// Listener is a service address, or many, and its route table.
type Listener struct {
	Name    string
	Address netip.AddrPort
	// Many is as model.Listener has it.
	Many netip.Prefix
	// Bound: connections are intercepted that go to one of the Own addresses, and not those to Address.
	Bound bool
	Own   []netip.AddrPort
	// PassesBy: connections are left alone, and there is no table. Only listeners with Many are so.
	PassesBy bool
	Table    Table
}

// Key is what the kernel finds the listener by, unless it is Bound.
func (l *Listener) Key() maps.ListenerKey { return keyOf(l.Address, l.Many) }

// KeyOf is that of a listener of the model.
func KeyOf(l *model.Listener) maps.ListenerKey { return keyOf(l.Address, l.Many) }

func keyOf(a netip.AddrPort, many netip.Prefix) maps.ListenerKey {
	if many.IsValid() {
		return maps.KeyOfMany(many, a.Port())
	}
	return maps.KeyOf(a)
}

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

// FirstClass is the lowest class that values in Values and Prefixes have; those below stand for a missing header and for all other
// values.
const FirstClass = firstClass

// Automaton is a dfa.Set of path expressions, with the routes instead of the expressions, or of
// expressions for the value of a header, with conditions instead.
type Automaton struct {
	Classes    [256]uint8
	ClassCount uint32
	Start      uint16
	// Next and Accept are those of dfa.Set; Accept points into Lists.
	Next, Accept []uint16
	// Lists are the candidates of paths that are accepted; the first is empty.
	Lists []List
	// Values are the conditions that hold for values that are accepted; the first is 0.
	Values []uint64
}

func equalAutomata(a, b Automaton) bool {
	return a.Classes == b.Classes && a.ClassCount == b.ClassCount && a.Start == b.Start && slices.Equal(a.Next, b.Next) &&
		slices.Equal(a.Accept, b.Accept) && slices.Equal(a.Lists, b.Lists) && slices.Equal(a.Values, b.Values)
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
	Cluster string
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
	Cluster  string
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

// Cluster is a set of endpoints and how to choose among them; Root says it in the kernel's terms.
type Cluster struct {
	Name   string
	Policy maps.Policy
	// Choices of LEAST_REQUEST; 0 for the other policies.
	Choices uint32
	// Limit of requests in flight, on both paths; 0xffffffff is none, and nobody counts.
	Limit uint32
	// Hashing of policies that hash.
	Hashing   model.Hashing
	Balancing model.Balancing
	SlowStart model.SlowStart
	// Zones is what zone-aware routing needs; nil: there is none.
	Zones *Zones
	// FullScan and Unbiased are those of model.Cluster.
	FullScan, Unbiased bool
	// Endpoints in the order of the configuration, each address once.
	Endpoints []Endpoint
	// Members in the order of the configuration.
	Members []Member
	// Subsets by the criteria of routes, and the Parts that they lead to; without subsets there are none.
	Subsets []Subset
	Parts   []Part
}

// Member is an endpoint at one place of its cluster: what Envoy calls a host.
type Member struct {
	// Endpoint is an index into the cluster's Endpoints.
	Endpoint uint32
	// Weight is the member's share of the turns, at least 1; see turnWeight.
	Weight uint32
	// HealthWeight is its share of a priority's health where that is weighted: as configured, whatever the policy.
	HealthWeight uint32
	model.Place
	// Health as configured.
	Health model.HealthStatus
	// HashKey is what is hashed of it.
	HashKey string
	// Factor of the weight, above 0 and below 1 in a slow start; 0 stands for 1. Set by Root.
	Factor float64
}

// Endpoint is an address that serves a cluster.
type Endpoint struct {
	Address netip.AddrPort
	// Weight is the sum of its members'.
	Weight uint32
	// LoadWeight divides the endpoint's load where LEAST_REQUEST compares; see
	// loadWeight.
	LoadWeight uint32
	// Checked by active health checks: a new one is unhealthy until it has passed the first.
	Checked bool
	// TLS secures connections to it; nil: they are plain text. Hostname is Envoy's name of it. Both are for the slow path, where all requests to a
	// secured endpoint go.
	TLS      *model.UpstreamTLS
	Hostname string
	// Inner: it is a listener of this process, and for the slow path as well.
	Inner bool
}
