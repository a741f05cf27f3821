// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// OvertakeSpec describes rounds in which a client is held up between the program that has seen the last bytes of its request, and the
// kernel's moving them. The endpoint has answered before; another client asks meanwhile.
type OvertakeSpec struct {
	Clients ClientSpec
	Rounds  int
	// PID is the process whose connections of the port are locked: the server, if it is on this host, or else the daemon.
	PID  int
	Port uint16
}

// Overtake plays the rounds. Counts have how often a request was Held: where no program moves bytes, it never is.
func (c *Clients) Overtake(spec OvertakeSpec) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("it takes two processors, there are %d", runtime.NumCPU())
	}
	if err := stayOn(1); err != nil {
		return err
	}
	for range spec.Rounds {
		if err := c.excuse(c.overtakeOnce(spec)); err != nil {
			return err
		}
	}
	return nil
}

// Held counts sends that waited in the kernel for the lock of the socket that they were redirected to.
const Held = "held"

// overtakenBody is more than the first line of a head: eaten up by a body, it is missed.
const overtakenBody = 60

func stayOn(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

func (c *Clients) overtakeOnce(spec OvertakeSpec) error {
	slow, err := c.newcomer(overtakenBody)
	if err != nil {
		return err
	}
	defer slow.close()
	quick, err := c.newcomer(-1)
	if err != nil {
		return err
	}
	defer quick.close()
	// Its connection is well known, and nothing of it is under way.
	quick.exchange()
	quick.begin()
	slow.count(Exchanges)
	request, body := slow.request()
	if err := slow.sendAll(request[:body], 0); err != nil {
		return err
	}
	if !slow.receive() {
		return nil
	}
	g, err := takeGrip(spec.PID, spec.Port)
	if err != nil {
		return err
	}
	sent := slow.sendLast(request[body:])
	asked, _ := quick.request()
	quick.count(Exchanges)
	released := g.release()
	if err := quick.sendAll(asked, 0); err != nil {
		quick.count("not sent: " + err.Error())
	}
	if err := g.drop(); err != nil || released != nil {
		return fmt.Errorf("let the sockets go: %w, %w", err, released)
	}
	quick.receive()
	if err := <-sent; err != nil {
		slow.count("not sent: " + err.Error())
	}
	return nil
}

// newcomer is a connection that is about to make a request with such a body.
func (c *Clients) newcomer(size int) (*conn, error) {
	n, err := c.dial()
	if err != nil {
		return nil, err
	}
	n.begin()
	n.order.Body = size
	return n, nil
}

// begin draws the next exchange.
func (c *conn) begin() {
	c.id.Request++
	c.random = rand.New(rand.NewPCG(c.id.key(c.spec.Seed, choices), 0))
	body := c.order.Body
	c.draw()
	c.order.Body = body
}

// sendLast sends from a thread that runs when nobody else wants to, beside one that always wants to, and returns when it waits in
// the kernel. Whoever else wants what it waits for gets it first.
func (c *conn) sendLast(b []byte) <-chan error {
	sent := make(chan error, 1)
	tid := make(chan int, 1)
	go func() {
		// Not unlocked: nobody else is to have this thread.
		runtime.LockOSThread()
		idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
		if err := stayOn(0); err != nil {
			c.count("not to be held: " + err.Error())
		}
		if err := unix.SchedSetAttr(0, &idle, 0); err != nil {
			c.count("not to be held: " + err.Error())
		}
		tid <- unix.Gettid()
		sent <- c.sendAll(b, 0)
	}()
	if awaitCall(<-tid, unix.SYS_SENDMSG, gripPatience) {
		c.count(Held)
	}
	busy := make(chan bool)
	go func() {
		runtime.LockOSThread()
		if err := stayOn(0); err != nil {
			c.count("not to be held: " + err.Error())
		}
		close(busy)
		for end := time.Now().Add(busyFor); time.Now().Before(end); {
			spun.Add(1)
		}
	}()
	<-busy
	return sent
}

// busyFor is how long the other thread keeps the processor.
const busyFor = 3 * time.Millisecond

var spun atomic.Uint64

// CutSpec describes rounds in which a client may not take more TCP memory: of a response the kernel moves what fits, and asks the program
// again about the rest. Meanwhile another client has the connection to the endpoint.
type CutSpec struct {
	Clients ClientSpec
	Rounds  int
	// Cgroup is the one whose sockets may not take more, PID the server.
	Cgroup string
	PID    int
}

// Undisturbed counts the right exchanges of those who share a connection to an endpoint with who is held.
const Undisturbed = "undisturbed"

// Cut plays the rounds. Counts have how often a response was Held, and how often the other client was Undisturbed.
func (c *Clients) Cut(spec CutSpec) error {
	// A socket belongs to the cgroup in which it was opened.
	var free []*conn
	for range spec.Rounds {
		n, err := c.newcomer(-1)
		if err != nil {
			return err
		}
		defer n.close()
		n.order.Reply, n.order.Act = 0, ActAnswers
		n.exchange()
		free = append(free, n)
	}
	if err := (&Confinement{Cgroups: []string{spec.Cgroup}}).enter(); err != nil {
		return err
	}
	for _, other := range free {
		if err := c.excuse(c.cutOnce(spec, other)); err != nil {
			return err
		}
	}
	return nil
}

// lockPatience is longer than a late server takes.
const lockPatience = 500 * time.Millisecond

func (c *Clients) cutOnce(spec CutSpec, other *conn) error {
	limited, err := c.newcomer(-1)
	if err != nil {
		return err
	}
	defer limited.close()
	limited.order.Act, limited.order.At = ActLate, 999
	limited.count(Exchanges)
	request, body := limited.request()
	if err := limited.send(request, body); err != nil {
		return err
	}
	g, err := takeGripOf(limited.fd)
	if err != nil {
		return err
	}
	if awaitLocked(spec.PID, lockPatience) {
		c.count(Held)
	}
	other.begin()
	other.order.Reply, other.order.Act = 0, ActAnswers
	other.count(Exchanges)
	request, body = other.request()
	sent := other.send(request, body)
	if err := g.drop(); err != nil {
		return fmt.Errorf("let the socket go: %w", err)
	}
	if sent != nil {
		other.count("not sent: " + sent.Error())
	}
	limited.receive()
	before := c.report().Counts[Right]
	other.receive()
	c.add(Undisturbed, c.report().Counts[Right]-before)
	return nil
}
