// SPDX-License-Identifier: Apache-2.0

package density

import (
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/record"
)

// Row is the figures of a peer before so many services, over the rounds; pages quote them from results.json. MB are 10^6 bytes. Figures that the
// machine or the peer does not have are nil.
type Row struct {
	Case     string `json:"case"`
	Topology string `json:"topology"`
	Peer     string `json:"peer"`
	Services int    `json:"services"`

	Served       record.Spread  `json:"served"`
	ReadySeconds record.Spread  `json:"ready_seconds"`
	IdlePercent  record.Spread  `json:"idle_percent"`
	OwnMB        record.Spread  `json:"own_mb"`
	ChargedMB    *record.Spread `json:"charged_mb"`
	TakenMB      *record.Spread `json:"own_charged_mb"`
	MachineMB    record.Spread  `json:"machine_mb"`
	AskedMB      *record.Spread `json:"asked_own_charged_mb"`
	EachKB       *record.Spread `json:"own_charged_each_kb"`
	Rate         record.Spread  `json:"requests_per_second"`
	P50          record.Spread  `json:"p50_us"`
	P99          record.Spread  `json:"p99_us"`
	PacedP50     record.Spread  `json:"paced_p50_us"`
	PacedP99     record.Spread  `json:"paced_p99_us"`
	Share        *record.Spread `json:"fast_share"`
}

// summary has a row for each number of services and peer that has figures.
func (r *Report) summary() (rows []Row) {
	for _, n := range r.Options.Counts {
		for _, peer := range Peers() {
			if trials := r.trials(peer, n); len(trials) > 0 {
				rows = append(rows, rowOf(trials))
			}
		}
	}
	return rows
}

func rowOf(trials []*Trial) Row {
	figure := func(of func(*Trial) float64) record.Spread { return spreadOf(trials, of) }
	return Row{
		Case: "density", Topology: string(lab.SameHost), Peer: trials[0].Peer, Services: trials[0].Services,
		Served: figure(served), ReadySeconds: figure(func(t *Trial) float64 { return t.ReadySeconds }), IdlePercent: figure(func(t *Trial) float64 { return 100 * t.IdleShare }),
		OwnMB: figure(func(t *Trial) float64 { return float64(t.Idle.Anonymous) / mega }), ChargedMB: measured(trials, in(mega, idleCharged)),
		TakenMB: measured(trials, in(mega, idleTaken)), MachineMB: figure(func(t *Trial) float64 { return float64(t.Idle.Machine) / mega }),
		AskedMB: measured(trials, in(mega, askedTaken)), EachKB: measured(trials, in(kilo, forEach(idleTaken))),
		Rate: figure(func(t *Trial) float64 { return t.Fast.Rate }), P50: figure(func(t *Trial) float64 { return float64(t.Fast.P50) }), P99: figure(func(t *Trial) float64 { return float64(t.Fast.P99) }),
		PacedP50: figure(func(t *Trial) float64 { return float64(t.Paced.P50) }), PacedP99: figure(func(t *Trial) float64 { return float64(t.Paced.P99) }),
		Share: measured(trials, share),
	}
}

// in divides by a unit.
func in(unit float64, of func(*Trial) (float64, bool)) func(*Trial) (float64, bool) {
	return func(t *Trial) (float64, bool) {
		value, ok := of(t)
		return value / unit, ok
	}
}
