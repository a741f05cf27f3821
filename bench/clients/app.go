// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"encoding/json"
	"net/netip"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
)

// Application runs the load program of an application at path. It fails if what the users find in the end is not what they did.
func (c *Clients) Application(ctx context.Context, path string, users int, targets []netip.AddrPort, d time.Duration) (loadgen.Report, error) {
	var report loadgen.Report
	args := []string{"--users", strconv.Itoa(users), "--duration", d.String(), "--json"}
	for _, target := range targets {
		args = append(args, "--target", target.String())
	}
	p, err := c.Lab.Start(lab.Command{Name: "load", Path: path, Args: args, Role: lab.Client})
	if err != nil {
		return report, err
	}
	output, err := p.Wait(ctx)
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal([]byte(output), &report)
}
