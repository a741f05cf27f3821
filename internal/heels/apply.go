// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
	"github.com/xlb-project/xlb/internal/netns"
)

// desired is a configuration as entries of maps.
type desired struct {
	client map[kernel.End]kernel.ClientVIP
	server map[kernel.End]kernel.ServerVIP
	// list has the server's VIPs by their indexes; own those IPv6 VIPs that a SYN to this host's own address is for.
	list     map[uint32]kernel.End
	own      map[kernel.End]kernel.End
	ports    map[uint16]uint8
	prefixes map[kernel.Prefix]uint8
	keys     []settings.Key
	// confirms: a VIP of the server is in confirm mode.
	confirms bool
}

// modeNumbers are what the kernel programs know modes by.
var modeNumbers = map[settings.Mode]uint32{
	settings.Encapsulated: kernel.ModeEncapsulated,
	settings.Rewritten:    kernel.ModeRewritten,
	settings.Preserved:    kernel.ModePreserved,
}

// apply writes a configuration. Connections that are in the VIPs' care already are not touched, whatever leaves.
//
// A VIP keeps its index as long as it is named, and its prefixes come before it and go after it: no SYN is judged by the prefixes of another VIP.
func (k *Kernel) apply(c *settings.Config) error {
	d, err := k.desired(c)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return prune(k.maps.HeelsClientVips, d.client) },
		func() error { return prune(k.maps.HeelsServerVips, d.server) },
		func() error { return prune(k.maps.HeelsServerOwn, d.own) },
		k.pruneOrphans,
		func() error { return put(k.maps.HeelsPrefixes, d.prefixes) },
		func() error { return put(k.maps.HeelsPorts, d.ports) },
		func() error { return k.learnRoutes(c) },
		func() error { return k.applyControl(d) },
		func() error { return k.putList(d.list) },
		func() error { return put(k.maps.HeelsServerVips, d.server) },
		func() error { return put(k.maps.HeelsServerOwn, d.own) },
		func() error { return k.putClient(d.client) },
		func() error { return prune(k.maps.HeelsPrefixes, d.prefixes) },
		func() error { return prune(k.maps.HeelsPorts, d.ports) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (k *Kernel) desired(c *settings.Config) (*desired, error) {
	d := &desired{
		client: map[kernel.End]kernel.ClientVIP{}, server: map[kernel.End]kernel.ServerVIP{}, list: map[uint32]kernel.End{}, own: map[kernel.End]kernel.End{},
		ports: map[uint16]uint8{}, prefixes: map[kernel.Prefix]uint8{},
	}
	if c.Option.KeyFile != "" {
		keys, err := settings.ReadKeys(c.Option.KeyFile)
		if err != nil {
			return nil, err
		}
		d.keys = keys
	}
	if c.Client != nil {
		if err := k.desiredClient(d, c.Client); err != nil {
			return nil, err
		}
	}
	if c.Server == nil {
		return d, nil
	}
	addresses, err := ownAddresses(c)
	if err != nil {
		return nil, err
	}
	return d, k.desiredServer(d, c.Server, addresses)
}

func (k *Kernel) desiredClient(d *desired, c *settings.Client) error {
	indexes, err := takenIndexes(k.maps.HeelsClientVips, func(v kernel.ClientVIP) uint32 { return v.Index })
	if err != nil {
		return err
	}
	for _, vip := range c.VIPs {
		indexes.keep(kernel.EndOf(vip.VIP))
	}
	for _, vip := range c.VIPs {
		index := indexes.of(kernel.EndOf(vip.VIP))
		d.client[kernel.EndOf(vip.VIP)] = kernel.ClientVIP{Index: index}
		for _, p := range vip.Backends {
			d.prefixes[kernel.PrefixOf(kernel.SetBackends, index, p)] = 1
		}
	}
	return nil
}

func (k *Kernel) desiredServer(d *desired, s *settings.Server, addresses own) error {
	indexes, err := takenIndexes(k.maps.HeelsServerVips, func(v kernel.ServerVIP) uint32 { return v.Index })
	if err != nil {
		return err
	}
	for _, vip := range s.VIPs {
		indexes.keep(kernel.EndOf(vip.VIP))
	}
	for _, vip := range s.VIPs {
		index := indexes.of(kernel.EndOf(vip.VIP))
		address, other := addresses.of(vip.VIP.Addr())
		local := kernel.EndOf(netip.AddrPortFrom(address, vip.Port))
		v := kernel.ServerVIP{Index: index, Mode: modeNumbers[vip.Mode], Local: local}
		if vip.Confirm {
			v.Confirm, d.confirms = 1, true
		}
		if other.IsValid() {
			v.Other = other.As16()
		}
		d.server[kernel.EndOf(vip.VIP)] = v
		d.list[index] = kernel.EndOf(vip.VIP)
		if vip.VIP.Addr().Is6() && vip.Mode != settings.Encapsulated {
			d.own[local] = kernel.EndOf(vip.VIP)
		}
		d.ports[local.Port] = 1
		for _, p := range vip.Balancers {
			d.prefixes[kernel.PrefixOf(kernel.SetBalancers, index, p)] = 1
		}
		for _, p := range vip.Clients {
			d.prefixes[kernel.PrefixOf(kernel.SetClients, index, p)] = 1
		}
	}
	return nil
}

// applyControl keeps what survives an agent: the secret, and whether it drains.
func (k *Kernel) applyControl(d *desired) error {
	cookie, err := netns.Cookie()
	if err != nil {
		return err
	}
	return k.change(func(c *kernel.Control) {
		if c.Abi == 0 {
			c.Secret = newSecret()
		}
		c.Abi = kernel.ABI
		c.Netns = cookie
		if d.confirms {
			// For good: connections outlive the configuration.
			c.Flags |= kernel.FlagServerConfirms
		}
		c.Keys = [kernel.MaxKeys][2]uint32{}
		copy(c.Keys[:], d.keys)
		c.KeyCount = uint32(len(d.keys))
	})
}

// putClient writes the client's VIPs; those that are there keep their back-off.
func (k *Kernel) putClient(vips map[kernel.End]kernel.ClientVIP) error {
	var list [kernel.MaxClientVIPs]kernel.End
	taken := map[uint32]bool{}
	for e, v := range vips {
		err := k.maps.HeelsClientVips.Update(e, v, ebpf.UpdateNoExist)
		if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return fmt.Errorf("write VIP %s: %w", kernel.AddrPort(e), err)
		}
		list[v.Index], taken[v.Index] = e, true
	}
	if err := k.keepGone(vips, list[:], taken); err != nil {
		return err
	}
	count := uint32(0)
	for i, e := range list {
		if taken[uint32(i)] {
			count = uint32(i) + 1
		}
		if err := k.maps.HeelsClientList.Put(uint32(i), e); err != nil {
			return fmt.Errorf("write list of VIPs: %w", err)
		}
	}
	return k.change(func(c *kernel.Control) { c.ClientVipCount = count })
}

