// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"slices"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/peers"
)

// scaleRow is what these cases add to a row.
type scaleRow struct {
	Mean *Spread `json:"mean_us"`
	P999 *Spread `json:"p99.9_us"`
	// Bytes is what bodies carry, in MB (10^6 bytes) a second; of the sizes case.
	Bytes *Spread `json:"megabytes_per_second,omitempty"`
	// Offered is how many requests a second clients were to send. Kernel is what the machine used beside clients, endpoints and balancer:
	// interrupts, kernel threads, and others. OverDirect is what clients, endpoints and balancer used more than with direct connections in
	// the same round. Both are in microseconds per request; of the rate case.
	Offered    *Spread `json:"offered,omitempty"`
	Kernel     *Spread `json:"cpu_us_per_request_beside,omitempty"`
	OverDirect *Spread `json:"cpu_us_per_request_over_direct,omitempty"`
	// OverDirectToEnvoy is that as a part of Envoy's.
	OverDirectToEnvoy *Spread `json:"cpu_over_direct_to_envoy,omitempty"`
	// Noise is what the neighbour got, in requests a second; of the interference case.
	Noise *Spread `json:"noise_requests_per_second,omitempty"`
	// Density is of that case.
	Density *DensityRow `json:"density,omitempty"`
	// Changes is of that case.
	Changes *ChangesRow `json:"changes,omitempty"`
	// Programs of the kernel, in the case rate.
	Programs []programRow `json:"programs,omitempty"`
	// Ratios to the peer's own figures at the least step, built within each round.
	RateToLeast *Spread `json:"rate_to_least_step"`
	P50ToLeast  *Spread `json:"p50_to_least_step"`
	P99ToLeast  *Spread `json:"p99_to_least_step"`
	// Ratios to Envoy.
	P50ToEnvoy *Spread `json:"p50_to_envoy"`
	P99ToEnvoy *Spread `json:"p99_to_envoy"`
}

func scaleRowOf(measurements []Measurement, like Measurement) *scaleRow {
	own := selectPeer(measurements, like, like.Peer)
	least := like
	least.Load = leastStep(measurements, like)
	base := selectPeer(measurements, least, like.Peer)
	envoy := selectPeer(measurements, like, peers.Envoy)
	of := func(figure func(m Measurement) float64) *Spread { return spreadOf(values(own, figure)) }
	to := func(base []Measurement, figure func(m Measurement) float64) *Spread {
		return spreadOf(ratios(own, base, figure))
	}
	rate := func(m Measurement) float64 { return m.Rate }
	p50 := func(m Measurement) float64 { return m.P50 }
	p99 := func(m Measurement) float64 { return m.P99 }
	r := &scaleRow{
		Mean:        of(func(m Measurement) float64 { return m.Mean }),
		P999:        of(func(m Measurement) float64 { return m.P999 }),
		RateToLeast: to(base, rate),
		P50ToLeast:  to(base, p50),
		P99ToLeast:  to(base, p99),
		P50ToEnvoy:  to(envoy, p50),
		P99ToEnvoy:  to(envoy, p99),
	}
	if like.Case == cases.Sizes {
		r.Bytes = of(Measurement.megabytes)
	}
	if like.Case == cases.Rate {
		r.Offered = of(func(m Measurement) float64 { return float64(m.Offered) })
		r.Kernel = of(func(m Measurement) float64 { return m.CPU.Machine - m.CPU.lab() })
		direct := selectPeer(measurements, like, peers.Direct)
		r.OverDirect = spreadOf(differences(own, direct, func(m Measurement) float64 { return m.CPU.lab() }))
		r.OverDirectToEnvoy = spreadOf(priceRatios(own, envoy, direct))
		r.Programs = programRows(own)
	}
	if like.Case == cases.Interference {
		r.Noise = of(func(m Measurement) float64 { return m.NoiseRate })
	}
	if like.Case == cases.Density {
		r.Density = densityRowOf(own)
	}
	if like.Case == cases.Changes {
		r.Changes = changesRowOf(own, envoy)
	}
	return r
}

