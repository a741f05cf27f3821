// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/netns"
)

// ID numbers a workload. The daemon gives each number once.
type ID uint32

// Host is the daemon's own network namespace.
const Host ID = 0

// Workload is a network namespace whose processes are balanced. It is safe for concurrent use.
type Workload struct {
	ID ID
	// Netns is the cookie of the network namespace (SO_NETNS_COOKIE).
	Netns uint64
	// inode and witness, a process or thread that is in the namespace, are how the Set finds out whether it has a process still. witness is 0 where that has
	// ended, and no other has been found. The Set alone uses them, and what follows up to mu; it changes witness and isReleased with Set.mu held.
	inode   netns.Inode
	witness int
	// advance is until when it is served without a process, as long as it has a name.
	advance time.Time
	// isReleased: its new connections are not balanced, since releasedAt.
	isReleased bool
	releasedAt time.Time

	// mu guards what follows. It is held for reading while a thread is in the namespace: the descriptor of a closed one may be that of another.
	mu sync.RWMutex
	// namespace is nil for the daemon's own. left: it has been closed.
	namespace *netns.Namespace
	left      bool
}

// errLeft is what Within returns once a workload has left.
var errLeft = errors.New("the network namespace has no process left that is balanced")

// Own is the daemon's own network namespace, with that cookie.
func Own(cookie uint64) *Workload { return &Workload{ID: Host, Netns: cookie} }

// New is a network namespace with that cookie. The namespace stays open as long as code may run within.
func New(id ID, cookie uint64, namespace *netns.Namespace) *Workload {
	return &Workload{ID: id, Netns: cookie, namespace: namespace}
}

// Within runs do on a thread that is in the workload's network namespace. What do opens stays there. It must not wait: the thread serves nothing else,
// and the workload cannot leave meanwhile. After it has left, Within fails and does not run it.
func (w *Workload) Within(do func() error) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	switch {
	case w.left:
		return errLeft
	case w.namespace == nil:
		return do()
	}
	return w.namespace.Within(do)
}

// close gives the namespace up.
func (w *Workload) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
	w.namespace.Close()
}
