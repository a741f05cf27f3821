// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/examples/app"
)

// layApp loads and builds the application of a load; other loads have none.
func (b *Bed) layApp(ctx context.Context, l cases.Load) error {
	if !l.IsApp() {
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

func (b *Bed) appBuild(a app.App) string { return filepath.Join(b.site.Dir, "build-"+a.Name) }

// upApp starts all processes of the application and then the peer, and waits until users are served. Every turn begins anew: a peer
// gets its own addresses, and no connection, compiled code or data of the turn before.
func (b *Bed) upApp(ctx context.Context, p peers.Peer) (started []*lab.Process, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, lab.StopAll(started))
			started = nil
		}
	}()
	data, err := os.MkdirTemp(b.site.Dir, "data-")
	if err != nil {
		return nil, err
	}
	// Databases run as another user.
	if err := os.Chmod(data, 0o755); err != nil {
		return nil, err
	}
	processes, err := b.app.Processes(b.appBuild(*b.app), data, p.Name == peers.Direct)
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
func (b *Bed) startApp(p app.Process) (*lab.Process, error) {
	env, err := b.tools.Find("env")
	if err != nil {
		return nil, err
	}
	args := slices.Concat([]string{"-i"}, p.Env, []string{p.Path}, p.Args)
	return b.Lab.Start(lab.Command{Name: p.Name, Path: env, Args: args, Role: lab.Endpoint, Host: lab.ServerHost})
}

// balanceApp starts the balancers of a peer, if it has any, and waits for them.
func (b *Bed) balanceApp(ctx context.Context, p peers.Peer, started []*lab.Process) ([]*lab.Process, error) {
	admin, err := b.app.Admin()
	if err != nil {
		return started, err
	}
	type balancer struct{ tool, file, ready string }
	envoyReady := "http://" + admin.String() + "/ready"
	var balancers []balancer
	switch p.Name {
	case peers.Direct:
	case peers.XLB:
		balancers = []balancer{{"xlb", b.app.File(), p.Settled}}
	case peers.Envoy:
		balancers = []balancer{{"envoy", b.app.File(), envoyReady}}
	default:
		server, client, m, err := b.appMesh()
		if err == nil {
			err = b.redirect(ctx, m)
		}
		if err != nil {
			return started, err
		}
		serverReady := fmt.Sprintf("http://%s/ready", netip.AddrPortFrom(peers.AdminAddress.Addr(), peers.SidecarAdmin))
		balancers = []balancer{{"envoy", server, serverReady}, {"envoy", client, envoyReady}}
	}
	for _, one := range balancers {
		path, err := b.tools.Find(one.tool)
		if err != nil {
			return started, err
		}
		args := peers.EnvoyArgs(b.site, one.file)
		if one.tool == "xlb" {
			args = []string{"run", "--config", one.file, "--cgroup", b.site.Workload, "--admin", peers.AdminAddress.String()}
		}
		running, err := b.Lab.Start(lab.Command{Name: one.tool, Path: path, Args: args, Role: lab.Balancer})
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

// appMesh writes the configurations of the sidecars.
func (b *Bed) appMesh() (server, client string, m peers.Mesh, err error) {
	before, own, m, err := peers.AppSidecars(b.site, b.app.File(), b.app.Endpoints())
	if err != nil {
		return "", "", m, err
	}
	server, client = b.site.File("app-server"), b.site.File("app-client")
	return server, client, m, errors.Join(os.WriteFile(server, before, 0o644), os.WriteFile(client, own, 0o644))
}
