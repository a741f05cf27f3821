// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/xlb-project/xlb/internal/upstream"
)

// HangBound is the longest time without a byte that is not planned: what takes
// longer hangs. Planned stalls and route timeouts are a fraction of it.
const HangBound = 30 * time.Second

// wire is a connection whose every call is bounded, and that remembers how its
// last bytes looked. A send that hears of a reset does not keep it from the receive.
type wire struct {
	*upstream.Conn
	bound time.Duration
	last  []byte
	// ended is what ended the reading.
	ended error
}

func newWire(conn net.Conn, bound time.Duration) *wire {
	return &wire{Conn: upstream.New(conn.(*net.TCPConn)), bound: bound}
}

func (w *wire) Read(p []byte) (int, error) {
	if err := w.SetReadDeadline(time.Now().Add(w.bound)); err != nil {
		return 0, err
	}
	n, err := w.Conn.Read(p)
	if err != nil {
		w.ended = err
		return n, err
	}
	w.last = append(w.last[:0], p[:min(n, shownBytes)]...)
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(w.bound)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// reset closes the connection so that the other side sees a reset.
func (w *wire) reset() {
	// Fails only where there is nothing left to reset.
	_ = w.SetLinger(0)
	_ = w.Close()
}

// largestWrite is how much is given to the kernel at once where nothing asks
// for pieces.
const largestWrite = 64 << 10

// send writes b, in pieces of random sizes if random is not nil.
func (w *wire) send(b []byte, random *rand.Rand) error {
	if random == nil {
		for len(b) > 0 {
			n, err := w.Write(b[:min(len(b), largestWrite)])
			if err != nil {
				return err
			}
			b = b[n:]
		}
		return nil
	}
	var failed error
	pieces(b, random, func(piece []byte, pause time.Duration) bool {
		time.Sleep(pause)
		_, failed = w.Write(piece)
		return failed == nil
	})
	return failed
}

// cause returns what ended the reading, if anything has, rather than what a
// parser made of the bytes before.
func (w *wire) cause(parsing error) error {
	if w.ended != nil {
		return w.ended
	}
	return parsing
}

// isTimeout tells that a call was ended by its bound.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
