// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/tools"
)

// Ask runs a load command of this very program against targets.
func (c *Clients) Ask(ctx context.Context, targets []netip.AddrPort, command string, connections int, d time.Duration, more ...string) (loadgen.Report, error) {
	var report loadgen.Report
	self, err := c.Tools.Find(tools.Self)
	if err != nil {
		return report, err
	}
	args := append([]string{command, "--connections", strconv.Itoa(connections), "--duration", d.String()}, more...)
	for _, target := range targets {
		args = append(args, "--target", target.String())
	}
	p, err := c.Lab.Start(lab.Command{
		Name: command, Path: self, Args: args, Role: lab.Client,
		// The runtime preempts with signals, and a blocking receive that a signal interrupts fails with EAGAIN
		// on a socket in a socket map. The same for every peer.
		Env: []string{"GODEBUG=asyncpreemptoff=1"},
	})
	if err != nil {
		return report, err
	}
	output, err := p.Wait(ctx)
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal([]byte(output), &report); err != nil {
		return report, fmt.Errorf("report of the %s command: %w", command, err)
	}
	return report, nil
}

// AtRate lets client processes share the connections and ask at random moments, rate times a second in all, or as fast as answers come
// if it is 0. All peers get the same moments.
func (c *Clients) AtRate(ctx context.Context, targets []netip.AddrPort, rate, connections, processes int, d time.Duration) (loadgen.Report, error) {
	self, err := c.Tools.Find(tools.Self)
	if err != nil {
		return loadgen.Report{}, err
	}
	parts := split(connections, processes)
	var running []*lab.Process
	for i, part := range parts {
		p, err := c.Lab.Start(lab.Command{Name: "clients", Path: self, Role: lab.Client, Args: []string{
			"clients",
			"--target", targets[i%len(targets)].String(),
			"--rate", strconv.FormatFloat(float64(rate)/float64(len(parts)), 'f', -1, 64),
			"--connections", strconv.Itoa(part),
			"--duration", d.String(),
			"--seed", strconv.Itoa(i),
		}})
		if err != nil {
			return loadgen.Report{}, errors.Join(err, lab.StopAll(running))
		}
		running = append(running, p)
	}
	return Collect(ctx, running, OwnReport)
}

// StartSelf starts a client that is a command of this program.
func (c *Clients) StartSelf(name string, args ...string) (*lab.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return c.Lab.Start(lab.Command{Name: name, Path: self, Role: lab.Client, Args: args})
}
