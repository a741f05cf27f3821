// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/bench/load"
)

// probePause is the time between two requests of a probe, which bounds how exactly it sees a change.
const probePause = time.Millisecond

// Sight is a moment at which an answer came from another server than the one before.
type Sight struct {
	At    time.Time `json:"at"`
	Other bool      `json:"other"`
}

// Sights is what a probe saw, and how many requests failed.
type Sights struct {
	Seen   []Sight `json:"seen"`
	Errors int     `json:"errors"`
}

// Probe asks the probed service over one connection, again and again, and tells when its answers change. The other server's have a body.
func Probe(ctx context.Context, front netip.AddrPort, d time.Duration) (Sights, error) {
	var s Sights
	conn, err := net.Dial("tcp", front.String())
	if err != nil {
		return s, err
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(probePause) {
		other, ok, err := askProbed(conn, r)
		if err != nil {
			return s, fmt.Errorf("ask %s: %w", front, err)
		}
		if !ok {
			s.Errors++
			continue
		}
		if n := len(s.Seen); n == 0 || s.Seen[n-1].Other != other {
			s.Seen = append(s.Seen, Sight{At: time.Now(), Other: other})
		}
	}
	return s, nil
}

func askProbed(conn net.Conn, r *bufio.Reader) (other, ok bool, err error) {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+Probed+"\r\n\r\n"); err != nil {
		return false, false, err
	}
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return false, false, err
	}
	n, err := io.Copy(io.Discard, response.Body)
	return n > 0, response.StatusCode == http.StatusOK, err
}

// Lags are the microseconds from each flip until the probe saw it. Flips that came before the probe, or have not been seen before the next flip, are
// missing: the latter are counted.
func Lags(flips []Flip, s Sights) (lags load.Histogram, missed int) {
	lags = load.Histogram{}
	for i, f := range flips {
		if len(s.Seen) == 0 || f.At.Before(s.Seen[0].At) {
			continue
		}
		seen := firstAfter(f, s)
		switch {
		case seen.IsZero() && i == len(flips)-1: // The probe ended first.
		case seen.IsZero() || i+1 < len(flips) && seen.After(flips[i+1].At):
			missed++
		default:
			lags[seen.Sub(f.At).Microseconds()]++
		}
	}
	return lags, missed
}

func firstAfter(f Flip, s Sights) time.Time {
	for _, one := range s.Seen {
		if one.Other == f.Other && one.At.After(f.At) {
			return one.At
		}
	}
	return time.Time{}
}
