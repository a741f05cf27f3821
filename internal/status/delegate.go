// SPDX-License-Identifier: Apache-2.0

package status

import (
	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/delegate"
	"github.com/xlb-project/xlb/internal/metrics"
)

// Delegate implements admin.Source.
func (s *Status) Delegate() []admin.Delegate {
	if s.cfg.Delegate == nil {
		return nil
	}
	d := s.cfg.Delegate()
	if d == nil {
		return nil
	}
	row := admin.Delegate{
		State: string(d.State), Program: d.Program, Version: d.Version, PID: d.PID, User: d.User, Starts: d.Starts, Ends: d.Ends, Why: d.Why,
		Listeners: []admin.DelegateListener{}, LeftOut: append([]string{}, d.LeftOut...), MemoryBytes: d.Memory, MemoryLimit: d.MemoryLimit, CPUs: d.CPUs, Dropped: d.Dropped,
	}
	if !d.Since.IsZero() {
		row.Since = &d.Since
	}
	for _, l := range d.Listeners {
		row.Listeners = append(row.Listeners, admin.DelegateListener(l))
	}
	return []admin.Delegate{row}
}

// Delegate implements metrics.Source.
func (m measured) Delegate() *metrics.Delegate {
	if m.status.cfg.Delegate == nil {
		return nil
	}
	d := m.status.cfg.Delegate()
	if d == nil {
		return nil
	}
	return &metrics.Delegate{Up: d.State == delegate.Ready, Starts: d.Starts, Ends: d.Ends, Memory: d.Memory, Dropped: d.Dropped}
}
