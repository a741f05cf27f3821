// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"fmt"
	"time"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/clients"
)

// calibration is how long direct connections show what they can do.
const calibration = 3 * time.Second

// calibrate finds out how many requests a second the same clients have answered in a closed loop, without a balancer. Shares are of that.
func (b *Bed) calibrate(ctx context.Context, l cases.Load, o cases.Options) error {
	if o.Scale.Capacity > 0 {
		b.capacity = o.Scale.Capacity
	}
	if l.Case != cases.Rate || b.capacity > 0 {
		return nil
	}
	report, err := b.clients.AtRate(ctx, b.site.Endpoints, 0, l.Connections, clients.Generators, calibration)
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	if report.Errors > 0 || report.Requests == 0 {
		return fmt.Errorf("calibrate: %d requests answered, %d not", report.Requests, report.Errors)
	}
	b.capacity = int(report.Rate())
	return nil
}

// offered is how many requests a second a load asks for.
func (b *Bed) offered(l cases.Load) int { return max(1, b.capacity*l.Share/100) }
