// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/pins"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// Status is what programs and maps show.
type Status struct {
	// Roles that are attached, and whether they drain.
	Attached []string          `json:"attached"`
	Draining []Role            `json:"draining"`
	Tagged   bool              `json:"tagged"`
	VIPs     []VIP             `json:"vips"`
	Backends []Backend         `json:"backends"`
	Verdicts map[string]uint64 `json:"verdicts"`
	// Problems are what somebody should look at, a sentence each.
	Problems []string `json:"problems"`
}

// VIP is a service address in the care of one role.
type VIP struct {
	Role Role           `json:"role"`
	VIP  netip.AddrPort `json:"vip"`
	// Local and Mode are the server's.
	Local netip.AddrPort `json:"local,omitzero"`
	Mode  settings.Mode  `json:"mode,omitempty"`
	// Confirm: the server's VIP is in confirm mode.
	Confirm bool `json:"confirm,omitempty"`
	// BackOff is how long the client sends no option.
	BackOff time.Duration `json:"back_off_ns,omitempty"`
	// Guessed is how many SYNs the server did not believe because of wrong tags before them, and GuessedAgo how long ago the
	// last one came.
	Guessed    uint64        `json:"guessed,omitempty"`
	GuessedAgo time.Duration `json:"guessed_ago_ns,omitempty"`
}

// Backend is what has gone between a VIP's clients and one of its servers, around the balancer.
type Backend struct {
	Role   Role           `json:"role"`
	VIP    netip.AddrPort `json:"vip"`
	Server netip.AddrPort `json:"server"`
	// Live connections now, and all that have been.
	Live   uint64 `json:"live"`
	Opened uint64 `json:"opened"`
	// Sent and Received are bytes of payload, of live and of finished connections.
	Sent     uint64 `json:"sent_bytes"`
	Received uint64 `json:"received_bytes"`
}

// Status reads everything that is shown.
func (k *Kernel) Status() (*Status, error) {
	s := &Status{Attached: []string{}, Draining: []Role{}, VIPs: []VIP{}, Backends: []Backend{}}
	c, err := k.control()
	if err != nil {
		return nil, err
	}
	for _, r := range []Role{ClientRole, ServerRole} {
		if c.Flags&flagOf(r) != 0 {
			s.Draining = append(s.Draining, r)
		}
	}
	s.Tagged = c.KeyCount > 0
	names, err := pins.LinkNames(k.pin)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		s.Attached = append(s.Attached, n[len(pins.LinkPrefix):])
	}
	if s.VIPs, err = k.vips(); err != nil {
		return nil, err
	}
	s.Problems = problemsOf(s.VIPs)
	if s.Backends, err = k.backends(); err != nil {
		return nil, err
	}
	s.Verdicts, err = k.Verdicts()
	return s, err
}

func (k *Kernel) vips() ([]VIP, error) {
	list := []VIP{}
	var (
		e      kernel.End
		client kernel.ClientVIP
		server kernel.ServerVIP
	)
	now := kernel.Monotonic()
	entries := k.maps.HeelsClientVips.Iterate()
	for entries.Next(&e, &client) {
		v := VIP{Role: ClientRole, VIP: kernel.AddrPort(e)}
		if client.QuietUntil > now {
			v.BackOff = time.Duration(client.QuietUntil - now)
		}
		list = append(list, v)
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read VIPs: %w", err)
	}
	entries = k.maps.HeelsServerVips.Iterate()
	for entries.Next(&e, &server) {
		v := VIP{Role: ServerRole, VIP: kernel.AddrPort(e), Local: kernel.AddrPort(server.Local), Confirm: server.Confirm != 0}
		for mode, number := range modeNumbers {
			if number == server.Mode {
				v.Mode = mode
			}
		}
		if err := k.countGuesses(&v, server.Index, now); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read VIPs: %w", err)
	}
	slices.SortFunc(list, func(a, b VIP) int { return cmp.Or(cmp.Compare(a.Role, b.Role), a.VIP.Compare(b.VIP)) })
	return list, nil
}

// backendKey is what connections are counted by.
type backendKey struct {
	role        Role
	vip, server netip.AddrPort
}

// backends adds the live connections to what the finished have left.
func (k *Kernel) backends() ([]Backend, error) {
	sums := map[backendKey]*Backend{}
	at := func(r Role, vip, server netip.AddrPort) *Backend {
		key := backendKey{r, vip, server}
		if sums[key] == nil {
			sums[key] = &Backend{Role: r, VIP: vip, Server: server}
		}
		return sums[key]
	}
	var (
		key    kernel.Backend
		perCPU []kernel.Traffic
	)
	entries := k.maps.HeelsTraffic.Iterate()
	for entries.Next(&key, &perCPU) {
		role := ClientRole
		if key.Server != 0 {
			role = ServerRole
		}
		b := at(role, kernel.AddrPort(key.Vip), kernel.AddrPort(key.Peer))
		for _, t := range perCPU {
			b.Opened += t.Opened
			b.Sent += t.Sent
			b.Received += t.Received
		}
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read counters of backends: %w", err)
	}
	conns, err := k.Connections()
	if err != nil {
		return nil, err
	}
	for _, c := range conns {
		// A socket that is closed has been counted, but lives until its application closes it.
		if c.State != Direct || c.TCP == "close" {
			continue
		}
		b := at(c.Role, c.VIP, c.Server)
		b.Live++
		b.Sent += c.Sent
		b.Received += c.Received
	}
	list := make([]Backend, 0, len(sums))
	for _, b := range sums {
		list = append(list, *b)
	}
	slices.SortFunc(list, func(a, b Backend) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), a.VIP.Compare(b.VIP), a.Server.Compare(b.Server))
	})
	return list, nil
}
