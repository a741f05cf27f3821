// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/wrk"
	"github.com/xlb-project/xlb/examples/app"
)

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.ParseFS(templateFiles, "templates/*.tmpl"))

const (
	// readyPatience bounds the start of a balancer: Envoy and XLB read 100,000 virtual hosts.
	readyPatience = 3 * time.Minute
	readyPoll     = 20 * time.Millisecond
)

// bed is a topology with its endpoints running: what balancers are put into.
type bed struct {
	lab   *lab.Lab
	tools tools
	site  site
	http  *http.Client
	// endpoints live as long as the bed.
	endpoints []*lab.Process
	// capacity is how many requests a second direct connections have answered, 0 until calibrated; foreign are the kernel programs that were
	// there before a peer. Both are of the rate case.
	capacity int
	foreign  map[ebpf.ProgramID]account
	// cpuAtEnd is what processors had done when the last load ended; nil where that is not told.
	cpuAtEnd *cpuTime
	// noise is what the neighbour got in the last measurement, in requests a second.
	noise float64
	// redirected are the hosts that redirect connections to the peer.
	redirected []lab.Host
	// app is what is measured now instead of one hop; nil in all other cases.
	app *app.App
}

// kind is what endpoints are. These answer with a body, those with WebSocket messages, after a time, or when they have
// read a whole body; nothing stands for loads that bring their own.
type kind int

const (
	nginxes kind = iota
	echoes
	timed
	sinks
	nothing
	// applications bring their own, anew in each turn.
	applications
)

// kinds are the endpoints: how many, and what they run.
var kinds = map[kind]struct {
	n       int
	process func(i int) process
}{
	nginxes: {workers, endpointProcess}, echoes: {workers, echoProcess}, timed: {stations, stationProcess},
	sinks:        {workers, sinkProcess},
	applications: {},
}

// endpoints is what a load needs.
func (l load) endpoints() kind {
	if l.isScaled() {
		return l.scaledEndpoints()
	}
	switch l.Case {
	case caseBookstore, caseBank:
		return applications
	case caseWebSocket:
		return echoes
	case caseLeast:
		return timed
	}
	return nginxes
}

// newBed builds a topology and starts its endpoints.
func newBed(ctx context.Context, topology lab.Topology, t tools, body int, endpoints kind) (*bed, error) {
	dir, err := scratchDir(body)
	if err != nil {
		return nil, err
	}
	l, err := lab.New(topology)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	b := &bed{lab: l, tools: t, http: l.HTTPClient(), site: site{
		dir: dir, workload: l.Workload(), endpoints: endpointAddresses(l.EndpointAddress(), kinds[endpoints].n),
		webSocket: endpoints == echoes,
	}}
	if err := b.startEndpoints(ctx, kinds[endpoints].process); err != nil {
		return nil, errors.Join(err, b.close())
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
	asking, err := templateFiles.ReadFile("templates/" + routesScript)
	err = errors.Join(err,
		os.Chmod(dir, 0o755),
		os.WriteFile(filepath.Join(dir, wrkScript), wrk.Script, 0o644),
		os.WriteFile(filepath.Join(dir, routesScript), slices.Concat(wrk.Script, asking), 0o644),
		os.Mkdir(filepath.Join(dir, "bodies"), 0o755),
		os.WriteFile(filepath.Join(dir, "bodies", strconv.Itoa(body)), bytes.Repeat([]byte("x"), body), 0o644))
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

func (b *bed) startEndpoints(ctx context.Context, endpoint func(i int) process) error {
	for i, address := range b.site.endpoints {
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

// close stops the endpoints and removes the topology.
func (b *bed) close() error {
	return errors.Join(stopAll(b.endpoints), b.lab.Close(), os.RemoveAll(b.site.dir))
}

// up starts the processes of a peer and waits until the service answers.
func (b *bed) up(ctx context.Context, p peer) (started []*lab.Process, err error) {
	if b.app != nil {
		return b.upApp(ctx, p)
	}
	for _, proc := range p.processes {
		running, err := b.start(proc, lab.Balancer)
		if err != nil {
			return nil, errors.Join(err, stopAll(started))
		}
		started = append(started, running)
	}
	if len(started) == 0 {
		return nil, nil
	}
	if p.redirects != nil {
		if err := b.redirect(ctx, p.redirects(b.site)); err != nil {
			return nil, errors.Join(err, stopAll(started))
		}
	}
	urls := []string{p.settled}
	if p.settled == "" {
		urls = nil
		for _, address := range b.targets(p) {
			urls = append(urls, "http://"+address.String()+"/")
		}
	}
	for _, url := range urls {
		if err := b.waitReady(ctx, url, started...); err != nil {
			return nil, errors.Join(err, stopAll(started))
		}
	}
	return started, nil
}

// start renders the configuration of a process and starts it.
func (b *bed) start(p process, role lab.Role) (*lab.Process, error) {
	path, err := b.tools.find(p.tool)
	if err != nil {
		return nil, err
	}
	file := b.site.file(p.name)
	if p.template != "" {
		text, err := p.configuration(b.site)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, err
		}
	}
	return b.lab.Start(lab.Command{Name: p.name, Path: path, Args: p.args(b.site, file), Role: role, Host: p.host})
}

// file is where a configuration of that name lies. The ending tells XLB and Envoy the format.
func (s site) file(name string) string { return filepath.Join(s.dir, name+".yaml") }

// configuration renders the configuration file of a process.
func (p process) configuration(s site) ([]byte, error) {
	set := p.settings(s)
	set.Name, set.Dir, set.Workers = p.name, s.dir, workers
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, p.template, set); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", p.name, err)
	}
	return text.Bytes(), nil
}

// waitReady waits until url answers 200 or one of the processes has ended.
func (b *bed) waitReady(ctx context.Context, url string, processes ...*lab.Process) error {
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
func (b *bed) get(ctx context.Context, url string) (string, error) {
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

// stopAll stops processes, the last started first.
func stopAll(processes []*lab.Process) error {
	var errs []error
	for _, p := range slices.Backward(processes) {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}
