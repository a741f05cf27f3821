// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// filtersOf says which filters may answer, or hold up, requests of a route before it acts. Those of a share stand in
// place of the route's.
func filtersOf(r *model.Route) []string {
	list := filterTexts(&r.Filters, "")
	for i := range r.Clusters {
		if c := &r.Clusters[i]; c.Filters != nil {
			list = append(list, filterTexts(c.Filters, " of share "+c.Name+c.Header)...)
		}
	}
	return list
}

func filterTexts(f *model.RouteFilters, of string) []string {
	var list []string
	if f.CORS != nil {
		list = append(list, "cors"+of)
	}
	if fault := f.Fault; fault != nil {
		if fault.Delay > 0 {
			list = append(list, fmt.Sprintf("fault%s: delay %s, %s", of, fault.Delay, shareText(fault.DelayShare)))
		}
		if fault.Status != 0 {
			list = append(list, fmt.Sprintf("fault%s: abort %d, %s", of, fault.Status, shareText(fault.AbortShare)))
		}
	}
	if s := f.Session; s != nil {
		text := "stateful_session" + of + ": cookie " + s.Cookie
		if s.Header != "" {
			text = "stateful_session" + of + ": header " + s.Header
		}
		if s.Strict {
			text += ", strict"
		}
		list = append(list, text)
	}
	return list
}

func shareText(f matcher.Fraction) string {
	if f.Always() {
		return "all requests"
	}
	return f.Text()
}
