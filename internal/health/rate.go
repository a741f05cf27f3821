// SPDX-License-Identifier: Apache-2.0

package health

import (
	"math"
	"time"
)

// rate counts the requests of the running interval, and keeps those of the last.
type rate struct{ current, last tally }

type tally struct{ total, successes uint64 }

func (r *rate) add(total, successes uint64) {
	r.current.total += total
	r.current.successes += successes
}

// turn ends the interval.
func (r *rate) turn() { r.last, r.current = r.current, tally{} }

// percent of the last interval's requests succeeded. There must have been one.
func (t tally) percent() float64 { return float64(t.successes) * 100 / float64(t.total) }

// judgeRates ejects by the success rates of the last interval: those far below the others, then those below a fixed bound. Which
// endpoints are looked at is settled before any of them is ejected.
func (d *Detector) judgeRates(now time.Time, origin Origin) []Ejection {
	rate, percentage := &d.config.SuccessRate, &d.config.FailurePercentage
	compared := d.busy(origin, rate.RequestVolume, rate.MinimumHosts)
	judged := d.busy(origin, percentage.RequestVolume, percentage.MinimumHosts)

	threshold := deviationThreshold(compared, origin, float64(rate.StdevFactor)/1000)
	ejections := d.ejectIf(now, compared, rateReasons[origin].rate, func(h *host) bool {
		return h.rates[origin].last.percent() < threshold
	})
	return append(ejections, d.ejectIf(now, judged, rateReasons[origin].percentage, func(h *host) bool {
		return 100-h.rates[origin].last.percent() >= float64(percentage.Threshold)
	})...)
}

// busy are the endpoints in service that have had enough requests; none when these are too few.
func (d *Detector) busy(origin Origin, volume, minimum uint32) []*host {
	var hosts []*host
	for _, h := range d.hosts {
		if total := h.rates[origin].last.total; !h.ejected && total > 0 && total >= uint64(volume) {
			hosts = append(hosts, h)
		}
	}
	if len(hosts) < int(minimum) {
		return nil
	}
	return hosts
}

func (d *Detector) ejectIf(now time.Time, hosts []*host, reason Reason, outlier func(*host) bool) []Ejection {
	var ejections []Ejection
	for _, h := range hosts {
		if !outlier(h) {
			continue
		}
		if e, ok := d.detected(now, h, reason); ok {
			ejections = append(ejections, e)
		}
	}
	return ejections
}

// deviationThreshold is the mean of the success rates less so many standard deviations.
func deviationThreshold(hosts []*host, origin Origin, factor float64) float64 {
	var sum, squares float64
	for _, h := range hosts {
		sum += h.rates[origin].last.percent()
	}
	n := float64(max(len(hosts), 1))
	mean := sum / n
	for _, h := range hosts {
		squares += math.Pow(h.rates[origin].last.percent()-mean, 2)
	}
	return mean - factor*math.Sqrt(squares/n)
}
