// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"

	"github.com/xlb-project/xlb/internal/model"
)

// filter passes a request through what stands before the router. done: it has been answered.
func (x *exchange) filter(ctx context.Context) (done, keep bool, err error) {
	if x.Table == nil {
		return false, false, nil
	}
	for _, f := range x.Table.Filters {
		switch f {
		case model.FilterCORS:
			if answer, ok := x.preflight(); ok {
				keep, err = x.respond(answer, FlagNone)
				return true, keep, err
			}
		case model.FilterFault:
			if done, keep, err = x.injectFault(ctx); done {
				return true, keep, err
			}
		case model.FilterSession:
			x.beginSession()
		}
	}
	return false, false, nil
}

// filters are those of the request's cluster, or of its route, or for requests that have none.
func (x *exchange) filters() model.RouteFilters {
	switch {
	case x.Route == nil:
		return model.RouteFilters{Fault: x.Table.Fault}
	case x.Share != nil && x.Share.Filters != nil:
		return *x.Share.Filters
	}
	return x.Route.Filters
}
