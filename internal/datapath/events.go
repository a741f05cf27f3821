// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/xlb-project/xlb/internal/maps"
)

// Events is the stream of what the kernel programs wake the daemon for.
type Events struct {
	r *ringbuf.Reader
}

// Events opens the stream; there is one.
func (d *Datapath) Events() (*Events, error) {
	r, err := ringbuf.NewReader(d.objects.Events)
	if err != nil {
		return nil, fmt.Errorf("open event stream: %w", err)
	}
	return &Events{r: r}, nil
}

// Next waits for an event. It returns false when the stream is closed.
func (e *Events) Next() (maps.Event, bool, error) {
	var ev maps.Event
	rec, err := e.r.Read()
	if errors.Is(err, ringbuf.ErrClosed) {
		return ev, false, nil
	}
	if err != nil {
		return ev, false, fmt.Errorf("read event: %w", err)
	}
	if err := binary.Read(bytes.NewReader(rec.RawSample), binary.NativeEndian, &ev); err != nil {
		return ev, false, fmt.Errorf("decode event: %w", err)
	}
	return ev, true, nil
}

// Close ends Next.
func (e *Events) Close() error { return e.r.Close() }
