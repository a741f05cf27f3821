// SPDX-License-Identifier: Apache-2.0

package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Report is what a load generator measured.
type Report struct {
	// Requests answered with status 200 to 399.
	Requests int64 `json:"requests"`
	// Errors are requests that were not: refused, reset, timed out, or answered
	// with another status.
	Errors int64 `json:"errors"`
	// FirstError says what one of them was; empty where the generator does not tell.
	FirstError string `json:"first_error,omitempty"`
	// DurationUS is the time the load lasted, in microseconds.
	DurationUS int64 `json:"duration_us"`
	// Latency counts the answered requests by their latency.
	Latency Histogram `json:"latency"`
}

// NewReport is one of nothing so far.
func NewReport(elapsed time.Duration) Report {
	return Report{DurationUS: elapsed.Microseconds(), Latency: Histogram{}}
}

// Failures counts a worker's errors; only the worker uses it until it ends.
type Failures struct {
	count int64
	first string
}

// Note counts one.
func (f *Failures) Note(err error) {
	if f.count++; f.count == 1 {
		f.first = err.Error()
	}
}

// Add counts requests by their latencies in microseconds, and errors.
func (r *Report) Add(latencies []int64, errors int64) {
	r.Requests += int64(len(latencies))
	r.Errors += errors
	for _, us := range latencies {
		r.Latency[us]++
	}
}

// AddWorker counts what a worker has measured: latencies in microseconds, and its errors.
func (r *Report) AddWorker(latencies []int64, failures Failures) {
	r.Add(latencies, failures.count)
	if r.FirstError == "" {
		r.FirstError = failures.first
	}
}

// Rate returns the answered requests per second.
func (r Report) Rate() float64 {
	if r.DurationUS == 0 {
		return 0
	}
	return float64(r.Requests) / (time.Duration(r.DurationUS) * time.Microsecond).Seconds()
}

// Histogram counts requests by latency in whole microseconds. In JSON it is a
// list of [microseconds, count] pairs in rising order.
type Histogram map[int64]int64

// MarshalJSON writes the pairs.
func (h Histogram) MarshalJSON() ([]byte, error) {
	pairs := make([][2]int64, 0, len(h))
	for _, us := range slices.Sorted(maps.Keys(h)) {
		pairs = append(pairs, [2]int64{us, h[us]})
	}
	return json.Marshal(pairs)
}

// UnmarshalJSON reads the pairs.
func (h *Histogram) UnmarshalJSON(data []byte) error {
	var pairs [][2]int64
	if err := json.Unmarshal(data, &pairs); err != nil {
		return fmt.Errorf("latency histogram: %w", err)
	}
	*h = make(Histogram, len(pairs))
	for _, pair := range pairs {
		(*h)[pair[0]] += pair[1]
	}
	return nil
}

// Count returns how many requests the histogram holds.
func (h Histogram) Count() int64 {
	var n int64
	for _, count := range h {
		n += count
	}
	return n
}

// Mean returns the mean latency in microseconds; 0 for an empty histogram.
func (h Histogram) Mean() float64 {
	var n, sum int64
	for us, count := range h {
		n += count
		sum += us * count
	}
	return float64(sum) / float64(max(n, 1))
}

// Add adds the counts of other.
func (h Histogram) Add(other Histogram) {
	for us, count := range other {
		h[us] += count
	}
}

// Quantile returns the latency in microseconds that the fraction q (0 to 1) of
// the requests did not exceed, by nearest rank; 0 for an empty histogram.
func (h Histogram) Quantile(q float64) int64 {
	rank := q * float64(h.Count())
	var seen, last int64
	for _, us := range slices.Sorted(maps.Keys(h)) {
		seen += h[us]
		last = us
		if float64(seen) >= rank {
			break
		}
	}
	return last
}
