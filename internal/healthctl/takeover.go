// SPDX-License-Identifier: Apache-2.0

package healthctl

import (
	"net/netip"
)

// takeOverLocked has new endpoints of a cluster begin with what is known of them in another one, which some views have left for it; nil: there is no such cluster.
// Their flags are those of the other one's already (reconcile): an ejection has to end when that one does.
func (mgr *Manager) takeOverLocked(w, from *watched) {
	known := map[netip.AddrPort]*member{}
	if from != nil && from != w {
		for _, m := range from.members {
			known[m.address] = m
		}
	}
	for _, m := range w.members {
		other := known[m.address]
		if m.isNew && other != nil && w.detector != nil && from.detector != nil {
			w.detector.TakeOver(m.index, from.detector, other.index)
		}
		if m.isNew && other != nil && m.prober != nil && other.prober != nil {
			m.prober.check.TakeOver(other.prober.check)
		}
		m.isNew = false
	}
}
