// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/tcptest"
)

// connecting is a socket that has begun to connect.
func connecting(t *testing.T, to *unix.SockaddrInet4, flags int) *os.File {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
	must(t, err)
	if err := unix.Connect(fd, to); !errors.Is(err, unix.EINPROGRESS) {
		must(t, err)
	}
	file := os.NewFile(uintptr(fd), "connection")
	t.Cleanup(func() { file.Close() })
	return file
}

// listening is an address of which the listener accepts nothing. full: it does not answer either.
func listening(t *testing.T, full bool) *unix.SockaddrInet4 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(t, unix.Listen(fd, 0))
	sa, err := unix.Getsockname(fd)
	must(t, err)
	to := sa.(*unix.SockaddrInet4)
	if full {
		must(t, AwaitConnect(t.Context(), connecting(t, to, unix.SOCK_NONBLOCK), time.Now().Add(patience)))
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds())); n != 1 {
			t.Fatalf("fill the queue of a listener: %d, %v", n, err)
		}
	}
	return to
}

func TestWaitForAConnectionEnds(t *testing.T) {
	t.Parallel()
	silent := listening(t, true)
	refusing := tcptest.Refusing(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name  string
		to    *unix.SockaddrInet4
		ctx   func() (context.Context, context.CancelFunc)
		limit time.Duration
		want  error
	}{
		{name: "connected", to: listening(t, false), want: nil},
		{name: "refused", to: &unix.SockaddrInet4{Addr: refusing.Addr().As4(), Port: int(refusing.Port())}, want: unix.ECONNREFUSED},
		{name: "at the deadline", to: silent, limit: 10 * time.Millisecond, want: os.ErrDeadlineExceeded},
		{name: "at the context's deadline", to: silent, ctx: func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 10*time.Millisecond)
		}, limit: time.Hour, want: context.DeadlineExceeded},
		{name: "canceled", to: silent, ctx: func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			return ctx, cancel
		}, want: context.Canceled},
		{name: "canceled before", to: silent, ctx: func() (context.Context, context.CancelFunc) { return canceled, cancel }, want: context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := t.Context(), func() {}
			if tt.ctx != nil {
				ctx, cancel = tt.ctx()
			}
			defer cancel()
			var deadline time.Time
			if tt.limit != 0 {
				deadline = time.Now().Add(tt.limit)
			}
			if err := AwaitConnect(ctx, connecting(t, tt.to, unix.SOCK_NONBLOCK), deadline); !errors.Is(err, tt.want) || IsShortage(err) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestSocketsThatThePollerDoesNotTakeAreAShortage(t *testing.T) {
	t.Parallel()
	// The poller takes none that block.
	if err := AwaitConnect(t.Context(), connecting(t, listening(t, false), 0), time.Time{}); !IsShortage(err) || IsPortShortage(err) {
		t.Errorf("got %v, want a shortage", err)
	}
}
