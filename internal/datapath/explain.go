// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps"
)

// MaxExplained is the longest head, in bytes, that Explain takes: the kernel runs a program on a packet of less than a page.
const MaxExplained = 3072

// Explain asks what the request program would decide about a head that comes to a listener, given by its number, by the maps as
// they are. It needs the fast path. The draw decides over fractions and weighted clusters.
func (d *Datapath) Explain(listener uint32, draw uint64, head []byte) (maps.Explanation, error) {
	return d.explain(maps.Explanation{Listener: listener, Draw: draw, Drawn: 1}, head)
}

// ExplainDrawn does so by a random number that the kernel draws, as it does for requests.
func (d *Datapath) ExplainDrawn(listener uint32, head []byte) (maps.Explanation, error) {
	return d.explain(maps.Explanation{Listener: listener}, head)
}

// ExplainFrom does so for a client at an IPv4 address; the zero value is one that the kernel does not know.
func (d *Datapath) ExplainFrom(listener uint32, client netip.Addr, head []byte) (maps.Explanation, error) {
	e := maps.Explanation{Listener: listener}
	if client.Is4() {
		ip := client.As4()
		e.Source = binary.NativeEndian.Uint32(ip[:])
	}
	return d.explain(e, head)
}

func (d *Datapath) explain(e maps.Explanation, head []byte) (maps.Explanation, error) {
	packet, err := explainPacket(e, head)
	if err != nil {
		return e, err
	}
	answer := make([]byte, len(packet))
	run := ebpf.RunOptions{Data: packet, DataOut: answer}
	d.explaining.Lock()
	failure, err := d.fast.Explain.Run(&run)
	d.explaining.Unlock()
	if err != nil {
		return e, fmt.Errorf("explain a request: %w", err)
	}
	if failure != 0 {
		return e, fmt.Errorf("explain a request: the kernel program could not write its answer: %d", int32(failure))
	}
	if _, err := binary.Decode(run.DataOut[len(maps.Packet(nil)):], binary.NativeEndian, &e); err != nil {
		return e, fmt.Errorf("explain a request: read the answer: %w", err)
	}
	return e, nil
}

// TimeExplain returns how long the kernel takes for such a decision, on average of so many runs.
func (d *Datapath) TimeExplain(listener uint32, head []byte, runs int) (time.Duration, error) {
	packet, err := explainPacket(maps.Explanation{Listener: listener}, head)
	if err != nil {
		return 0, err
	}
	d.explaining.Lock()
	defer d.explaining.Unlock()
	_, took, err := d.fast.Explain.Benchmark(packet, runs, nil)
	return took, err
}

func explainPacket(e maps.Explanation, head []byte) ([]byte, error) {
	if len(head) > MaxExplained {
		return nil, fmt.Errorf("explain a request: its head has %d bytes, more than %d; leave out headers that no route asks about", len(head), MaxExplained)
	}
	packet, err := binary.Append(maps.Packet(nil), binary.NativeEndian, e)
	if err != nil {
		return nil, fmt.Errorf("explain a request: %w", err)
	}
	return append(packet, head...), nil
}
