// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"fmt"
	"sync"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
)

// accountsAsked records the accounts and clusters whose loads circuit breakers look up.
type accountsAsked struct {
	mu sync.Mutex // guards by
	by map[workload.ID]map[string]bool
}

// Of implements Loads.
func (a *accountsAsked) Of(cluster model.ClusterKey, account workload.ID) Load {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by[account] == nil {
		a.by[account] = map[string]bool{}
	}
	a.by[account][cluster.Name] = true
	return nil
}

// Fullest implements Loads.
func (a *accountsAsked) Fullest() func(model.ClusterKey) uint32 {
	return func(model.ClusterKey) uint32 { return 0 }
}

func (a *accountsAsked) of(account workload.ID) (clusters, accounts int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.by[account]), len(a.by)
}

// Circuit breakers count a request for the account of the client that began, not for that of its network namespace, or the host: at each listener of this process
// that it passes, and each of its copies.
func TestCircuitBreakersCountForTheAccountThatBegan(t *testing.T) {
	h := newInnerListeners(t, map[byte]*model.Route{1: leads(2, 3), 2: leads(4), 3: leads(5), 4: leads(6), 5: answers(), 6: answers()})
	asked := &accountsAsked{by: map[workload.ID]map[string]bool{}}
	h.proxy.breakers = policy.NewCircuitBreakers(asked)
	for i, account := range []workload.ID{70, 80} {
		h.askFrom(t, 1, Session{Workload: ofClient, Account: account}, get+lastGet)
		await.Quiet(t, func() string {
			if clusters, accounts := asked.of(account); clusters != 5 || accounts != i+1 {
				return fmt.Sprintf("circuit breakers of %d clusters count for account %d, and for %d accounts altogether; want 5 and %d", clusters, account, accounts, i+1)
			}
			return ""
		})
	}
}