// DensityRow has sizes in MB of 10^6 bytes.
type DensityRow struct {
	Reached *Spread `json:"reached"`
	Ready   *Spread `json:"ready_seconds"`
	PSS     *Spread `json:"pss_mb"`
	Own     *Spread `json:"anonymous_mb"`
	Maps    *Spread `json:"bpf_maps_mb"`
	Kernel  *Spread `json:"kernel_mb"`
	Machine *Spread `json:"machine_mb"`
}

func densityRowOf(own []Measurement) *DensityRow {
	of := func(figure func(d *Density) float64) *Spread {
		return spreadOf(values(own, func(m Measurement) float64 { return figure(m.Density) }))
	}
	mb := func(bytes int64) float64 { return float64(bytes) / 1e6 }
	return &DensityRow{
		Reached: of(func(d *Density) float64 { return float64(d.Reached) }),
		Ready:   of(func(d *Density) float64 { return d.ReadySeconds }),
		PSS:     of(func(d *Density) float64 { return mb(d.Balancer.PSS) }),
		Own:     of(func(d *Density) float64 { return mb(d.Balancer.Anonymous) }),
		Maps:    of(func(d *Density) float64 { return mb(d.Balancer.Maps) }),
		Kernel:  of(func(d *Density) float64 { return mb(d.Kernel) }),
		Machine: of(func(d *Density) float64 { return mb(d.Machine) }),
	}
}

// priceRatios divides what own used more than direct by what other did; rounds in which other used no more have none.
func priceRatios(own, other, direct []Measurement) []float64 {
	var values []float64
	cost := func(m Measurement) float64 { return m.CPU.lab() }
	for _, m := range own {
		round := []Measurement{m}
		price, others := differences(round, direct, cost), differences(round, other, cost)
		if len(price) == 0 || len(others) == 0 {
			continue
		}
		if of := price[0] - others[0]; of > 0 {
			values = append(values, price[0]/of)
		}
	}
	return values
}

// differences takes away the figures of the same round; rounds that lack either have none.
func differences(own, base []Measurement, figure func(Measurement) float64) []float64 {
	var values []float64
	for _, m := range own {
		i := slices.IndexFunc(base, func(b Measurement) bool { return b.Round == m.Round })
		if i < 0 || m.Failure != "" || base[i].Failure != "" {
			continue
		}
		values = append(values, figure(m)-figure(base[i]))
	}
	return values
}

// programRow is what one kernel program did, over the rounds.
type programRow struct {
	Name         string  `json:"name"`
	Runs         *Spread `json:"runs_per_request"`
	NSPerRun     *Spread `json:"ns_per_run"`
	NSPerRequest *Spread `json:"ns_per_request"`
	Instructions *Spread `json:"instructions"`
	Bytes        *Spread `json:"jited_bytes"`
}

// programRows has the programs in the order of the first round that saw them.
func programRows(own []Measurement) []programRow {
	var names []string
	byName := map[string][]ProgramCost{}
	for _, m := range own {
		for _, c := range m.Programs {
			if byName[c.Name] == nil {
				names = append(names, c.Name)
			}
			byName[c.Name] = append(byName[c.Name], c)
		}
	}
	var rows []programRow
	for _, name := range names {
		of := func(figure func(c ProgramCost) float64) *Spread {
			var values []float64
			for _, c := range byName[name] {
				values = append(values, figure(c))
			}
			return spreadOf(values)
		}
		rows = append(rows, programRow{
			Name:         name,
			Runs:         of(func(c ProgramCost) float64 { return c.Runs }),
			NSPerRun:     of(func(c ProgramCost) float64 { return c.NSPerRun }),
			NSPerRequest: of(func(c ProgramCost) float64 { return c.NSPerRequest }),
			Instructions: of(func(c ProgramCost) float64 { return float64(c.Instructions) }),
			Bytes:        of(func(c ProgramCost) float64 { return float64(c.Bytes) }),
		})
	}
	return rows
}

// leastStep is the load that varies the same and has the least step.
func leastStep(measurements []Measurement, like Measurement) cases.Load {
	least := like.Load
	for _, m := range measurements {
		if m.ComparedWith(like.Load) && m.Step() < least.Step() {
			least = m.Load
		}
	}
	return least
}
