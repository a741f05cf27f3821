// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/clients"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/tools"
	"github.com/xlb-project/xlb/examples/app"
)

const (
	// readyPatience bounds the start of a balancer: Envoy and XLB read 100,000 virtual hosts.
	readyPatience = 3 * time.Minute
	readyPoll     = 20 * time.Millisecond
)

// Bed is a topology with its endpoints running: what balancers are put into.
type Bed struct {
	Lab   *lab.Lab
	tools tools.Tools
	site  peers.Site
	// clients make the load.
	clients *clients.Clients
	http    *http.Client
	// endpoints live as long as the bed.
	endpoints []*lab.Process
	// capacity is how many requests a second direct connections have answered, 0 until calibrated; foreign are the kernel programs that were
	// there before a peer. Both are of the rate case.
	capacity int
	foreign  map[ebpf.ProgramID]account
	// noise is what the neighbour got in the last measurement, in requests a second.
	noise float64
	// redirected are the hosts that redirect connections to the peer.
	redirected []lab.Host
	// app is what is measured now instead of one hop; nil in all other cases.
	app *app.App
}

// kinds are the endpoints: how many, and what they run.
var kinds = map[cases.Kind]struct {
	n       int
	process func(i int) peers.Process
}{
	cases.Nginxes: {cases.Workers, peers.EndpointProcess}, cases.Echoes: {cases.Workers, peers.EchoProcess}, cases.Timed: {cases.Stations, peers.StationProcess},
	cases.Sinks:        {cases.Workers, peers.SinkProcess},
	cases.Applications: {},
}

// New builds a topology and starts its endpoints.
func New(ctx context.Context, topology lab.Topology, t tools.Tools, body int, endpoints cases.Kind) (*Bed, error) {
	dir, err := scratchDir(body)
	if err != nil {
		return nil, err
	}
	l, err := lab.New(topology)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	b := &Bed{Lab: l, tools: t, http: l.HTTPClient(), clients: &clients.Clients{Lab: l, Tools: t, Dir: dir}, site: peers.Site{
		Dir: dir, Workload: l.Workload(), Endpoints: peers.EndpointAddresses(l.EndpointAddress(), kinds[endpoints].n),
		WebSocket: endpoints == cases.Echoes,
	}}
	if err := b.startEndpoints(ctx, kinds[endpoints].process); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// scratchDir makes the directory for configuration files, the bodies that
// endpoints serve, and wrk's script. Workers of nginx run as another user, so it
// is readable by all.
func scratchDir(body int) (string, error) {
	dir, err := os.MkdirTemp("", "xlb-bench-")
	if err != nil {
		return "", err
	}
	err = errors.Join(
		os.Chmod(dir, 0o755),
		clients.WriteScripts(dir),
		os.Mkdir(filepath.Join(dir, "bodies"), 0o755),
		os.WriteFile(filepath.Join(dir, "bodies", strconv.Itoa(body)), bytes.Repeat([]byte("x"), body), 0o644))
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

func (b *Bed) startEndpoints(ctx context.Context, endpoint func(i int) peers.Process) error {
	for i, address := range b.site.Endpoints {
		p, err := b.start(endpoint(i), lab.Endpoint)
		if err != nil {
			return err
		}
		b.endpoints = append(b.endpoints, p)
		if err := b.waitReady(ctx, "http://"+address.String()+"/", p); err != nil {
			return err
		}
	}
	return nil
}

// Close stops the endpoints and removes the topology.
func (b *Bed) Close() error {
	return errors.Join(lab.StopAll(b.endpoints), b.Lab.Close(), os.RemoveAll(b.site.Dir))
}

// up starts the processes of a peer and waits until the service answers.
func (b *Bed) up(ctx context.Context, p peers.Peer) (started []*lab.Process, err error) {
	if b.app != nil {
		return b.upApp(ctx, p)
	}
	for _, proc := range p.Processes {
		running, err := b.start(proc, lab.Balancer)
		if err != nil {
			return nil, errors.Join(err, lab.StopAll(started))
		}
		started = append(started, running)
	}
	if len(started) == 0 {
		return nil, nil
	}
	if p.Redirects != nil {
		if err := b.redirect(ctx, p.Redirects(b.site)); err != nil {
			return nil, errors.Join(err, lab.StopAll(started))
		}
	}
	urls := []string{p.Settled}
	if p.Settled == "" {
		urls = nil
		for _, address := range b.targets(p) {
			urls = append(urls, "http://"+address.String()+"/")
		}
	}
	for _, url := range urls {
		if err := b.waitReady(ctx, url, started...); err != nil {
			return nil, errors.Join(err, lab.StopAll(started))
		}
	}
	return started, nil
}

// start renders the configuration of a process and starts it.
func (b *Bed) start(p peers.Process, role lab.Role) (*lab.Process, error) {
	path, err := b.tools.Find(p.Tool)
	if err != nil {
		return nil, err
	}
	file := b.site.File(p.Name)
	if p.Template != "" {
		text, err := p.Configuration(b.site)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, err
		}
	}
	return b.Lab.Start(lab.Command{Name: p.Name, Path: path, Args: p.Args(b.site, file), Role: role, Host: p.Host})
}

// waitReady waits until url answers 200 or one of the processes has ended.
func (b *Bed) waitReady(ctx context.Context, url string, processes ...*lab.Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	err := lab.Poll(ctx, readyPoll, func() error {
		for _, p := range processes {
			if err := p.Exited(); err != nil {
				cancel()
				return err
			}
		}
		if _, err := b.get(ctx, url); err != nil {
			return fmt.Errorf("%w%s", err, quoteAll(processes))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s: %w", url, err)
	}
	return nil
}

func quoteAll(processes []*lab.Process) string {
	var quotes strings.Builder
	for _, p := range processes {
		quotes.WriteString(p.Quote())
	}
	return quotes.String()
}

// get fetches a URL inside the lab; an answer other than 200 is an error.
func (b *Bed) get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := b.http.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s", url, response.Status)
	}
	body, err := io.ReadAll(response.Body)
	return string(body), err
}
