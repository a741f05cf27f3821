// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/bench/accept"
)

// AccountPath of a station is answered with its Account in JSON, which begins anew.
const AccountPath = "/account"

// StationOptions of a server.
type StationOptions struct {
	Listen netip.AddrPort
	// Service is how long each request takes, and Workers how many are served at once; the others wait, first come first served.
	Service time.Duration
	Workers int
}

// Validate returns what is wrong with the options.
func (o StationOptions) Validate() error {
	if o.Workers < 1 || o.Service < 0 {
		return fmt.Errorf("%d workers that take %s: at least one worker is needed, and no negative time", o.Workers, o.Service)
	}
	return nil
}

// station is a server.
type station struct {
	options StationOptions
	// waiting are requests in the order of their arrival, by where to tell that they are served.
	waiting chan chan<- error
	ledger  *ledger
}

// Serve answers requests until ctx ends.
func Serve(ctx context.Context, o StationOptions) error {
	if err := o.Validate(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.Listen.String())
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	start := time.Now()
	s := &station{options: o, waiting: make(chan chan<- error, 1<<16), ledger: newLedger(func() time.Duration { return time.Since(start) })}
	for range o.Workers {
		t, err := newTimer()
		if err != nil {
			return err
		}
		go s.work(t)
	}
	return accept.Each(listener, s.serve)
}

// work serves one request after the other, for ever.
func (s *station) work(t *timer) {
	for served := range s.waiting {
		served <- t.wait(s.options.Service)
	}
}

func (s *station) serve(conn net.Conn) error {
	r, served := bufio.NewReader(conn), make(chan error, 1)
	for {
		request, err := http.ReadRequest(r)
		if err != nil {
			return err
		}
		if request.URL.Path == AccountPath {
			if err := s.account(conn); err != nil {
				return err
			}
			continue
		}
		s.ledger.begin()
		s.waiting <- served
		err = <-served
		s.ledger.end()
		if err != nil {
			return err
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return err
		}
	}
}

func (s *station) account(conn net.Conn) error {
	text, err := json.Marshal(s.ledger.take())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	return err
}
