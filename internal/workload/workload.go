// SPDX-License-Identifier: Apache-2.0

package workload

import "github.com/xlb-project/xlb/internal/netns"

// ID numbers a workload. While the daemon runs none is given twice.
type ID uint32

// Host is the daemon's own network namespace.
const Host ID = 0

// Workload is a network namespace whose processes are balanced. It is safe for concurrent use.
type Workload struct {
	ID ID
	// Netns is the cookie of the network namespace (SO_NETNS_COOKIE).
	Netns uint64
	// namespace is nil for the daemon's own.
	namespace *netns.Namespace
}

// Own is the daemon's own network namespace, with that cookie.
func Own(cookie uint64) *Workload { return &Workload{ID: Host, Netns: cookie} }

// Within runs do on a thread that is in the workload's network namespace. What do opens stays there. It must not wait: the thread serves nothing else.
func (w *Workload) Within(do func() error) error {
	if w.namespace == nil {
		return do()
	}
	return w.namespace.Within(do)
}
