// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/netns"
	"github.com/xlb-project/xlb/internal/pod"
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
	// ended, and no other has been found. The Set alone uses them, and what follows up to mu; it changes witness, isReleased and why with Set.mu held.
	inode   netns.Inode
	witness int
	// isReported: witness is the thread that the kernel has reported. It may be of another container, as an agent that has entered the namespace.
	isReported bool
	// advance is until when it is served without a process, as long as it has a name.
	advance time.Time
	// account is that of its maker, Host for its own. It does not change while the workload is served.
	account ID
	// hadProcess: a process of it has been known.
	hadProcess bool
	// isReleased: its new connections are not balanced, since releasedAt: an operator has said so, or labels do. Then why says which; empty: an operator.
	isReleased bool
	releasedAt time.Time
	why        string
	// isCommanded: an operator has released it, or had it join. Labels do not count any more.
	isCommanded bool
	// isJoined: a line of the log has said that it is served, with the name that it had then.
	isJoined bool
	// maker is whose entry it has; empty: it has none (any more).
	maker string
	// pod is what a container runtime has reported; nil: nothing.
	pod *pod.Pod

	// facts are those that its view was chosen by, or as good as those. isViewWarned: a line of the log has said that it would have another one by now.
	facts        Facts
	isViewWarned bool

	// view is that of its new connections.
	view atomic.Uint32
	// identity is what is known of its pod or container; nil: nothing.
	identity atomic.Pointer[pod.Identity]

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

// Account is the number by which all that its maker has is counted: that of the first network namespace of the same pod or container that is served or left alone.
func (w *Workload) Account() ID {
	if w.account == Host {
		return w.ID
	}
	return w.account
}

// CountIn sets its account, before it is served.
func (w *Workload) CountIn(account ID) { w.account = account }

// Identity is what is known of its pod or container.
func (w *Workload) Identity() pod.Identity {
	if i := w.identity.Load(); i != nil {
		return *i
	}
	return pod.Identity{}
}

// isIdentified reports whether a pod or container is known.
func (w *Workload) isIdentified() bool {
	i := w.Identity()
	return i.Container != "" || i.UID != ""
}

// Logger is a log whose lines name the workload: by its number, and by its pod or container where that is known.
func (w *Workload) Logger(log *slog.Logger) *slog.Logger {
	log = log.With("workload", w.ID)
	if name := w.Identity().String(); name != "" {
		log = log.With("pod", name)
	}
	return log
}

// close gives the namespace up.
func (w *Workload) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
	w.namespace.Close()
}
