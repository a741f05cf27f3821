// SPDX-License-Identifier: Apache-2.0

package hashing

import (
	"cmp"
	"slices"
)

// Sizes of Maglev tables (MaglevLbConfig.table_size): a prime number.
const (
	DefaultMaglevSize = 65537
	MaxMaglevSize     = 5000011
)

// Maglev is a table of Maglev: a hash belongs to the host at its remainder.
type Maglev struct {
	hosts []Host
	// places holds indices of hosts.
	places []uint32
}

// maglevHost is a host that takes places, each the first of a sequence of its own that is free.
type maglevHost struct {
	host         uint32
	offset, skip uint64
	share, due   float64
	next         uint64
}

// NewMaglev fills a table of so many places, a prime number. In each round every host takes a place, in the order of their keys; one
// with a third of the heaviest host's share every third round.
func NewMaglev(hosts []Host, size uint64) *Maglev {
	m := &Maglev{hosts: hosts}
	if len(hosts) == 0 {
		return m
	}
	const free = ^uint32(0)
	m.places = slices.Repeat([]uint32{free}, int(size))
	all := maglevHosts(hosts, size)
	_, greatest := extremes(hosts)
	for round, taken := 1, uint64(0); taken < size; round++ {
		for i := 0; i < len(all) && taken < size; i++ {
			h := &all[i]
			if float64(float64(round)*h.share) < h.due {
				continue
			}
			h.due += greatest
			for m.places[h.place(size)] != free {
				h.next++
			}
			m.places[h.place(size)] = h.host
			h.next++
			taken++
		}
	}
	return m
}

// maglevHosts are hosts in the order of their keys.
func maglevHosts(hosts []Host, size uint64) []maglevHost {
	all := make([]maglevHost, len(hosts))
	for i, h := range hosts {
		all[i] = maglevHost{host: uint32(i), offset: Sum(h.Key) % size, skip: seeded(h.Key, 1)%(size-1) + 1, share: h.Share}
	}
	slices.SortStableFunc(all, func(a, b maglevHost) int { return cmp.Compare(hosts[a.host].Key, hosts[b.host].Key) })
	return all
}

func (h *maglevHost) place(size uint64) uint64 { return (h.offset + h.skip*h.next) % size }

// Pick implements Table. Attempts after the first look at places far from that.
func (m *Maglev) Pick(hash uint64, attempt uint32) int {
	if len(m.places) == 0 {
		return -1
	}
	if attempt > 0 {
		hash ^= -uint64(attempt)
	}
	return int(m.places[hash%uint64(len(m.places))])
}

// Hosts implements Table.
func (m *Maglev) Hosts() []Host { return m.hosts }

// Len implements Table.
func (m *Maglev) Len() int { return len(m.places) }

// Places are the hosts of all remainders. They must not be changed.
func (m *Maglev) Places() []uint32 { return m.places }
