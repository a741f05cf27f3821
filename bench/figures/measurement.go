// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"time"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/queue"
)

// Changes is what becomes of a control plane's changes.
type Changes struct {
	// Made changes in the time of the load; Refused is why the client has refused one, if it has.
	Made    int    `json:"made"`
	Refused string `json:"refused,omitempty"`
	// AckP50 and AckP99 are the microseconds until the client said that a change was in force, SeenP50 and SeenMost those until the first request
	// went where it should; Missed is how often none did before the next change.
	AckP50   float64 `json:"ack_p50_us"`
	AckP99   float64 `json:"ack_p99_us"`
	SeenP50  float64 `json:"seen_p50_us"`
	SeenMost float64 `json:"seen_most_us"`
	Seen     int64   `json:"seen"`
	Missed   int     `json:"missed"`
	// ReadySeconds from the start of the balancer until it served.
	ReadySeconds float64 `json:"ready_seconds"`
	// Share of a processor that the balancer used, in percent, and its memory afterwards.
	Share    float64    `json:"processor_percent"`
	Balancer lab.Memory `json:"balancer"`
}

// PerRequest is processor time in microseconds per answered request.
type PerRequest struct {
	Machine   float64 `json:"machine"`
	Clients   float64 `json:"clients"`
	Endpoints float64 `json:"endpoints"`
	Balancer  float64 `json:"balancer"`
}

// lab is clients, endpoints and balancer together.
func (c PerRequest) lab() float64 { return c.Clients + c.Endpoints + c.Balancer }

// PerRequestOf divides the time since before by the number of requests.
func PerRequestOf(t, before lab.CPUTime, requests int64) PerRequest {
	if requests == 0 {
		return PerRequest{}
	}
	us := func(now, then time.Duration) float64 {
		return float64((now - then).Microseconds()) / float64(requests)
	}
	return PerRequest{
		Machine:   us(t.Machine, before.Machine),
		Clients:   us(t.Clients, before.Clients),
		Endpoints: us(t.Endpoints, before.Endpoints),
		Balancer:  us(t.Balancer, before.Balancer),
	}
}

// Density is what a balancer for many services takes.
type Density struct {
	// Reached is how many services have a balancer before them; fewer than asked for where the bound on sidecars is met.
	Reached int `json:"reached"`
	// ReadySeconds from the start of the balancer until all of these have answered.
	ReadySeconds float64 `json:"ready_seconds"`
	// Balancer is the memory of its processes, after the load.
	Balancer lab.Memory `json:"balancer"`
	// Machine and Kernel are how much more the whole machine, and its kernel, used than before; in bytes. Others' are among them.
	Machine int64 `json:"machine_bytes"`
	Kernel  int64 `json:"kernel_bytes"`
}

// Measurement is one turn of one peer.
type Measurement struct {
	Topology lab.Topology `json:"topology"`
	cases.Load
	Peer  string `json:"peer"`
	Round int    `json:"round"`
	// Rate is answered requests per second.
	Rate float64 `json:"requests_per_second"`
	// P50 and P99 are latencies in microseconds.
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
	// Mean latency and 99.9th percentile, likewise.
	Mean float64 `json:"mean_us"`
	P999 float64 `json:"p99.9_us"`
	// Stations is what the endpoints saw; of the least case only.
	Stations []queue.Account `json:"stations,omitempty"`
	Requests int64           `json:"requests"`
	Errors   int64           `json:"errors"`
	// FirstError says what one of them was, if the generator tells.
	FirstError string     `json:"first_error,omitempty"`
	CPU        PerRequest `json:"cpu_us_per_request"`
	// FastShare is the part of XLB's requests that the kernel moved, 0 to 1;
	// nil for other peers.
	FastShare *float64 `json:"fast_share,omitempty"`
	// Offered is how many requests a second clients were to send, and Programs what the balancer's kernel programs did; of the rate case.
	Offered  int           `json:"offered,omitempty"`
	Programs []ProgramCost `json:"programs,omitempty"`
	// NoiseRate is what the neighbour got, in requests a second; of the interference case.
	NoiseRate float64 `json:"noise_requests_per_second,omitempty"`
	// Density is of that case only.
	Density *Density `json:"density,omitempty"`
	// Changes is of that case only.
	Changes *Changes `json:"changes_made,omitempty"`
	// Failure says why the turn has no figures.
	Failure string `json:"failure,omitempty"`
}

// Take keeps what clients have measured.
func (m *Measurement) Take(report loadgen.Report) {
	m.Rate = report.Rate()
	m.P50 = float64(report.Latency.Quantile(0.50))
	m.P99 = float64(report.Latency.Quantile(0.99))
	m.Mean, m.P999 = report.Latency.Mean(), float64(report.Latency.Quantile(0.999))
	m.Requests, m.Errors, m.FirstError = report.Requests, report.Errors, report.FirstError
}

// ProgramCost is what one kernel program has done under a load.
type ProgramCost struct {
	Name string `json:"name"`
	// Runs per request, and nanoseconds per run and per request; keeping the account is part of both, some tens of nanoseconds a run.
	Runs         float64 `json:"runs_per_request"`
	NSPerRun     float64 `json:"ns_per_run"`
	NSPerRequest float64 `json:"ns_per_request"`
	// Instructions of the program as the verifier left it, and Bytes of machine code; 0: the kernel does not tell.
	Instructions int `json:"instructions"`
	Bytes        int `json:"jited_bytes"`
}

// megabytes of bodies a second.
func (m Measurement) megabytes() float64 { return m.Rate * float64(m.Size) / 1e6 }
