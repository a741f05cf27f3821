// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestPartingsLetSoManyPortsWaitAtATime(t *testing.T) {
	t.Parallel()
	var p Partings
	now := time.Now()
	for i := range MaxWaiting {
		if !p.mayWait(now.Add(time.Duration(i) * time.Millisecond)) {
			t.Fatalf("port %d may not wait", i)
		}
	}
	last := now.Add(timeWait - time.Millisecond)
	if p.mayWait(last) {
		t.Error("one more port may wait while the first still does")
	}
	for i := range 10 {
		if !p.mayWait(now.Add(timeWait + time.Duration(i)*time.Millisecond)) {
			t.Errorf("no port may wait in place of number %d, which does not any more", i)
		}
	}
	if p.mayWait(now.Add(timeWait + 9*time.Millisecond)) {
		t.Error("one more port may wait")
	}
}

func TestPartingIsOrderlyAsLongAsFewPortsWait(t *testing.T) {
	t.Parallel()
	var full Partings
	for full.mayWait(time.Now()) {
	}
	for _, tt := range []struct {
		name     string
		partings *Partings
		// ended: the endpoint has ended first, or this side.
		ended, ends bool
		want        error
	}{
		{"few wait", &Partings{}, false, false, io.EOF},
		{"many wait", &full, false, false, unix.ECONNRESET},
		{"many wait, but not behind this one, which the endpoint has ended", &full, true, false, io.EOF},
		{"many wait, and it is too late", &full, false, true, io.EOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, sends, endpoint := pair(t)
			must(t, sends.Close())
			if tt.ended {
				must(t, endpoint.CloseWrite())
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			if tt.ends {
				must(t, c.CloseWrite())
			}
			c.control(func(fd int) {
				if got, want := tt.partings.Part(fd), errors.Is(tt.want, unix.ECONNRESET); got != want {
					t.Errorf("resets: got %t, want %t", got, want)
				}
			})
			must(t, c.Close())
			if err := endOf(t, endpoint); !errors.Is(err, tt.want) {
				t.Errorf("the endpoint sees %v, want %v", err, tt.want)
			}
		})
	}
}

func TestTheEndOfAConnectionWithoutUnsentBytesIsBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		bytes int
		want  time.Duration
	}{{"all acknowledged", 0, EndTimeout}, {"bytes that are not", 16 << 20, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, sends, _ := pair(t)
			if tt.bytes > 0 {
				must(t, sends.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
				if _, err := sends.Write(make([]byte, tt.bytes)); err == nil {
					t.Fatal("the endpoint has taken everything, though it reads nothing")
				}
			}
			c.BoundEnd()
			c.control(func(fd int) {
				got, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
				if err != nil || time.Duration(got)*time.Millisecond != tt.want {
					t.Errorf("TCP_USER_TIMEOUT: got %d ms, %v, want %v", got, err, tt.want)
				}
			})
		})
	}
}

// endOf is how a connection ends from which nothing comes.
func endOf(t *testing.T, c net.Conn) error {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(patience)))
	n, err := c.Read(make([]byte, 1))
	if n != 0 || err == nil {
		t.Fatalf("read: got %d bytes", n)
	}
	return err
}
