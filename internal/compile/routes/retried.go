// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// maxRetries is how many different sets of statuses the retry policies of one configuration may have, in all tables. The map holds twice
// as many.
const maxRetries = 1023

// retryOf returns where the statuses lie for which a policy may want a request again, plus 1, or says why the kernel cannot look for them.
func (b *tableBuilder) retryOf(p *model.Retry) (number uint32, reason string) {
	if p == nil || !p.NeedsCopy() {
		return 0, ""
	}
	r := retriedBy(p)
	if number = b.retries[r]; number != 0 {
		return number, ""
	}
	if !b.space.takeRetry(r) {
		return 0, fmt.Sprintf("more than %d different sets of statuses that are retried", maxRetries)
	}
	b.table.Retries = append(b.table.Retries, r)
	number = uint32(len(b.table.Retries))
	b.retries[r] = number
	return number, ""
}

// retriedBy is model.Retry.RetriesResponse for the kernel: for every status at once.
func retriedBy(p *model.Retry) tables.Retry {
	r := tables.Retry{Limited: p.On&model.RetryOnRateLimited != 0}
	if p.On&model.RetryOn5xx != 0 {
		addStatuses(&r, 500, 599)
	}
	if p.On&model.RetryOnGatewayError != 0 {
		addStatuses(&r, 502, 504)
	}
	if p.On&model.RetryOnRetriable4xx != 0 {
		addStatuses(&r, 409, 409)
	}
	if p.On&model.RetryOnStatusCodes != 0 {
		for _, status := range p.StatusCodes {
			addStatuses(&r, status, status)
		}
	}
	return r
}

// addStatuses leaves out what the kernel has no bit for: there the daemon decides.
func addStatuses(r *tables.Retry, first, last int) {
	for status := max(first, int(maps.FirstStatus)); status <= last; status++ {
		if at := uint32(status) - maps.FirstStatus; at < maps.StatusWords*64 {
			r.Statuses[at/64] |= 1 << (at % 64)
		}
	}
}
