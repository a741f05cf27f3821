// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/tcptest"
)

// Each of thousands of workloads may have some, and Go ends a process of 10,000 threads. It runs alone: other tests have threads and descriptors.
func TestConnectsInProgressTakeNoThreads(t *testing.T) {
	const (
		workloads = 125
		endpoints = 4
		connects  = workloads * endpoints
		few       = 50
	)
	descriptors, threads := tcptest.Descriptors(t), tcptest.Threads(t)
	t.Run("in progress", func(t *testing.T) {
		address := silent(t)
		r := newRig(t, setup{eager: -1, slots: 2 * connects})
		var list []Endpoint
		for i := range uint32(endpoints) {
			list = append(list, Endpoint{Index: i, Address: address, ConnectTimeout: time.Hour})
		}
		r.set(list...)
		for id := workload.ID(1); id <= workloads; id++ {
			r.join(id)
			for i := range uint32(endpoints) {
				r.missOf(id, i, 1)
			}
		}
		await.Quiet(t, func() string {
			if got := connecting(t, address); got != connects {
				return fmt.Sprintf("connects in progress: got %d, want %d", got, connects)
			}
			return ""
		})
		if got := tcptest.Threads(t); got > threads+few {
			t.Errorf("threads with %d connects in progress: got %d, %d before", connects, got, threads)
		}
		must(t, r.p.Close())
		if got := connecting(t, address); got != 0 {
			t.Errorf("connects in progress when the pool has closed: got %d, want 0", got)
		}
	})
	await.Quiet(t, func() string {
		if got := tcptest.Descriptors(t); got != descriptors {
			return fmt.Sprintf("descriptors: got %d, %d before", got, descriptors)
		}
		return ""
	})
}

// connecting is how many sockets wait for the answer of an IPv4 address.
func connecting(t *testing.T, address netip.AddrPort) (n int) {
	t.Helper()
	const stateSynSent = "02"
	file, err := os.Open("/proc/thread-self/net/tcp")
	must(t, err)
	defer file.Close()
	remote := fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(address.Addr().AsSlice()), address.Port())
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 3 && fields[2] == remote && fields[3] == stateSynSent {
			n++
		}
	}
	must(t, lines.Err())
	return n
}

func TestConnectSaysWhyItHasEnded(t *testing.T) {
	t.Parallel()
	connect := func(ctx context.Context, to netip.AddrPort, timeout time.Duration) error {
		t.Helper()
		fd, err := testDialer("").connect(ctx, testOrigin(), to, timeout, func(netip.AddrPort, uint32) error { return nil })
		if fd >= 0 {
			unix.Close(fd)
		}
		return err
	}
	to := silent(t)
	if err := connect(t.Context(), to, 10*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("when its time is up: got %v, want %v", err, os.ErrDeadlineExceeded)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- connect(ctx, to, time.Hour) }()
	await.Quiet(t, func() string {
		if connecting(t, to) == 0 {
			return "no connect is in progress"
		}
		return ""
	})
	cancel()
	if err := await.Next(t, ended, "end of a connect"); !errors.Is(err, context.Canceled) {
		t.Errorf("when it is canceled: got %v, want %v", err, context.Canceled)
	}
	if err := connect(ctx, to, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("when it was canceled before: got %v, want %v", err, context.Canceled)
	}
	if err := connect(t.Context(), tcptest.Refusing(t), time.Hour); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("when it is refused: got %v, want %v", err, unix.ECONNREFUSED)
	}
}

// It would seem to be in service, and its server could not listen any more: the port is in use.
func TestISockIsNotConnectedToItself(t *testing.T) {
	t.Parallel()
	const first, last = 20100, 20101
	from := testOrigin()
	from.ports = portRange{first: first, last: last}
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), last)
	fd, err := testDialer("").connect(t.Context(), from, to, timeout, func(local netip.AddrPort, _ uint32) error {
		if local.Port() != last {
			t.Errorf("source port: got %d, want %d", local.Port(), last)
		}
		return nil
	})
	if fd >= 0 {
		unix.Close(fd)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("connect to an address where no server listens, from the same port: got %v, want %v", err, unix.ECONNREFUSED)
	}
}
