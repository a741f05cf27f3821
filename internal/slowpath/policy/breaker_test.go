// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

// A copy does not wait where no request may be asked.
func TestNothingWaitsWhereThereAreNoPools(t *testing.T) {
	g := NewCircuitBreakers(func(string) Load { return nil }).of("c", model.PriorityDefault)
	if leave, err := g.enter(t.Context(), &model.Breakers{MaxConnections: 1, MaxPending: 9, MaxRequests: 9, NoPools: true}); !errors.Is(err, ErrOverflow) {
		t.Errorf("entered %t: %v", leave != nil, err)
	}
}

func TestRetryBudgetFollowsTheLoad(t *testing.T) {
	b := model.Breakers{MaxRetries: 7, Budget: &model.RetryBudget{Percent: 20, Min: 3}}
	for requests, want := range map[uint64]uint64{0: 3, 15: 3, 20: 4, 1000: 200} {
		if got := b.RetriesAt(requests); got != want {
			t.Errorf("with %d requests: got %d, want %d", requests, got, want)
		}
	}
	if b.Budget = nil; b.RetriesAt(1000) != 7 {
		t.Errorf("without a budget: got %d, want 7", b.RetriesAt(1000))
	}
}
