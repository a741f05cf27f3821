// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLookFindsWhatThereIsAndLeavesIt(t *testing.T) {
	t.Parallel()
	near, far := tcpPair(t)
	defer unix.Close(near)
	defer unix.Close(far)
	mustSee(t, near, Quiet)
	_, err := unix.Write(far, []byte("x"))
	must(t, err)
	mustSee(t, near, Readable)
	mustSee(t, near, Readable)
}

func TestLookFindsACleanEnd(t *testing.T) {
	t.Parallel()
	near, far := tcpPair(t)
	defer unix.Close(near)
	must(t, unix.Close(far))
	mustSee(t, near, Ended)
	mustSee(t, near, Ended)
}

func TestLookTakesTheErrorOfAConnection(t *testing.T) {
	t.Parallel()
	near, far := tcpPair(t)
	defer unix.Close(near)
	must(t, unix.SetsockoptLinger(far, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	must(t, unix.Close(far))
	mustSee(t, near, Failed)
	mustSee(t, near, Ended)
}

func TestConnectionThatWasResetIsOver(t *testing.T) {
	t.Parallel()
	near, far := tcpPair(t)
	defer unix.Close(near)
	_, err := unix.Write(far, []byte("x"))
	must(t, err)
	mustSee(t, near, Readable)
	must(t, unix.Shutdown(far, unix.SHUT_WR))
	if IsOver(near) {
		t.Error("a connection of which one direction has ended is over")
	}
	must(t, unix.SetsockoptLinger(far, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	must(t, unix.Close(far))
	for end := time.Now().Add(patience); !IsOver(near); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a connection that was reset is not over")
		}
	}
	mustSee(t, near, Readable)
}

// mustSee waits for what the network brings.
func mustSee(t *testing.T, fd int, want Sight) {
	t.Helper()
	got := Look(fd)
	for end := time.Now().Add(patience); got == Quiet && want != Quiet && time.Now().Before(end); got = Look(fd) {
		time.Sleep(time.Millisecond)
	}
	if got != want {
		t.Fatalf("look: got %d, want %d", got, want)
	}
}
