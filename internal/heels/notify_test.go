// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/kernel"
)

// An end that comes while the interface is away is told when it is there again: the balancer would hold the connection for days.
func TestAnEndIsToldWhenTheInterfaceIsBack(t *testing.T) {
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	h := r.servers[0]
	server := h.agent(confirmText("80"))
	before := r.settled()
	h.Unplug()
	at := func(s string) kernel.End { return kernel.EndOf(netip.MustParseAddrPort(s)) }
	if err := server.maps.HeelsEndedNow.Put(nil, kernel.Ended{Local: at(testServer1 + ":80"), Remote: at(testBalancer + ":1"), Seq: 1, At: kernel.Monotonic()}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * notifyEvery)
	r.wire.Connect(h.Host, testServer1)
	eventually(t, "the balancer is told", func() bool { return r.in.Load() == before+1 })
	if isWaiting(server.maps.HeelsEndedNow) {
		t.Error("the end is still to be told")
	}
}

// One that can never be sent does not keep others waiting for ever.
func TestAnEndThatCannotBeToldIsGivenUp(t *testing.T) {
	l := newLab(t, confirmLab)
	notifier, err := newEndNotifier(l.Kernel)
	if err != nil {
		t.Fatal(err)
	}
	defer notifier.release()
	reported := 0
	notifier.deliver = func(e *kernel.Ended) error {
		if e.Seq == 1 {
			return unix.ENETUNREACH
		}
		reported++
		return nil
	}
	queue := l.maps.HeelsEndedNow
	for i, at := range []uint64{kernel.Monotonic() - uint64(notifyTries), kernel.Monotonic()} {
		if err := queue.Put(nil, kernel.Ended{Seq: uint32(i) + 1, At: at}); err != nil {
			t.Fatal(err)
		}
	}
	if err := notifier.drain(queue, 0); err != nil || reported != 1 || isWaiting(queue) {
		t.Errorf("%d ends were told, %v; want the second", reported, err)
	}
	if err := queue.Put(nil, kernel.Ended{Seq: 1, At: kernel.Monotonic()}); err != nil {
		t.Fatal(err)
	}
	if err := notifier.drain(queue, 0); err != nil || !isWaiting(queue) {
		t.Errorf("an end was given up at once, %v", err)
	}
}
