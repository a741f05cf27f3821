// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"testing"

	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/generationtest"
)

// The entry of a subset that a new configuration does not have is empty before the routes to it are gone.
func TestChoicesThatFindNothingAreMadeAgainWhenTheConfigurationIsInForce(t *testing.T) {
	b := newBalancing(t, generationtest.PortsOf(1, 1))
	looks, chosen := make(chan bool, 2), make(chan bool)
	b.switching.Lock()
	go func() {
		_, ok := b.choose(func(g *generation.Generation) (slowpath.ChosenEndpoint, bool) {
			isFirst := len(looks) == 0
			looks <- isFirst
			if isFirst {
				return nil, false
			}
			return b.pick(g, g.Cluster(model.SharedCluster("web")), "", 0, generationtest.Anywhere)
		})
		chosen <- ok
	}()
	await.Quiet(t, func() string {
		if len(looks) == 0 {
			return "no look"
		}
		return ""
	})
	now := *b.now.Load()
	b.now.Store(&now)
	b.switching.Unlock()
	if !<-chosen || len(looks) != 2 {
		t.Errorf("%d looks, want a second one that finds an endpoint", len(looks))
	}
}
