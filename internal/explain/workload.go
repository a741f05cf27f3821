// SPDX-License-Identifier: Apache-2.0

package explain

// Workload is the network namespace of the client.
type Workload struct {
	// Netns is the inode number of its file.
	Netns uint64 `json:"netns"`
	// ID is the daemon's number of it, and Name by what people know it; null and "" where the daemon does not know it.
	ID   *uint32 `json:"id,omitempty"`
	Name string  `json:"name,omitempty"`
	// State is that of "xlb get workloads", or WorkloadUnknown, Why what it gives as a reason.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Balanced: new connections of its processes are.
	Balanced bool `json:"balanced"`
	// View is the name of its view; empty: it has the shared one, or the daemon does not know it.
	View string `json:"view,omitempty"`
}

// WorkloadUnknown is the State of a network namespace that the daemon does not serve, or not yet.
const WorkloadUnknown = "unknown"

// unbalancedNote qualifies an account: it is not about the next connection of the client.
const unbalancedNote = "new connections of the client are not balanced: their requests go where the address leads, and this account is that of a connection that is balanced"

// IsUnbalanced reports whether the query names a client whose new connections are not balanced.
func (a *Answer) IsUnbalanced() bool { return a.Workload != nil && !a.Workload.Balanced }

// client is who sends the request; nil: the query leaves it open.
func (s *State) client(q *Query) (*Workload, error) {
	if q.Netns == 0 {
		return nil, nil
	}
	if s.Workload == nil {
		return nil, queryError("netns %d: a configuration that no daemon serves has no workloads; ask a daemon, or leave the namespace out", q.Netns)
	}
	if known := s.Workload(q.Netns); known != nil {
		return known, nil
	}
	return &Workload{Netns: q.Netns, State: WorkloadUnknown}, nil
}

// viewNote qualifies an account of a client that the daemon does not know, where it knows several views.
const viewNote = "the client's view is not known: this account is that of the shared one; name another with --view"

// addClient says who sends the request.
func (a *Answer) addClient(s *State, q *Query, client *Workload) {
	a.Workload = client
	if a.IsUnbalanced() {
		a.Notes = append(a.Notes, unbalancedNote)
	}
	if client != nil && client.State == WorkloadUnknown && q.View == "" && len(s.Views) > 0 {
		a.Notes = append(a.Notes, viewNote)
	}
}
