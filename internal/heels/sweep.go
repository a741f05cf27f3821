// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/heels/kernel"
)

// sweepAge is how old an entry must be that has no socket: the entry is there first.
const sweepAge = 10 * time.Second

// sweep takes entries in confirm mode away whose sockets are gone without a word: another program of the cgroup has taken the callbacks, or nobody had them. They would
// catch the segments of whoever connects with the same end. The balancer is told.
func (k *Kernel) sweep() error {
	stale, err := k.staleEntries()
	if err != nil {
		return err
	}
	for key, e := range stale {
		err = errors.Join(err, k.sweepOne(key, &e))
	}
	return err
}

// staleEntries are those without a socket, by either end: that of the client may have yielded to another connection.
func (k *Kernel) staleEntries() (map[kernel.Tuple]kernel.Confirmed, error) {
	before := kernel.Monotonic() - min(kernel.Monotonic(), uint64(sweepAge))
	stale := map[kernel.Tuple]kernel.Confirmed{}
	var (
		key kernel.Tuple
		e   kernel.Confirmed
	)
	entries := k.maps.HeelsConfirmed.Iterate()
	for entries.Next(&key, &e) {
		if e.Since < before {
			stale[key] = e
		}
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, fmt.Errorf("read %s: %w", k.maps.HeelsConfirmed, err)
	}
	if len(stale) == 0 {
		return nil, nil
	}
	live, err := k.liveEnds()
	if err != nil {
		return nil, err
	}
	for key, e := range stale {
		if live[kernel.Tuple{Local: key.Local, Remote: e.Balancer}] {
			delete(stale, key)
		}
	}
	return stale, nil
}

// liveEnds are the ends of the server's connections, as their sockets have them.
func (k *Kernel) liveEnds() (map[kernel.Tuple]bool, error) {
	conns, err := k.Connections()
	if err != nil {
		return nil, err
	}
	live := map[kernel.Tuple]bool{}
	for _, c := range conns {
		if c.Role == ServerRole {
			live[kernel.Tuple{Local: kernel.EndOf(c.Local), Remote: kernel.EndOf(c.Remote)}] = true
		}
	}
	return live, nil
}

func (k *Kernel) sweepOne(key kernel.Tuple, was *kernel.Confirmed) error {
	detour := kernel.Tuple{Local: key.Local, Remote: was.Balancer}
	for _, at := range []kernel.Tuple{key, detour} {
		var e kernel.Confirmed
		// Another connection may have the balancer's end now.
		if k.maps.HeelsConfirmed.Lookup(at, &e) != nil || e.Since != was.Since || e.Client != was.Client {
			continue
		}
		if err := k.maps.HeelsConfirmed.Delete(at); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete from %s: %w", k.maps.HeelsConfirmed, err)
		}
	}
	// Once for the two.
	if was.Heard == 0 || key.Remote != was.Client {
		return nil
	}
	end := kernel.Ended{Local: detour.Local, Remote: detour.Remote, Seq: was.Mark, At: kernel.Monotonic()}
	if err := k.maps.HeelsEndedNow.Put(nil, end); err != nil {
		return fmt.Errorf("write to %s: %w", k.maps.HeelsEndedNow, err)
	}
	return nil
}
