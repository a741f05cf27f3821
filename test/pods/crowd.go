// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// CrowdSpec describes pods that stay.
type CrowdSpec struct {
	Service netip.AddrPort
	// Server is the first of Ports ports that a pod's server listens at.
	Server netip.AddrPort
	Ports  int
	// Count is how many pods there are. Each has a process.
	Count int
	// Each pod sends a request for each of Hosts in turn, Rounds times, over one connection.
	Hosts  []string
	Rounds int
	// Patience bounds how long a pod waits until it is served.
	Patience time.Duration
}

// Crowd is pods that stay.
type Crowd struct {
	spec CrowdSpec
	pods []resident
}

// resident is a pod that stays.
type resident struct {
	*pod
	// namespace is its descriptor.
	namespace int
	client    *client
}

// NewCrowd makes pods.
func NewCrowd(spec CrowdSpec) (*Crowd, error) {
	c := &Crowd{spec: spec}
	for i := range spec.Count {
		type result struct {
			resident
			err error
		}
		made := make(chan result, 1)
		onThread(func() {
			var r result
			r.resident, r.err = newResident(fmt.Sprintf("pod %d", i), spec)
			made <- r
		})
		r := <-made
		if r.err != nil {
			return nil, errors.Join(r.err, c.Close())
		}
		c.pods = append(c.pods, r.resident)
	}
	return c, nil
}

// newResident makes a pod of the thread's.
func newResident(identity string, spec CrowdSpec) (r resident, err error) {
	if err = enter(); err != nil {
		return r, err
	}
	if r.pod, err = newPod(identity, spec.Server, spec.Ports, true); err != nil {
		return r, err
	}
	r.namespace, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	return r, err
}

// Ask has each pod ask over a connection, which stays open.
func (c *Crowd) Ask() error {
	const atOnce = 8
	room := make(chan struct{}, atOnce)
	errs := make([]error, len(c.pods))
	var asking sync.WaitGroup
	for i := range c.pods {
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			errs[i] = c.pods[i].ask(&c.spec)
		})
	}
	asking.Wait()
	return errors.Join(errs...)
}

func (r *resident) ask(spec *CrowdSpec) error {
	begun := make(chan error, 1)
	onThread(func() { begun <- r.connect(spec) })
	if err := <-begun; err != nil {
		return fmt.Errorf("%s: %w", r.identity, err)
	}
	for range spec.Rounds {
		for _, host := range spec.Hosts {
			if err := r.client.ask(host, r.identity); err != nil {
				return fmt.Errorf("%s: %s: %w", r.identity, host, err)
			}
		}
	}
	return nil
}

// connect moves the thread to the pod's namespace.
func (r *resident) connect(spec *CrowdSpec) error {
	if err := unix.Setns(r.namespace, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network namespace: %w", err)
	}
	conn, _, err := connect(spec.Service, spec.Patience)
	if err == nil {
		r.client = newClient(conn)
	}
	return err
}

// HangUp closes the pods' connections.
func (c *Crowd) HangUp() {
	for i := range c.pods {
		if r := &c.pods[i]; r.client != nil {
			r.client.conn.Close()
			r.client = nil
		}
	}
}

// Close ends the pods.
func (c *Crowd) Close() error {
	c.HangUp()
	var errs []error
	for _, r := range c.pods {
		errs = append(errs, r.close(), unix.Close(r.namespace))
	}
	return errors.Join(errs...)
}
