// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// contents are what programs can reach from the service addresses, each thing written down in the place of its number: equal for maps that hold
// the same under other numbers.
func (g *rig) contents() []string {
	c := contents{cfg: g.kernel.cfg, clusters: map[uint32]string{}, texts: map[uint32]string{0: "-", 1: "?"}}
	c.nameClasses()
	for _, cluster := range g.r.clusters.Clusters() {
		c.clusters[cluster.Index] = cluster.Key.Name
		for criteria, index := range cluster.Subsets {
			c.clusters[index] = fmt.Sprintf("%s%s of %d", cluster.Key.Name, criteria, g.kernel.sh.Clusters[index].Whole-1-cluster.Index)
		}
	}
	g.kernel.cfg.VIPs.Each(func(key maps.ListenerKey, number uint32) bool {
		c.table(show(key), g.kernel.table(number))
		return true
	})
	slices.Sort(c.lines)
	return c.lines
}

type contents struct {
	cfg      *maps.Config
	clusters map[uint32]string
	// texts of classes.
	texts map[uint32]string
	lines []string
}

// nameClasses notes which values have which classes.
func (c *contents) nameClasses() {
	for kind, t := range map[string]bpfmap.Table[maps.ValueKey, maps.Value]{"": c.cfg.Values, "...": c.cfg.Prefixes} {
		t.Each(func(key maps.ValueKey, v maps.Value) bool {
			if v.Class != 0 {
				c.texts[v.Class] = fmt.Sprintf("%q%s", key.Value[:(key.PrefixLen-32)/8], kind)
			}
			return true
		})
	}
}

func (c *contents) values(classes [maps.MaxTupleFields]uint32) (texts []string) {
	for _, class := range classes {
		texts = append(texts, c.texts[class])
	}
	return texts
}

func (c *contents) add(format string, args ...any) {
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
}

func (c *contents) table(listener string, number uint32) {
	table := at(c.cfg.RouteTables, number)
	c.add("%s flags %d missing %#x", listener, table.Flags, table.Missing)
	c.vhost(listener+" default", table.DefaultVhost)
	c.cfg.Hosts.Each(func(key maps.HostKey, vhost uint32) bool {
		if key.Scope/2 == number {
			c.vhost(fmt.Sprintf("%s host %d %q", listener, key.Scope%2, key.Host[:(key.PrefixLen-32)/8]), vhost)
		}
		return true
	})
	for i, asked := range table.Pseudo {
		c.field(fmt.Sprintf("%s pseudo %d", listener, i), asked)
	}
	c.cfg.Fields.Each(func(key maps.FieldKey, asked maps.AskedField) bool {
		if key.Table == number {
			c.field(fmt.Sprintf("%s field %q", listener, key.Name[:key.Len]), asked)
		}
		return true
	})
}

func (c *contents) field(what string, asked maps.AskedField) {
	for _, of := range []struct {
		name  string
		table bpfmap.Table[maps.ValueKey, maps.Value]
	}{{"value", c.cfg.Values}, {"prefix", c.cfg.Prefixes}} {
		of.table.Each(func(key maps.ValueKey, v maps.Value) bool {
			if key.Field == asked.Number {
				c.add("%s %s %q: %#x %s", what, of.name, key.Value[:(key.PrefixLen-32)/8], v.Bits, c.texts[v.Class])
			}
			return true
		})
	}
	for i := range asked.Automata {
		c.add("%s automaton %d: %s", what, i, c.automaton(at(c.cfg.Automata, asked.Automaton+i), func(a maps.Automaton, n uint32) string {
			return fmt.Sprintf("%#x", at(c.cfg.AcceptedValues, a.Lists+n).Bits)
		}))
	}
	asked.Number, asked.Automaton = 0, 0
	c.add("%s: %+v", what, asked)
}

func (c *contents) vhost(what string, number uint32) {
	c.cfg.Paths.Each(func(key maps.PathKey, v maps.Candidates) bool {
		if key.Vhost == number {
			c.add("%s path %q: %s", what, key.Path[:(key.PrefixLen-32)/8], c.candidates(v))
		}
		return true
	})
	c.cfg.PathTexts.Each(func(key maps.PathText, v maps.Candidates) bool {
		if key.Vhost == number {
			c.add("%s path %q in the hash: %s", what, key.Text[:key.Len], c.candidates(v))
		}
		return true
	})
}

func (c *contents) candidates(v maps.Candidates) string {
	var w strings.Builder
	w.WriteString(c.routes(v.First, v.Count))
	for i := range v.TupleCount {
		tuple := at(c.cfg.Tuples, v.Tuple+i)
		fmt.Fprintf(&w, " tuple %d %v (%s", tuple.Order, tuple.Slots, c.routes(tuple.First, tuple.Count))
		var buckets []string
		c.cfg.Buckets.Each(func(key maps.BucketKey, list uint32) bool {
			if key.Tuple == tuple.Number && tuple.Number != 0 {
				word := at(c.cfg.BucketLists, list)
				buckets = append(buckets, fmt.Sprintf(" %v:%s", c.values(key.Classes), c.routes(uint32(word), uint32(word>>32))))
			}
			return true
		})
		slices.Sort(buckets)
		fmt.Fprintf(&w, "%s)", strings.Join(buckets, ""))
	}
	for i := range v.Automata {
		fmt.Fprintf(&w, " automaton %s", c.automaton(at(c.cfg.Automata, v.Automaton+i), func(a maps.Automaton, n uint32) string {
			return c.candidates(kernel{cfg: c.cfg}.listOf(a, n))
		}))
	}
	return w.String()
}

// automaton is told by what it makes of some texts.
func (c *contents) automaton(a maps.Automaton, accepted func(a maps.Automaton, list uint32) string) string {
	k := kernel{cfg: c.cfg}
	var w strings.Builder
	fmt.Fprintf(&w, "{%d", a.ClassCount)
	for _, text := range []string{"", "a", "b", "aa", "ab", "aaa", "/", "/a", "/aa", "/aaa", "/ab", "/aaaa"} {
		state := a.Start
		for _, b := range []byte(text) {
			state = k.cell(a.Next, state*a.ClassCount+uint32(a.Classes[b]))
		}
		if list := k.cell(a.Accept, state); list != 0 {
			fmt.Fprintf(&w, " %q:%s", text, accepted(a, list))
		}
	}
	return w.String() + "}"
}

func (c *contents) routes(first, count uint32) string {
	var w strings.Builder
	for i := range count {
		r := at(c.cfg.Routes, first+i)
		fmt.Fprintf(&w, "[%d %#x %#x %d %d %d/%d", r.Order, r.Need, r.Forbid, r.TimeoutNs, r.Flags&(1<<maps.RouteRetryShift-1), r.Numerator, r.Denominator)
		if r.Rewrite != 0 {
			rewrite := at(c.cfg.Rewrites, r.Rewrite)
			fmt.Fprintf(&w, " %d:%q", rewrite.Cut, rewrite.Text[:rewrite.Len])
		}
		if set := r.Flags >> maps.RouteRetryShift; set != 0 {
			fmt.Fprintf(&w, " retry %x", at(c.cfg.RetrySets, set))
		}
		if r.Count == 0 && r.Flags&uint32(maps.RouteSlow) == 0 {
			fmt.Fprintf(&w, " %s", c.clusters[r.First])
		}
		for j := range r.Count {
			s := at(c.cfg.Splits, r.First+j)
			fmt.Fprintf(&w, " %s<%d", c.clusters[s.Cluster], s.Below)
		}
		w.WriteString("]")
	}
	return w.String()
}
