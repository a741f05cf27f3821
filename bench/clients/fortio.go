// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
)

// fortioResolution is the width of the finest buckets in seconds. They widen to a tenth of a latency above ten of them.
const fortioResolution = "0.000001"

// Fortio spreads the connections over as many processes as wrk has, and those over the targets.
func (c *Clients) Fortio(ctx context.Context, l cases.Load, targets []netip.AddrPort, path string, d time.Duration) (loadgen.Report, error) {
	tool, err := c.Tools.Find("fortio")
	if err != nil {
		return loadgen.Report{}, err
	}
	var running []*lab.Process
	for i, connections := range split(l.Connections, Generators) {
		p, err := c.Lab.Start(lab.Command{Name: "fortio", Path: tool, Role: lab.Client, Args: []string{
			"load", "-quiet", "-json", "-", "-allow-initial-errors",
			"-qps", "0", "-c", strconv.Itoa(connections), "-t", d.String(), "-r", fortioResolution,
			"http://" + targets[i%len(targets)].String() + path,
		}})
		if err != nil {
			return loadgen.Report{}, errors.Join(err, lab.StopAll(running))
		}
		running = append(running, p)
	}
	return Collect(ctx, running, func(_ int, output string) (loadgen.Report, error) { return parseFortio(output) })
}

// fortioResult is what is read of fortio's JSON; times are in seconds, but for ActualDuration, in nanoseconds.
type fortioResult struct {
	ActualDuration    int64
	RetCodes          map[string]int64
	DurationHistogram struct {
		Count int64
		Data  []struct {
			Start, End float64
			Count      int64
		}
	}
}

// parseFortio reads a result. Fortio counts latencies in buckets; those of one are taken to lie in it at equal distances, as fortio's own
// percentiles do. Fortio counts failed requests' latencies as well: their number is taken away from the count, but not from the latencies.
func parseFortio(output string) (loadgen.Report, error) {
	var result fortioResult
	if err := json.Unmarshal([]byte(output), &result); err != nil {
		return loadgen.Report{}, fmt.Errorf("result of fortio: %w", err)
	}
	report := loadgen.NewReport(time.Duration(result.ActualDuration))
	for code, n := range result.RetCodes {
		if code == "200" {
			report.Requests += n
		} else {
			report.Errors += n
		}
	}
	for _, bucket := range result.DurationHistogram.Data {
		spreadOver(report.Latency, bucket.Start*1e6, bucket.End*1e6, bucket.Count)
	}
	return report, nil
}

// spreadOver adds count latencies between start and end, in microseconds, at equal distances.
func spreadOver(h loadgen.Histogram, start, end float64, count int64) {
	places := max(1, min(count, int64(end-start)))
	for i := range places {
		us := int64(math.Round(start + (end-start)*(float64(i)+0.5)/float64(places)))
		n := count / places
		if i < count%places {
			n++
		}
		h[us] += n
	}
}
