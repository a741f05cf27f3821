// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// endWithin bounds how long processes that were killed may take to end: where one waits in the kernel, as for a disk that does not answer, that is for ever.
const endWithin = 10 * time.Second

// Confinement is a user and a cgroup that processes run in. The user has no privileges, and no other process of the host. It is safe for concurrent use.
type Confinement struct {
	user   uint32
	limits Limits
	groups groups
	memory account

	mu     sync.Mutex
	starts uint64 // guarded by mu
	closed bool   // guarded by mu
}

// Confine makes a Confinement, and removes what daemons that were killed have left of theirs. name is that of its cgroup in the root of the hierarchy, in
// which no other one may have it: see Name. The error says what is missing on the host, and the remedy.
func Confine(name string, l Limits) (*Confinement, error) {
	if !isOneName(name) {
		return nil, fmt.Errorf("%q cannot be the name of a cgroup", name)
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	h, err := mountedHierarchies()
	if err != nil {
		return nil, err
	}
	user, err := unusedUser(procfs)
	if err != nil {
		return nil, err
	}
	removeStale(h)
	c := &Confinement{user: user, limits: l, groups: groups{unified: h.unified.below(name)}}
	if err := c.groups.create(); err != nil {
		return nil, err
	}
	if err := c.bound(h, name); err != nil {
		return nil, errors.Join(err, c.groups.remove(time.Time{}))
	}
	return c, nil
}

// User is the number of the user that processes run as, and of its group.
func (c *Confinement) User() uint32 { return c.user }

// Cgroup is the directory of its cgroup of version 2.
func (c *Confinement) Cgroup() string { return string(c.groups.unified) }

// Memory is what all its processes have now, and may have, in bytes. used is 0 where the kernel does not count it, and limit where there is no bound.
func (c *Confinement) Memory() (used, limit uint64) { return c.memory.used(), c.limits.Memory }

// errClosed is that of a start that came too late.
var errClosed = errors.New("the confinement has been closed")

// Close kills what is in it, and removes it: nothing can be started in it afterwards. It waits for the end of the processes, at most ten seconds, but not for
// their output. It may be called again, as after an error.
func (c *Confinement) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	until := time.Now().Add(endWithin)
	err := c.groups.unified.kill()
	if err == nil {
		err = c.groups.unified.awaitEmpty(until)
	}
	return errors.Join(err, c.groups.remove(until))
}

// Start starts a program in the confinement. It returns when the program has been executed.
func (c *Confinement) Start(cmd Command) (*Process, error) {
	program, err := openProgram(cmd.Path)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, errClosed)
	}
	c.starts++
	name := strconv.FormatUint(c.starts, 10)
	p := newProcess(c.groups.below(name), c.memory.below(name), c.limits.Memory)
	if err := p.start(program, cmd, c.user); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// isOneName reports what can be the name of one directory.
func isOneName(name string) bool {
	return filepath.IsLocal(name) && name != "." && !strings.Contains(name, "/")
}
