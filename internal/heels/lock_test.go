// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/pins"
)

// Two agents have the same ends to tell, for a moment when one succeeds the other, or when an agent is detached by somebody else. Each end is told once.
func TestTwoTellEachEndOnce(t *testing.T) {
	const ends = 20000
	l := newLab(t, confirmLab)
	var mu sync.Mutex
	reported := map[uint32]int{}
	for i := range uint32(ends) {
		if err := l.maps.HeelsEndedNow.Put(nil, kernel.Ended{Seq: i}); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for range 2 {
		notifier, err := newEndNotifier(l.Kernel)
		if err != nil {
			t.Fatal(err)
		}
		defer notifier.release()
		notifier.deliver = func(e *kernel.Ended) error {
			mu.Lock()
			defer mu.Unlock()
			reported[e.Seq]++
			return nil
		}
		wg.Go(func() {
			for isWaiting(l.maps.HeelsEndedNow) {
				if err := notifier.drain(l.maps.HeelsEndedNow, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	missed, again := 0, 0
	for i := range uint32(ends) {
		switch n := reported[i]; {
		case n == 0:
			missed++
		case n > 1:
			again++
		}
	}
	if missed+again > 0 {
		t.Errorf("of %d ends %d were told to nobody, %d more than once", ends, missed, again)
	}
}

// Who has the lock may wait for an agent to end: a start that fails does. What the agent does again and again waits for nobody.
func TestAnAgentEndsWhileAnotherHasTheLock(t *testing.T) {
	h := newRig(t, testServer1).servers[0]
	h.pin = filepath.Join(heelstest.BPFFS(t), "pins")
	var a *Agent
	heelstest.Within(t, h.NS, func() (err error) {
		a, err = Start(parse(t, "eth0", confirmText("80")), h.pin, testCgroup)
		return err
	})
	defer func() {
		if err := a.Detach(true); err != nil {
			t.Error(err)
		}
		a.Close()
	}()
	lock, err := pins.LockDir(h.pin)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.maps.HeelsEndedNow.Put(nil, kernel.Ended{Local: kernel.EndOf(netip.MustParseAddrPort(testServer1 + ":80")), Remote: kernel.EndOf(netip.MustParseAddrPort(testBalancer + ":1"))}); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"tell": func() error { return a.notifier.drain(a.maps.HeelsEndedNow, 0) },
		"keep": a.refresher.look,
	} {
		done := make(chan error)
		go func() { done <- do() }()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s waits for the lock", name)
		}
	}
	if !isWaiting(a.maps.HeelsEndedNow) {
		t.Error("an end was told while another had the lock")
	}
	a.notifier.close()
	a.notifier = nil
	a.refresher.close()
	a.refresher = nil
	lock.Close()
}

// Pins of a namespace where programs are in force are not another's to take: interfaces have the same numbers there. When they are gone they may be.
func TestPinsOfAnotherNamespace(t *testing.T) {
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	r.servers[0].listen(":80", answerAddress)
	server := r.servers[0].agent(serverText("rewritten", "80"))
	r.client.agent(clientText)
	other := r.plug("other", testServer2)
	other.pin = r.servers[0].pin
	begin := func() (*Agent, error) {
		var a *Agent
		err := heelstest.Enter(other.NS, func() (err error) {
			a, err = Start(parse(t, "eth0", serverText("rewritten", "80")), other.pin, testCgroup)
			return err
		})
		return a, err
	}
	var pin *pins.Error
	if a, err := begin(); !errors.As(err, &pin) || !strings.Contains(err.Error(), "another network namespace") || !strings.Contains(err.Error(), "--pin") {
		t.Errorf("error %v, want one about the other network namespace", err)
		if err == nil {
			a.Close()
		}
	}
	if n := other.attached(); n != 0 {
		t.Errorf("a refused agent has left %d programs", n)
	}
	// The first one's programs serve as before.
	echo(t, r.connect(), 1<<16)
	if n := server.count(t, "accepted"); n != 1 {
		t.Errorf("%d connections around the balancer, want 1: %v", n, dump(t, server))
	}
	r.servers[0].Unplug()
	next, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if n := other.attached(); n != 2 {
		t.Errorf("%d programs are in force in the new namespace, want 2", n)
	}
}

// Agents that begin at once, with pins that are not there yet, come one after the other.
func TestAgentsThatBeginAtOnce(t *testing.T) {
	r := newRig(t, testServer1)
	pin := filepath.Join(heelstest.BPFFS(t), "pins")
	var wg sync.WaitGroup
	agents := make([]*Agent, 3)
	errs := make([]error, len(agents))
	for i := range agents {
		wg.Go(func() {
			errs[i] = heelstest.Enter(r.client.NS, func() (err error) {
				agents[i], err = Start(parse(t, "eth0", clientText), pin, testCgroup)
				return err
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if n := r.client.attached(); n != 2 {
		t.Errorf("%d programs are in force, want 2", n)
	}
	if err := agents[0].Detach(true); err != nil {
		t.Error(err)
	}
	if n := r.client.attached(); n != 0 {
		t.Errorf("%d programs are left in force", n)
	}
	for _, a := range agents {
		a.Close()
	}
}

// What a reload writes is one agent's: nobody else may be in the middle of a start, and an agent that was succeeded has no say.
func TestAReloadTakesTheLock(t *testing.T) {
	r := newRig(t, testServer1)
	a := r.client.agent(clientText)
	other := parse(t, "eth0", strings.ReplaceAll(clientText, testVIP, "10.77.0.200"))
	other.Cgroup = testCgroup
	lock, err := pins.LockDir(r.client.pin)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- heelstest.Enter(r.client.NS, func() error { return a.Reload(other) })
	}()
	select {
	case err := <-done:
		t.Errorf("a reload is done while another has the lock: %v", err)
		done <- err
	case <-time.After(300 * time.Millisecond):
	}
	lock.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	next := r.client.agent(clientText)
	var pin *pins.Error
	err = heelstest.Enter(r.client.NS, func() error { return a.Reload(other) })
	if !errors.As(err, &pin) || !strings.Contains(err.Error(), "another agent was started") {
		t.Errorf("error %v, want one about the other agent", err)
	}
	if s, err := next.Status(); err != nil || len(s.VIPs) != 1 || s.VIPs[0].VIP.String() != testVIP+":80" {
		t.Errorf("VIPs %+v, %v; want those of the agent that is in force", s, err)
	}
}
