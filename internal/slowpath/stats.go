// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/policy"
)

// Load is the count of a cluster's requests in flight, which the fast path shares. Loads of the same count are equal.
type Load interface{ policy.Load }

func (c *Config) load(cluster string) policy.Load {
	if c.Load == nil {
		return nil
	}
	return c.Load(cluster)
}

// CountTimeout counts a request of the fast path that the time of its route has ended.
func (p *Proxy) CountTimeout(cluster string) { p.breakers.Tally(cluster).TimedOut() }

// Sweep forgets the clusters that Config.Cluster does not find any more; what they have counted is lost, as in Envoy. It reports false where
// requests to some of them are still under way: then it is to be called again.
func (p *Proxy) Sweep() (done bool) {
	return p.breakers.Sweep(func(cluster string) bool { return p.config.Cluster(cluster) != nil })
}

// Stats are Envoy's statistics of a cluster's circuit breakers, retries and timeouts, by their names below cluster.<name>.
func (p *Proxy) Stats(c *model.Cluster) map[string]uint64 { return p.breakers.Stats(c) }
