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

// Await asks each address, one after the other and each on a connection of its own, until it has answered with status 200, and returns when the
// last one had.
func Await(ctx context.Context, addresses []netip.AddrPort) (time.Time, error) {
	for _, address := range addresses {
		for {
			err := askOnce(ctx, address)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return time.Time{}, fmt.Errorf("%s does not answer: %w", address, err)
			case <-time.After(awaitPause):
			}
		}
	}
	return time.Now(), nil
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
