// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/wrk"
)

const (
	// WrkScript asks for the same again and again.
	WrkScript = "wrk.lua"
	// Generators is the number of wrk processes. A wrk has one URL, and a direct
	// connection needs both endpoints': every peer gets the same two.
	Generators = cases.Workers
)

// WriteScripts writes wrk's scripts: of equal requests, and of requests for routes.
func WriteScripts(dir string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(dir, WrkScript), wrk.Script, 0o644),
		os.WriteFile(filepath.Join(dir, routesScript), slices.Concat(wrk.Script, routesLua), 0o644))
}

// scriptOf is what wrk runs under a load.
func scriptOf(l cases.Load) string {
	if l.Case == cases.Routes {
		return routesScript
	}
	if l.Way == cases.WayRequest {
		return postScript
	}
	return WrkScript
}

// Keepalive spreads the connections over the wrk processes and those
// over the targets.
func (c *Clients) Keepalive(ctx context.Context, l cases.Load, targets []netip.AddrPort, path string, d time.Duration) (loadgen.Report, error) {
	parts := split(l.Connections, Generators)
	running := make([]*lab.Process, 0, len(parts))
	for i, connections := range parts {
		p, err := c.StartWrk("wrk", scriptOf(l), "http://"+targets[i%len(targets)].String()+path, connections, d)
		if err != nil {
			return loadgen.Report{}, errors.Join(err, lab.StopAll(running))
		}
		running = append(running, p)
	}
	err := c.readCPUAfter(ctx, d)
	report, reportErr := Collect(ctx, running, func(i int, output string) (loadgen.Report, error) { return wrk.Parse(output, parts[i]) })
	return report, errors.Join(err, reportErr)
}

// StartWrk asks for url over so many connections.
func (c *Clients) StartWrk(name, script, url string, connections int, d time.Duration) (*lab.Process, error) {
	tool, err := c.Tools.Find("wrk")
	if err != nil {
		return nil, err
	}
	return c.Lab.Start(lab.Command{Name: name, Path: tool, Role: lab.Client, Args: []string{
		"--threads", "1",
		"--connections", strconv.Itoa(connections),
		"--duration", fmt.Sprintf("%ds", int(d.Seconds())),
		"--script", filepath.Join(c.Dir, script),
		url,
	}})
}
