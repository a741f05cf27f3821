// SPDX-License-Identifier: Apache-2.0

package figures

// ChangesRow has sizes in MB of 10^6 bytes.
type ChangesRow struct {
	Made, AckP50, AckP99, SeenP50, SeenMost, Missed, Ready, Share, PSS *Spread
	// ShareToEnvoy and PSSToEnvoy are ratios within each round.
	ShareToEnvoy, PSSToEnvoy *Spread
}

func changesRowOf(own, envoy []Measurement) *ChangesRow {
	of := func(figure func(c *Changes) float64) *Spread {
		return spreadOf(values(own, func(m Measurement) float64 { return figure(m.Changes) }))
	}
	to := func(figure func(c *Changes) float64) *Spread {
		return spreadOf(ratios(own, envoy, func(m Measurement) float64 { return figure(m.Changes) }))
	}
	share := func(c *Changes) float64 { return c.Share }
	pss := func(c *Changes) float64 { return float64(c.Balancer.PSS) / 1e6 }
	return &ChangesRow{
		Made:   of(func(c *Changes) float64 { return float64(c.Made) }),
		AckP50: of(func(c *Changes) float64 { return c.AckP50 / 1e3 }), AckP99: of(func(c *Changes) float64 { return c.AckP99 / 1e3 }),
		SeenP50: of(func(c *Changes) float64 { return c.SeenP50 / 1e3 }), SeenMost: of(func(c *Changes) float64 { return c.SeenMost / 1e3 }),
		Missed: of(func(c *Changes) float64 { return float64(c.Missed) }),
		Ready:  of(func(c *Changes) float64 { return c.ReadySeconds }),
		Share:  of(share), PSS: of(pss), ShareToEnvoy: to(share), PSSToEnvoy: to(pss),
	}
}
