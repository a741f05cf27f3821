// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/hashing"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// Hashing is what a table is made of that finds endpoints by hash. Making one takes milliseconds: equal ones need one table only.
type Hashing struct {
	Hosts []hashing.Host
	// Endpoints are the hosts' indices into the cluster's.
	Endpoints []uint32
	// Maglev, with a table of so many places; 0: a ring.
	Maglev uint64
	Ring   hashing.RingSize
	Murmur bool
	// BalanceFactor bounds loads; see hashing.PickBounded.
	BalanceFactor uint32
}

// Equal reports whether two make the same table.
func (h *Hashing) Equal(other *Hashing) bool {
	if h == nil || other == nil {
		return h == other
	}
	return h.Maglev == other.Maglev && h.Ring == other.Ring && h.Murmur == other.Murmur && h.BalanceFactor == other.BalanceFactor &&
		slices.Equal(h.Hosts, other.Hosts) && slices.Equal(h.Endpoints, other.Endpoints)
}

// Table makes it.
func (h *Hashing) Table() hashing.Table {
	if h.Maglev > 0 {
		return hashing.NewMaglev(h.Hosts, h.Maglev)
	}
	return hashing.NewRing(h.Hosts, h.Ring, h.Murmur)
}

// hashKey is what is hashed of an endpoint; of no consequence where the cluster's policy does not hash.
func hashKey(c *model.Cluster, e *model.Endpoint) string {
	if !c.Policy.Hashes() {
		return ""
	}
	return cmp.Or(e.HashKey, Unmapped(e.Address).String())
}

// InKernel reports whether the kernel may have the table, which has so many places: it knows no bounds, and its memory is limited.
func (h *Hashing) InKernel(entries int) bool {
	return h.BalanceFactor == 0 && entries <= maxHashEntries
}

// maxHashEntries is the largest table that the kernel gets: twice the default of Maglev, 2 MiB.
const maxHashEntries = 1 << 17

// hashNotes say what is certain to be beyond the kernel.
func hashNotes(c *model.Cluster) []note.Note {
	where := c.Called()
	switch size := c.Hashing.TableSize; {
	case c.Hashing.BalanceFactor != 0:
		return []note.Note{{Where: where, Reason: "hash_balance_factor"}}
	case c.Policy == model.Maglev && size > maxHashEntries:
		return []note.Note{{Where: where, Reason: fmt.Sprintf("table_size is %d, more than %d", size, maxHashEntries)}}
	case c.Policy == model.RingHash && min(c.Hashing.Ring.Min, c.Hashing.Ring.Max) > maxHashEntries:
		return []note.Note{{Where: where, Reason: fmt.Sprintf("minimum_ring_size is %d, more than %d", c.Hashing.Ring.Min, maxHashEntries)}}
	}
	return nil
}

func (c *Cluster) hashes() bool {
	return c.Policy == maps.PolicyRingHash || c.Policy == maps.PolicyMaglev
}

// hashRoot is Root for policies that hash. As in Envoy the hash draws the priority, by its remainder of 100, and each priority has one table,
// of its healthy hosts, or in panic of all; degraded ones are not in it, and the share of the requests that they should take comes to it
// all the same. So fail_traffic_on_panic does not matter.
func (c *Cluster) hashRoot(priorities []priority) Group {
	load := loadsOf(priorities, &c.Balancing)
	root := Group{Policy: c.Policy}
	at := make([]int, len(priorities))
	for i := range priorities {
		if load.healthy[i]+load.degraded[i] == 0 {
			continue
		}
		at[i] = len(root.Groups)
		root.Groups = append(root.Groups, c.hashGroup(&priorities[i], load.panic[i]))
	}
	switch len(root.Groups) {
	case 0:
		return c.group(nil)
	case 1:
		return root.Groups[0]
	}
	for _, shares := range [][]uint64{load.healthy, load.degraded} {
		for i, n := range shares {
			root.Schedule = append(root.Schedule, slices.Repeat([]uint32{uint32(at[i])}, int(n))...)
		}
	}
	return root
}

// hashGroup is the table of a priority. Its entries are those that its hosts would take otherwise.
func (c *Cluster) hashGroup(p *priority, panicking bool) Group {
	members := p.healthy
	if panicking {
		members = p.all
	}
	hosts := flatHosts(members, 1)
	if c.Balancing.LocalityWeighted {
		members, hosts = localityHosts(p, members)
	}
	g := c.group(members)
	g.Hashing = &Hashing{
		Hosts: hosts, Endpoints: make([]uint32, len(members)), BalanceFactor: c.Hashing.BalanceFactor,
		Ring: c.Hashing.Ring, Murmur: c.Hashing.Murmur,
	}
	if c.Policy == maps.PolicyMaglev {
		g.Hashing.Maglev = c.Hashing.TableSize
	}
	for i := range members {
		g.Hashing.Endpoints[i] = members[i].Endpoint
	}
	return g
}

// flatHosts shares a part of all keys by weight.
func flatHosts(members []Member, part float64) []hashing.Host {
	var sum uint64
	for i := range members {
		sum += uint64(members[i].Weight)
	}
	hosts := make([]hashing.Host, len(members))
	for i := range members {
		// In this order: another one rounds otherwise than Envoy.
		hosts[i] = hashing.Host{Key: members[i].HashKey, Share: float64(members[i].Weight) * part / float64(sum)}
	}
	return hosts
}

// localityHosts shares all keys by the weights of localities, in their alphabetical order. As in Envoy what is due to a locality without hosts
// here is left to none of the others, and without any weight there are no hosts.
func localityHosts(p *priority, some []Member) (members []Member, hosts []hashing.Host) {
	localities := localitiesOf(p, some)
	slices.SortStableFunc(localities, func(a, b *locality) int { return compareLocalities(a.name, b.name) })
	var sum uint64
	for _, l := range localities {
		sum += uint64(l.weight)
	}
	for _, l := range localities {
		if l.weight > 0 {
			members = append(members, l.eligible...)
			hosts = append(hosts, flatHosts(l.eligible, float64(l.weight)/float64(sum))...)
		}
	}
	return members, hosts
}

func compareLocalities(a, b model.Locality) int {
	return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.SubZone, b.SubZone))
}
