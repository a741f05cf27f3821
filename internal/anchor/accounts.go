// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/workload"
)

// accounts are the accounts by which the kernel programs count connections, and bound them: those of one maker's network namespaces together.
type accounts struct {
	cfg *Config

	mu sync.Mutex
	// workloads counts those of each account. Guarded by mu, as what follows.
	workloads map[workload.ID]int
	// outlived are those without a workload in which connections count still. Without an entry their ends would be taken from one that is made anew.
	outlived map[workload.ID]bool
	// others counts those that are not the host.
	others int
	// refused is what the accounts had refused that are no more.
	refused uint64
}

func newAccounts(cfg *Config) accounts {
	return accounts{cfg: cfg, workloads: map[workload.ID]int{}, outlived: map[workload.ID]bool{}}
}

// open has a workload counted that is about to be announced. Where it fails nothing has changed.
func (a *accounts) open(w *workload.Workload) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.deleteUnused(); err != nil {
		return err
	}
	if a.workloads[w.Account()] == 0 && !a.outlived[w.Account()] {
		if err := a.cfg.Sockets.Accounts.Put(uint32(w.Account()), maps.Account{}); err != nil {
			return err
		}
	}
	delete(a.outlived, w.Account())
	a.workloads[w.Account()]++
	if w.ID != workload.Host {
		a.others++
	}
	a.bound()
	return nil
}

// close takes back what open has done. An account stays while connections count in it: sockets whose other end the daemon has closed, that a process elsewhere
// may hold.
func (a *accounts) close(w *workload.Workload) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.ID != workload.Host {
		a.others--
	}
	a.bound()
	if a.workloads[w.Account()]--; a.workloads[w.Account()] > 0 {
		return nil
	}
	delete(a.workloads, w.Account())
	a.outlived[w.Account()] = true
	return a.deleteUnused()
}

// deleteUnused deletes those that sockets have outlived, and have no connection any more. The caller holds mu.
func (a *accounts) deleteUnused() error {
	for number := range a.outlived {
		last, ok, err := a.cfg.Sockets.Accounts.Lookup(uint32(number))
		if err != nil || ok && int32(last.Connections) > 0 {
			continue
		}
		delete(a.outlived, number)
		a.refused += last.Refused
		if err := a.cfg.Sockets.Accounts.Delete(uint32(number)); err != nil {
			return err
		}
	}
	return nil
}

// bound has the kernel programs bound connections while workloads other than the host are served. The caller holds mu.
func (a *accounts) bound() {
	most := a.cfg.MostConnections
	if a.others == 0 {
		most = 0
	}
	atomic.StoreUint32(&a.cfg.Shared.Control.MaxConnections, most)
}

// ConnectionUsage is how many intercepted connections there are, and how many were not intercepted because there were as many as may be.
func (s *Set) ConnectionUsage() quota.Usage[workload.ID] {
	a := &s.accounts
	a.mu.Lock()
	defer a.mu.Unlock()
	u := quota.Usage[workload.ID]{
		Size: int(a.cfg.MostConnections), Taken: int(atomic.LoadUint32(&a.cfg.Shared.Control.Connections)), Refused: a.refused, By: map[workload.ID]quota.Use{},
	}
	for number := range a.outlived {
		if is, ok, err := a.cfg.Sockets.Accounts.Lookup(uint32(number)); err == nil && ok {
			u.Refused += is.Refused
		}
	}
	for number := range a.workloads {
		if is, ok, err := a.cfg.Sockets.Accounts.Lookup(uint32(number)); err == nil && ok {
			u.By[number] = quota.Use{Taken: int(is.Connections), Refused: is.Refused}
			u.Refused += is.Refused
		}
	}
	return u
}

// ProgramTime is how long programs have run for sends of each account's clients that are no part of a request on the fast path, estimated from one run in 64.
func (s *Set) ProgramTime() map[workload.ID]time.Duration {
	a := &s.accounts
	a.mu.Lock()
	defer a.mu.Unlock()
	ran := make(map[workload.ID]time.Duration, len(a.workloads))
	for number := range a.workloads {
		if is, ok, err := a.cfg.Sockets.Accounts.Lookup(uint32(number)); err == nil && ok && is.ProgramNs > 0 {
			ran[number] = time.Duration(is.ProgramNs)
		}
	}
	return ran
}

// HasAccount reports whether connections count in an account, or may: that of workloads, or of sockets that are open behind them.
func (s *Set) HasAccount(number workload.ID) bool {
	a := &s.accounts
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.workloads[number] > 0 {
		return true
	}
	is, ok, err := a.cfg.Sockets.Accounts.Lookup(uint32(number))
	return a.outlived[number] && (err != nil || ok && int32(is.Connections) > 0)
}
