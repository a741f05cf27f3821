// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"net/http"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// refusal is the status of a request that is answered before any route is looked at, and why.
type refusal struct {
	status int
	why    string
}

func (r *refusal) action() *Action { return &Action{Kind: Refused, Status: r.status, Because: r.why} }

func badRequest(format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

var statuses = map[head.Kind]int{
	head.Malformed: http.StatusBadRequest, head.TooLarge: http.StatusRequestHeaderFieldsTooLarge, head.NotImplemented: http.StatusNotImplemented,
}

// refused says which rule of the slow path a request breaks, in the order in which the slow path looks; nil: none.
func (r *request) refused(t *model.RouteTable) *refusal {
	h, broken := head.Parse(r.head(), limits.Downstream.HeadFields)
	if broken != nil {
		return &refusal{statuses[broken.Kind], broken.Why}
	}
	if name, found := head.Underscored(h.Fields); found && t.Underscores == rewrite.RefuseUnderscores {
		return badRequest("header %s: has a \"_\" in its name (headers_with_underscores_action)", name)
	}
	return nil
}

// refusedByRoute says why a route that wins does not serve a request that keeps the rules of heads; nil: it does.
func (r *request) refusedByRoute(route *model.Route) *refusal {
	h, _ := head.Parse(r.head(), limits.Downstream.HeadFields)
	switch {
	case h.Upgrade && !route.Allows(h.Protocol):
		return &refusal{http.StatusForbidden, fmt.Sprintf("upgrade to %q: the route's upgrade_configs do not allow it", h.Protocol)}
	case h.Connect() && !route.Allows(model.UpgradeConnect):
		return &refusal{http.StatusForbidden, "CONNECT: the route's upgrade_configs do not allow it"}
	}
	return nil
}
