// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

const (
	// awaitPause lies between two attempts at one address, awaitPatience bounds one.
	awaitPause    = 5 * time.Millisecond
	awaitPatience = 2 * time.Second
)

// Answered is how many services have answered, of those in a row the first ones, and when the last of these had; the zero time without any.
type Answered struct {
	Count int       `json:"count"`
	At    time.Time `json:"at"`
}

// Await asks each address, one after the other and each on a connection of its own, until it has answered with status 200. When ctx ends first, the
// error names the address that has not, and those before it are counted.
func Await(ctx context.Context, addresses []netip.AddrPort) (have Answered, err error) {
	for _, address := range addresses {
		for {
			err := askOnce(ctx, address)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return have, fmt.Errorf("%s does not answer: %w", address, err)
			case <-time.After(awaitPause):
			}
		}
		have = Answered{have.Count + 1, time.Now()}
	}
	return have, nil
}

func askOnce(ctx context.Context, address netip.AddrPort) error {
	d := net.Dialer{Timeout: awaitPatience}
	conn, err := d.DialContext(ctx, "tcp", address.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(awaitPatience)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", address); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	first, length, err := ReadHead(r)
	if err != nil {
		return err
	}
	if string(first[:min(12, len(first))]) != "HTTP/1.1 200" {
		return fmt.Errorf("answer %q", first)
	}
	_, err = io.CopyN(io.Discard, r, int64(length))
	return err
}
