// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/xlb-project/xlb/internal/model"
)

// listenerFor returns the listener of a view that a query names, else the one at the URL's
// address, else the only one there is.
func listenerFor(cfg *model.Config, v model.View, q *Query, service netip.AddrPort) (*model.Listener, error) {
	list := cfg.ListenersOf(v)
	for _, l := range list {
		if q.Listener != "" && (l.Name == q.Listener || l.Address.String() == q.Listener) {
			return l, nil
		}
	}
	if q.Listener == "" && service.IsValid() {
		if l := cfg.ListenerOf(v, service); l != nil {
			return l, nil
		}
	}
	switch {
	case q.Listener != "":
		return nil, queryError("listener %q: %s has none of that name or address; it has %s", q.Listener, holderOf(v), listenerNames(list))
	case service.IsValid():
		return nil, queryError("url %q: no listener%s has the address %s; name one with --listener: %s", q.URL, ofView(v), service, listenerNames(list))
	case len(list) != 1:
		return nil, queryError("url %q: its host is a name, and there are %d listeners%s; choose one with --listener: %s", q.URL, len(list), ofView(v), listenerNames(list))
	}
	return list[0], nil
}

// listenerNames lists some.
func listenerNames(list []*model.Listener) string {
	const most = 8
	if len(list) == 0 {
		return "no listener"
	}
	names := make([]string, 0, len(list))
	for _, l := range list[:min(len(list), most)] {
		names = append(names, fmt.Sprintf("%s (%s)", l.Name, l.Address))
	}
	text := strings.Join(names, ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
