// SPDX-License-Identifier: Apache-2.0

package status

import (
	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/guard"
)

// Capabilities implements admin.Source.
func (s *Status) Capabilities() ([]admin.Capability, error) {
	return s.cfg.Capabilities, s.cfg.CapabilitiesError
}

// Guarded implements admin.Source.
func (s *Status) Guarded() (list []admin.Guarded) {
	if why := s.cfg.Unsupported(); why != "" {
		list = append(list, admin.Guarded{Scope: "kernel", Why: why})
	}
	for _, o := range s.cfg.Guards.Off() {
		row := admin.Guarded{Scope: o.Scope.String(), Why: o.Why, Since: &o.Since}
		if o.Scope == guard.Endpoint {
			row.Endpoint, row.Until = o.Endpoint.String(), &o.Until
		}
		list = append(list, row)
	}
	if kept := s.cfg.Anchors.Guarded(); kept > 0 {
		list = append(list, admin.Guarded{Scope: guard.Client.String(), Connections: kept, Why: "each broke invariants too often; the log has some"})
	}
	return list
}

// Guarded implements metrics.Source.
func (m measured) Guarded() map[string]uint64 {
	counts := map[string]uint64{}
	for _, scope := range guard.Scopes() {
		counts[scope.String()] = 0
	}
	for _, g := range m.status.Guarded() {
		switch g.Scope {
		case guard.Client.String():
			counts[g.Scope] = uint64(g.Connections)
		case guard.Endpoint.String(), guard.Machine.String():
			counts[g.Scope]++
		}
	}
	return counts
}
