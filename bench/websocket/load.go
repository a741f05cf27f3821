// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	loadgen "github.com/xlb-project/xlb/bench/load"
)

// patience bounds a handshake and a round trip; beyond it they are errors.
const patience = 2 * time.Second

// Options of a load.
type Options struct {
	// Targets to connect to; connections take them in turn.
	Targets []netip.AddrPort
	// Connections that are open for the whole load.
	Connections int
	// Message is the size of every message in bytes.
	Message  int
	Duration time.Duration
}

// Validate returns what is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	if len(o.Targets) == 0 {
		errs = append(errs, errors.New("no target: give at least one --target ADDRESS:PORT"))
	}
	if o.Connections < 1 {
		errs = append(errs, fmt.Errorf("connections is %d: at least 1 is needed", o.Connections))
	}
	if o.Message < 1 || o.Message > MaxMessage {
		errs = append(errs, fmt.Errorf("message is %d: use 1 to %d bytes", o.Message, MaxMessage))
	}
	if o.Duration <= 0 {
		errs = append(errs, fmt.Errorf("duration is %s: it must be more than 0", o.Duration))
	}
	return errors.Join(errs...)
}

// Run opens all connections and then sends on each, the next message when the
// echo of the last one is there. A request of the report is a message. A
// connection that fails is one error, and has ended.
func Run(ctx context.Context, o Options) (loadgen.Report, error) {
	if err := o.Validate(); err != nil {
		return loadgen.Report{}, err
	}
	clients, err := dialAll(ctx, o)
	defer func() {
		for _, c := range clients {
			c.conn.Close()
		}
	}()
	if err != nil {
		return loadgen.Report{}, err
	}
	// The loops allocate only their list of latencies.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	start := time.Now()
	end := start.Add(o.Duration)
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() { c.run(ctx, end) })
	}
	wg.Wait()
	elapsed := time.Since(start)
	for _, c := range clients {
		c.close()
	}
	return merge(clients, elapsed), nil
}

func dialAll(ctx context.Context, o Options) ([]*client, error) {
	clients := make([]*client, 0, o.Connections)
	for i := range o.Connections {
		c, err := dial(ctx, o.Targets[i%len(o.Targets)], o.Message)
		if err != nil {
			return clients, fmt.Errorf("connection %d: %w", i, err)
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func merge(clients []*client, elapsed time.Duration) loadgen.Report {
	report := loadgen.NewReport(elapsed)
	for _, c := range clients {
		var failures loadgen.Failures
		if c.err != nil {
			failures.Note(c.err)
		}
		report.AddWorker(c.latencies, failures)
	}
	return report
}

// client is one connection; only its own goroutine uses it while it runs.
type client struct {
	conn net.Conn
	r    *bufio.Reader
	// message and its frame, which is made once: masking is not measured.
	message, frame []byte
	head, buffer   []byte
	latencies      []int64 // microseconds
	err            error   // what ended it early
}

func dial(ctx context.Context, target netip.AddrPort, size int) (*client, error) {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", target.String())
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, r: newReader(conn), message: make([]byte, size), head: make([]byte, maxHead), buffer: make([]byte, MaxMessage)}
	// Documented never to fail.
	_, _ = rand.Read(c.message)
	c.frame = appendFrame(nil, opcodeBinary, c.message, newMask())
	if err := c.upgrade(target); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func newMask() []byte {
	mask := make([]byte, maskSize)
	_, _ = rand.Read(mask)
	return mask
}

func (c *client) upgrade(target netip.AddrPort) error {
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce)
	key := base64.StdEncoding.EncodeToString(nonce)
	_, err := fmt.Fprintf(c.conn, "GET / HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n", target, key)
	if err != nil {
		return err
	}
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return fmt.Errorf("read the answer to the upgrade: %w", err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Sec-WebSocket-Accept") != acceptOf(key) {
		return fmt.Errorf("upgrade refused: %s", response.Status)
	}
	return nil
}

func (c *client) run(ctx context.Context, end time.Time) {
	// One deadline for all messages: setting one for each would be measured too.
	if c.err = c.conn.SetDeadline(end.Add(patience)); c.err != nil {
		return
	}
	for start := time.Now(); start.Before(end) && ctx.Err() == nil; {
		if c.err = c.roundTrip(); c.err != nil {
			return
		}
		now := time.Now()
		c.latencies = append(c.latencies, now.Sub(start).Microseconds())
		start = now
	}
}

// roundTrip sends the message and compares its echo.
func (c *client) roundTrip() error {
	if _, err := c.conn.Write(c.frame); err != nil {
		return err
	}
	f, err := readHead(c.r, c.head)
	if err != nil {
		return err
	}
	payload, err := readPayload(c.r, f, c.buffer)
	if err != nil {
		return err
	}
	if f.opcode != opcodeBinary || !bytes.Equal(payload, c.message) {
		return fmt.Errorf("echo of %d bytes differs from the message of %d", f.length, len(c.message))
	}
	return nil
}

// close says goodbye as RFC 6455 asks and waits for the answer. After the
// measurement nobody needs to know how that went.
func (c *client) close() {
	if c.err != nil {
		return
	}
	if _, err := c.conn.Write(appendFrame(nil, opcodeClose, nil, newMask())); err == nil {
		_, _ = readHead(c.r, c.head)
	}
}
