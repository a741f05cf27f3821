// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/examples/app"
)

// Cases that are applications: folders of examples/. They are measured when they are asked for by name.
const (
	caseBookstore = "bookstore"
	caseBank      = "bank"
)

var appCases = []string{caseBookstore, caseBank}

// appUsers is a load of an application by so many users.
func appUsers(name string, users int) load { return load{Case: name, Connections: users} }

func (l load) isApp() bool { return slices.Contains(appCases, l.Case) }

// appLoads are those of the application that was asked for.
func (o options) appLoads() []load {
	var loads []load
	for _, name := range appCases {
		if o.Case != name {
			continue
		}
		for _, n := range o.AppUsers {
			loads = append(loads, appUsers(name, n))
		}
	}
	return loads
}

// validateApps: applications are measured on one host, and the bank's customers pay each other.
func (o options) validateApps() error {
	var errs []error
	if load := (load{Case: o.Case}); load.isApp() && o.Topology == string(lab.CrossHost) {
		errs = append(errs, fmt.Errorf("--topology is %s: %s runs on one host", o.Topology, o.Case))
	}
	if len(o.AppUsers) == 0 || slices.Min(o.AppUsers) < 2 {
		errs = append(errs, fmt.Errorf("--app-users is %v: every number must be at least 2", o.AppUsers))
	}
	return errors.Join(errs...)
}

// addApps notes what applications run on.
func (m *machine) addApps(loads []load) {
	if !slices.ContainsFunc(loads, load.isApp) {
		return
	}
	for _, tool := range []string{"java", "node", "/usr/bin/python3", "psql"} {
		if path, err := exec.LookPath(tool); err == nil {
			m.Versions[filepath.Base(tool)] = version(path, "--version")
		}
	}
}

// servesApps reports whether a peer can stand between an application's services.
func (p peer) servesApps() bool {
	return slices.Contains([]string{peerDirect, peerXLB, peerEnvoy, peerEnvoy2}, p.name)
}

// layApp loads and builds the application of a load; other loads have none.
func (b *bed) layApp(ctx context.Context, l load) error {
	if !l.isApp() {
		b.app = nil
		return nil
	}
	if b.app != nil && b.app.Name == l.Case {
		return nil
	}
	a, err := app.Load(filepath.Join("examples", l.Case))
	if err != nil {
		return fmt.Errorf("%w: run this from the root of the tree", err)
	}
	if err := a.Build(ctx, b.appBuild(a)); err != nil {
		return fmt.Errorf("%w: scripts/install-deps examples installs what it needs", err)
	}
	b.app = &a
	return nil
}

func (b *bed) appBuild(a app.App) string { return filepath.Join(b.site.dir, "build-"+a.Name) }

// upApp starts all processes of the application and then the peer, and waits until users are served. Every turn begins anew: a peer
// gets its own addresses, and no connection, compiled code or data of the turn before.
func (b *bed) upApp(ctx context.Context, p peer) (started []*lab.Process, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, stopAll(started))
			started = nil
		}
	}()
	data, err := os.MkdirTemp(b.site.dir, "data-")
	if err != nil {
		return nil, err
	}
	// Databases run as another user.
	if err := os.Chmod(data, 0o755); err != nil {
		return nil, err
	}
	processes, err := b.app.Processes(b.appBuild(*b.app), data, p.name == peerDirect)
	if err != nil {
		return nil, err
	}
	for _, process := range processes {
		running, err := b.startApp(process)
		if err != nil {
			return started, err
		}
		started = append(started, running)
	}
	for i, process := range processes {
		// A service is ready when its database is.
		if !process.HTTP {
			continue
		}
		if err := b.waitReady(ctx, "http://"+process.Listen.String()+"/health", started[i]); err != nil {
			return started, err
		}
	}
	return b.balanceApp(ctx, p, started)
}

// startApp starts a process with its own environment only.
func (b *bed) startApp(p app.Process) (*lab.Process, error) {
	env, err := b.tools.find("env")
	if err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"-i"}, p.Env, []string{p.Path}, p.Args)
	return b.lab.Start(lab.Command{Name: p.Name, Path: env, Args: args, Role: lab.Endpoint, Host: lab.ServerHost})
}

// balanceApp starts the balancers of a peer, if it has any, and waits for them.
func (b *bed) balanceApp(ctx context.Context, p peer, started []*lab.Process) ([]*lab.Process, error) {
	admin, err := b.app.Admin()
	if err != nil {
		return started, err
	}
	type balancer struct{ tool, file, ready string }
	envoyReady := "http://" + admin.String() + "/ready"
	var balancers []balancer
	switch p.name {
	case peerDirect:
	case peerXLB:
		balancers = []balancer{{"xlb", b.app.File(), p.settled}}
	case peerEnvoy:
		balancers = []balancer{{"envoy", b.app.File(), envoyReady}}
	default:
		server, client, m, err := b.appMesh()
		if err == nil {
			err = b.redirect(ctx, m)
		}
		if err != nil {
			return started, err
		}
		serverReady := fmt.Sprintf("http://%s/ready", netip.AddrPortFrom(adminAddress.Addr(), sidecarAdmin))
		balancers = []balancer{{"envoy", server, serverReady}, {"envoy", client, envoyReady}}
	}
	for _, one := range balancers {
		path, err := b.tools.find(one.tool)
		if err != nil {
			return started, err
		}
		args := envoyArgs(b.site, one.file)
		if one.tool == "xlb" {
			args = []string{"run", "--config", one.file, "--cgroup", b.site.workload, "--admin", adminAddress.String()}
		}
		running, err := b.lab.Start(lab.Command{Name: one.tool, Path: path, Args: args, Role: lab.Balancer})
		if err != nil {
			return started, err
		}
		started = append(started, running)
		if err := b.waitReady(ctx, one.ready, running); err != nil {
			return started, err
		}
	}
	return started, nil
}

// generateApp runs the application's own load. It fails if what the users find in the end is not what they did.
func (b *bed) generateApp(ctx context.Context, l load, targets []netip.AddrPort, d time.Duration) (loadgen.Report, error) {
	var report loadgen.Report
	args := []string{"--users", strconv.Itoa(l.Connections), "--duration", d.String(), "--json"}
	for _, target := range targets {
		args = append(args, "--target", target.String())
	}
	p, err := b.lab.Start(lab.Command{Name: "load", Path: filepath.Join(b.appBuild(*b.app), "load"), Args: args, Role: lab.Client})
	if err != nil {
		return report, err
	}
	output, err := p.Wait(ctx)
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal([]byte(output), &report)
}
