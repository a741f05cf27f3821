// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// Claim is the endpoint that the kernel had chosen before it declined the request.
func (s *Selector) Claim(index uint32) *slowpath.Claim {
	now := s.cfg.Generation()
	e, ok := now.Endpoint(index)
	if index == anchor.NoEndpoint || !ok || e.Gone || !s.cfg.Picker.Serving(index) {
		return nil
	}
	s.cfg.Picker.Claim(index)
	c := s.Endpoint(e)
	if s.cfg.Generation() != now {
		// It may have been another's before it was claimed.
		c.Done(slowpath.Outcome{})
		return nil
	}
	return &slowpath.Claim{Cluster: e.Cluster, Endpoint: c}
}
