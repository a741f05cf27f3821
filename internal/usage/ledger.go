// SPDX-License-Identifier: Apache-2.0

// Package usage counts what was carried for each workload to each cluster: requests, and their bytes.
package usage

import (
	"maps"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/workload"
)

// Destination is what a workload's requests were for.
type Destination struct {
	Workload workload.ID
	// Cluster is empty for what came to no cluster, and for all clusters together that a workload got no entry for.
	Cluster string
}

// Traffic is what was carried.
type Traffic struct {
	// Requests that have begun on the fast path, or ended in user space, whatever their answer was.
	Requests uint64
	// RequestBytes are those that clients have sent, ResponseBytes those that they were sent: heads and bodies, and what follows in tunnels.
	RequestBytes, ResponseBytes uint64
	// SlowWork is how long the daemon has worked for them in user space, by the clock (shares.Ticket.Measure), ProgramTime how long programs in the kernel
	// have run for them, estimated from one run in 64 (bpf/lib/sample.h).
	SlowWork, ProgramTime time.Duration
}

// Since is what was carried behind before.
func (t Traffic) Since(before Traffic) Traffic {
	return Traffic{
		t.Requests - before.Requests, t.RequestBytes - before.RequestBytes, t.ResponseBytes - before.ResponseBytes,
		t.SlowWork - before.SlowWork, t.ProgramTime - before.ProgramTime,
	}
}

// Carried is what was carried to a destination, or some of it.
type Carried struct {
	To      Destination
	Traffic Traffic
}

// Snapshot is what was carried at a time, in any order. It may have several parts of a destination's traffic.
type Snapshot []Carried

// Sum is traffic by destination.
type Sum map[Destination]Traffic

// Sum adds the parts up.
func (s Snapshot) Sum() Sum {
	sum := make(Sum, len(s))
	for _, c := range s {
		sum[c.To] = sum[c.To].plus(c.Traffic)
	}
	return sum
}

// Add adds what was carried besides.
func (t *Traffic) Add(o Traffic) { *t = t.plus(o) }

func (t Traffic) plus(o Traffic) Traffic {
	return Traffic{
		t.Requests + o.Requests, t.RequestBytes + o.RequestBytes, t.ResponseBytes + o.ResponseBytes,
		t.SlowWork + o.SlowWork, t.ProgramTime + o.ProgramTime,
	}
}

// Ledger counts traffic by destination. Each is an entry of a table that the workloads share; the requests of one that gets no entry count for its workload
// alone. It is safe for concurrent use. A nil Ledger counts nothing.
type Ledger struct {
	entries *quota.Table[workload.ID]

	mu      sync.Mutex
	members map[workload.ID]*member
}

// member is a workload that is served.
type member struct {
	account workload.ID
	by      map[string]*Meter
	// full: it got no entry for a cluster once, and gets no more. With one later, what counts in common would become less.
	full bool
}

// NewLedger returns a Ledger with so many entries at most. The host is a member.
func NewLedger(size int) *Ledger {
	l := &Ledger{entries: quota.New[workload.ID](size, 1), members: map[workload.ID]*member{}}
	l.members[workload.Host] = newMember(workload.Host)
	return l
}

func newMember(account workload.ID) *member {
	return &member{account: account, by: map[string]*Meter{}}
}

// Join has a workload counted, with others of the same account.
func (l *Ledger) Join(id, account workload.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.members[id] != nil {
		return
	}
	l.members[id] = newMember(account)
	l.entries.Join(account)
	l.shareLocked()
}

// Leave forgets a workload, and counts it no more.
func (l *Ledger) Leave(id workload.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.members[id]
	if m == nil || id == workload.Host {
		return
	}
	delete(l.members, id)
	for cluster := range m.by {
		l.forgetLocked(m, cluster)
	}
	l.entries.Leave(m.account)
	l.shareLocked()
}

func (l *Ledger) shareLocked() { l.entries.SetShared(len(l.members) > 1) }

// forgetLocked takes an entry of a member, which the caller deletes.
func (l *Ledger) forgetLocked(m *member, cluster string) {
	m.by[cluster].gone.Store(true)
	if cluster != "" {
		l.entries.Return(m.account)
	}
}

// Add counts what was carried, if the workload is a member.
func (l *Ledger) Add(to Destination, t Traffic) {
	if t != (Traffic{}) {
		l.Meter(to).Add(t)
	}
}

// Meter counts what is carried to a destination, for as long as the workload is a member and Sweep does not find the cluster gone. It is nil, which counts
// nothing, where the workload is no member.
func (l *Ledger) Meter(to Destination) *Meter {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.members[to.Workload]
	if m == nil {
		return nil
	}
	return m.by[l.entryLocked(m, to.Cluster)]
}

// entryLocked is the cluster by which a workload's traffic to a cluster counts.
func (l *Ledger) entryLocked(m *member, cluster string) string {
	if m.by[cluster] != nil {
		return cluster
	}
	if cluster != "" && (m.full || !l.entries.Take(m.account)) {
		m.full = true
		cluster = ""
	}
	if m.by[cluster] == nil {
		m.by[cluster] = &Meter{}
	}
	return cluster
}

// With is all that was counted, and what is counted elsewhere until it is added. It copies, and leaves adding up to Snapshot.Sum: each request that counts waits
// meanwhile.
func (l *Ledger) With(elsewhere Snapshot) Snapshot {
	if l == nil {
		return elsewhere
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(Snapshot, 0, l.lengthLocked()+len(elsewhere))
	for _, c := range elsewhere {
		m := l.members[c.To.Workload]
		if m == nil || c.Traffic == (Traffic{}) {
			continue
		}
		c.To.Cluster = l.entryLocked(m, c.To.Cluster)
		all = append(all, c)
	}
	for id, m := range l.members {
		for cluster, meter := range m.by {
			if t := meter.read(); t != (Traffic{}) {
				all = append(all, Carried{Destination{id, cluster}, t})
			}
		}
	}
	return all
}

func (l *Ledger) lengthLocked() (n int) {
	for _, m := range l.members {
		n += len(m.by)
	}
	return n
}

// Sweep forgets what was carried to clusters that are not there any more.
func (l *Ledger) Sweep(stays func(Destination) bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, m := range l.members {
		maps.DeleteFunc(m.by, func(cluster string, _ *Meter) bool {
			if cluster == "" || stays(Destination{id, cluster}) {
				return false
			}
			l.forgetLocked(m, cluster)
			return true
		})
	}
}

// Usage is who has how many entries. A refused one counts in common.
func (l *Ledger) Usage() quota.Usage[workload.ID] { return l.entries.Usage() }
