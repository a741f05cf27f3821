// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/clients"
	loadgen "github.com/xlb-project/xlb/bench/load"
)

// generate makes one load against the targets and reports it.
func (b *Bed) generate(ctx context.Context, l cases.Load, targets []netip.AddrPort, path string, d time.Duration) (loadgen.Report, error) {
	if l.IsScaled() {
		return b.generateScaled(ctx, l, targets, path, d)
	}
	switch l.Case {
	case cases.Bookstore, cases.Bank:
		return b.clients.Application(ctx, filepath.Join(b.appBuild(*b.app), "load"), l.Connections, targets, d)
	case cases.Least:
		return b.clients.AtRate(ctx, targets, l.Rate, l.Connections, cases.LeastClients, d)
	case cases.Short:
		return b.clients.Ask(ctx, targets, "load", l.Connections, d, "--path", path)
	case cases.Setup:
		return b.clients.Ask(ctx, targets, "load", l.Connections, d, "--setup-only")
	case cases.WebSocket:
		return b.clients.Ask(ctx, targets, "websocket", l.Connections, d, "--message", strconv.Itoa(l.Message))
	}
	if l.Generator == cases.Fortio {
		return b.clients.Fortio(ctx, l, targets, path, d)
	}
	return b.clients.Keepalive(ctx, l, targets, path, d)
}

// generateScaled makes one load of these cases.
func (b *Bed) generateScaled(ctx context.Context, l cases.Load, targets []netip.AddrPort, path string, d time.Duration) (loadgen.Report, error) {
	switch l.Case {
	case cases.Interference:
		return b.generateWatched(ctx, l, targets, d)
	case cases.Rules:
		if l.Way == cases.WayShort {
			return b.clients.Ask(ctx, targets, "load", l.Connections, d, "--path", path)
		}
	case cases.Rate:
		return b.clients.AtRate(ctx, targets, b.offered(l), l.Connections, clients.Generators, d)
	}
	return b.clients.Keepalive(ctx, l, targets, path, d)
}