// keepGone puts VIPs that are no more, but have connections, where the list has room: a server's resets, and errors about what it is sent, find their
// connection by it.
func (k *Kernel) keepGone(vips map[kernel.End]kernel.ClientVIP, list []kernel.End, taken map[uint32]bool) error {
	conns, err := k.Connections()
	if err != nil {
		return err
	}
	kept := map[kernel.End]bool{}
	next := uint32(0)
	for _, c := range conns {
		vip := kernel.EndOf(c.VIP)
		if _, stays := vips[vip]; stays || kept[vip] || c.Role != ClientRole || (c.State != Direct && c.State != Waiting) {
			continue
		}
		for taken[next] {
			next++
		}
		if int(next) >= len(list) {
			return nil
		}
		list[next], taken[next], kept[vip] = vip, true, true
	}
	return nil
}

// putList writes the server's VIPs by index. A SYN that was committed to for a VIP that has gone finds another, or none, and is forgotten.
func (k *Kernel) putList(list map[uint32]kernel.End) error {
	for i := range uint32(kernel.MaxServerVIPs) {
		if err := k.maps.HeelsServerList.Put(i, list[i]); err != nil {
			return fmt.Errorf("write list of VIPs: %w", err)
		}
	}
	return nil
}

// pruneOrphans deletes the prefixes of VIPs that are no more, whose numbers others may get now.
func (k *Kernel) pruneOrphans() error {
	client, err := takenIndexes(k.maps.HeelsClientVips, func(v kernel.ClientVIP) uint32 { return v.Index })
	if err != nil {
		return err
	}
	server, err := takenIndexes(k.maps.HeelsServerVips, func(v kernel.ServerVIP) uint32 { return v.Index })
	if err != nil {
		return err
	}
	of := map[uint32]map[uint32]bool{
		uint32(kernel.SetBackends):  client.all(),
		uint32(kernel.SetBalancers): server.all(),
		uint32(kernel.SetClients):   server.all(),
	}
	return deleteFunc[kernel.Prefix, uint8](k.maps.HeelsPrefixes, func(p kernel.Prefix) bool { return !of[p.Set][p.Vip] })
}

// prune deletes the entries that are not wanted.
func prune[K comparable, V any](m *ebpf.Map, want map[K]V) error {
	return deleteFunc[K, V](m, func(key K) bool {
		_, ok := want[key]
		return !ok
	})
}

// deleteFunc deletes the entries whose keys are stale.
func deleteFunc[K comparable, V any](m *ebpf.Map, isStale func(K) bool) error {
	var (
		stale []K
		key   K
		value V
	)
	entries := m.Iterate()
	for entries.Next(&key, &value) {
		if isStale(key) {
			stale = append(stale, key)
		}
	}
	if err := entries.Err(); err != nil {
		return fmt.Errorf("read %s: %w", m, err)
	}
	for _, key := range stale {
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete from %s: %w", m, err)
		}
	}
	return nil
}

func put[K comparable, V any](m *ebpf.Map, want map[K]V) error {
	for key, value := range want {
		if err := m.Put(key, value); err != nil {
			return fmt.Errorf("write to %s: %w", m, err)
		}
	}
	return nil
}

// indexes gives VIPs numbers, those that have one theirs.
type indexes struct {
	had  map[kernel.End]uint32
	used map[uint32]bool
}

func takenIndexes[V any](m *ebpf.Map, index func(V) uint32) (*indexes, error) {
	x := &indexes{had: map[kernel.End]uint32{}, used: map[uint32]bool{}}
	var (
		key   kernel.End
		value V
	)
	entries := m.Iterate()
	for entries.Next(&key, &value) {
		x.had[key] = index(value)
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", m, err)
	}
	return x, nil
}

// all are the numbers that VIPs have.
func (x *indexes) all() map[uint32]bool {
	all := map[uint32]bool{}
	for _, i := range x.had {
		all[i] = true
	}
	return all
}

// keep reserves the number of a VIP that stays.
func (x *indexes) keep(e kernel.End) {
	if i, ok := x.had[e]; ok {
		x.used[i] = true
	}
}

func (x *indexes) of(e kernel.End) uint32 {
	if i, ok := x.had[e]; ok {
		return i
	}
	i := uint32(0)
	for x.used[i] {
		i++
	}
	x.used[i] = true
	return i
}
