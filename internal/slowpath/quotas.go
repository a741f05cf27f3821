// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"errors"
	"math"
	"sync"

	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/workload"
)

// errOverQuota ends a connection without HTTP whose workload has as many requests and such connections in progress as it may.
var errOverQuota = errors.New("the client's network namespace has as many requests and connections in progress as it may; others end first, or the daemon gets more descriptors (LimitNOFILE)")

// quotas divide what workloads share of the proxy. While others than the host are served, one may have as many entries of a table as are left free.
type quotas struct {
	// requests in progress, and connections without HTTP; idle connections to endpoints; copies of requests under way; blocks of memory.
	requests, idle, copies, memory *quota.Table[workload.ID]

	mu sync.Mutex
	// served are the workloads other than the host, with their accounts. Guarded by mu.
	served map[workload.ID]workload.ID
}

func newQuotas(c *Config) *quotas {
	unbounded := func() *quota.Table[workload.ID] { return quota.New[workload.ID](math.MaxInt, 1) }
	return &quotas{
		requests: cmp.Or(c.Requests, unbounded()), idle: cmp.Or(c.Idle, unbounded()), copies: quota.New[workload.ID](maxMirrors, 1),
		memory: cmp.Or(c.Memory, unbounded()),
		served: map[workload.ID]workload.ID{},
	}
}

// all are the tables.
func (q *quotas) all() []*quota.Table[workload.ID] {
	return []*quota.Table[workload.ID]{q.requests, q.idle, q.copies, q.memory}
}

// join has the tables shared from now on, if the workload is not the host.
func (q *quotas) join(id, account workload.ID) {
	if id == workload.Host {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.served[id]; ok {
		return
	}
	q.served[id] = account
	for _, t := range q.all() {
		t.Join(account)
	}
	q.shareLocked()
}

// leave is the counterpart of join. Requests of the workload that are in progress count until they end.
func (q *quotas) leave(id workload.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	account, ok := q.served[id]
	delete(q.served, id)
	q.shareLocked()
	if !ok {
		return
	}
	for _, t := range q.all() {
		t.Leave(account)
	}
}

func (q *quotas) shareLocked() {
	for _, t := range q.all() {
		t.SetShared(len(q.served) > 0)
	}
}

// quotaEntry is one that a workload has of a table. The zero one holds nothing.
type quotaEntry struct {
	table *quota.Table[workload.ID]
	of    workload.ID
}

// enter takes an entry. It reports false where the workload has as many as it may.
func enter(t *quota.Table[workload.ID], of workload.ID) (quotaEntry, bool) {
	if !t.Take(of) {
		return quotaEntry{}, false
	}
	return quotaEntry{t, of}, true
}

// giveBack is called once for each entry.
func (e quotaEntry) giveBack() {
	if e.table != nil {
		e.table.Return(e.of)
	}
}

// enter takes an entry for a request, or a connection without HTTP, of a session. What comes from another listener of this process is counted there.
func (q *quotas) enter(s *Session) (quotaEntry, bool) {
	if s.origin().Depth > 0 {
		return quotaEntry{}, true
	}
	return enter(q.requests, s.account())
}

// RequestUsage is who has how many of the requests in progress, and connections without HTTP. Those that the fast path has sent count when the proxy sends them
// anew.
func (p *Proxy) RequestUsage() quota.Usage[workload.ID] { return p.quotas.requests.Usage() }

// IdleUsage is who has how many of the idle connections to endpoints. A refused one has closed another one of its workload.
func (p *Proxy) IdleUsage() quota.Usage[workload.ID] { return p.quotas.idle.Usage() }

// CopyUsage is who has how many of the copies of requests that are under way. A refused one was not made.
func (p *Proxy) CopyUsage() quota.Usage[workload.ID] { return p.quotas.copies.Usage() }

// MemoryUsage is who has how many blocks of memory, of h1.BlockSize bytes. For a refused one a request was answered 503, or its body not kept.
func (p *Proxy) MemoryUsage() quota.Usage[workload.ID] { return p.quotas.memory.Usage() }
