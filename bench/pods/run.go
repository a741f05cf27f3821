// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"
)

// Options of a run.
type Options struct {
	// Rate is how many pods begin a second, for Duration; 0 leaves that part out.
	Rate     float64       `json:"rate"`
	Duration time.Duration `json:"duration_ns"`
	// Life is how long a pod lives once it is served. Processes: every so many-th has a process.
	Life      time.Duration `json:"life_ns"`
	Processes int           `json:"processes"`
	// Counts are of pods that stay, of which the memory is measured, in rising order; none leaves that part out.
	Counts []int `json:"counts"`
	// XLB is the path of the binary.
	XLB string `json:"-"`
	// Describe returns what the report says of the machine; it reads sysctls, named as "net/ipv4/tcp_rmem". nil: nothing.
	Describe func(sysctl func(name string) (string, error)) fmt.Stringer `json:"-"`
}

// Validate returns what is wrong with the options.
func (o Options) Validate() error {
	if o.Rate < 0 || o.Rate > 0 && (o.Duration <= 0 || o.Life <= 0) || o.Processes < 0 {
		return fmt.Errorf("%g pods a second for %s that live for %s: none may be negative, and pods that come need both durations", o.Rate, o.Duration, o.Life)
	}
	last := 0
	for _, n := range o.Counts {
		if n < 1 || n > maxCount || n <= last {
			return fmt.Errorf("%d pods that stay: use 1 to %d, fewer first", n, maxCount)
		}
		last = n
	}
	return nil
}

// maxCount bounds the pods that stay: each takes some descriptors of one process.
const maxCount = 2000

// The addresses of all pods and of the host.
var (
	service = netip.MustParseAddrPort("127.80.0.1:80")
	server  = netip.MustParseAddrPort("127.0.0.1:8080")
	admin   = netip.MustParseAddrPort("127.0.0.1:9911")
)

// Run measures everything. What was measured before an error or the end of ctx is in the report.
func Run(ctx context.Context, o Options, progress io.Writer) (r Report, err error) {
	if err := o.Validate(); err != nil {
		return r, err
	}
	r = Report{Started: time.Now(), Options: o}
	for _, n := range o.Counts {
		m, err := memory(ctx, &o, n)
		if err != nil {
			return r, fmt.Errorf("memory of %d pods: %w", n, err)
		}
		r.Memory = append(r.Memory, m)
		fmt.Fprintf(progress, "%d pods: %s\n", n, m)
	}
	if o.Rate == 0 {
		return r, nil
	}
	come, err := comeAndGo(ctx, &o, &r)
	if err != nil {
		return r, fmt.Errorf("pods that come and go: %w", err)
	}
	r.Churn = &come
	fmt.Fprintf(progress, "%s\n", come)
	return r, ctx.Err()
}
