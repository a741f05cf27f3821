// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/datapath"
	"github.com/xlb-project/xlb/internal/pod"
)

// processReport is what "xlb check --pid" prints.
type processReport struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	// Cgroup is its directory, "" where it cannot be seen.
	Cgroup string `json:"cgroup,omitempty"`
	// Runtime, Container and PodUID are what its cgroup's path says, "" where that says nothing.
	Runtime   string `json:"runtime,omitempty"`
	Container string `json:"container,omitempty"`
	PodUID    string `json:"pod_uid,omitempty"`

	Balanced bool           `json:"balanced"`
	Results  []check.Result `json:"results"`
}

// checkProcess says whether a process is balanced.
func checkProcess(e *env, output format, pid int) error {
	p, err := check.FindProcess(pid)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refused(fmt.Errorf("--pid %d: no such process; give the number of one that runs, as ps shows it here", pid))
	case errors.Is(err, fs.ErrPermission):
		return refused(fmt.Errorf("--pid: %w; run as root", err))
	case err != nil:
		return fmt.Errorf("--pid: %w", err)
	}
	report, err := reportOn(p)
	if err != nil {
		return err
	}
	if err := report.print(e, output); err != nil {
		return err
	}
	return report.err()
}

// reportOn asks the kernel. Of several daemons the one is reported that comes nearest to balancing the process.
func reportOn(p *check.Process) (*processReport, error) {
	r := &processReport{PID: p.PID, Name: p.Name, Cgroup: p.Cgroup, Runtime: p.Container.Runtime, Container: p.Container.Container, PodUID: p.Container.UID}
	place := cgroupOf(p)
	before := append([]check.Result{place}, containerRow(p)...)
	if place.Status != check.OK {
		r.Results = before
		return r, nil
	}
	daemons, err := datapath.AttachedTo(p.Cgroup)
	if errors.Is(err, fs.ErrPermission) {
		return nil, refused(fmt.Errorf("--pid: %w; run as root", err))
	}
	if err != nil {
		return nil, fmt.Errorf("--pid: %w", err)
	}
	// It was read from alone.
	defer func() { _ = datapath.CloseAttached(daemons) }()
	r.Results = append(slices.Clone(before), noPrograms(p))
	for i, d := range daemons {
		results, err := resultsOf(p, d)
		if err != nil {
			return nil, fmt.Errorf("--pid: %w", err)
		}
		if results = slices.Insert(results, 0, before...); i == 0 || faults(results) < faults(r.Results) {
			r.Results = results
		}
	}
	r.Balanced = faults(r.Results) == 0
	return r, nil
}

// faults counts what stands in the way.
func faults(results []check.Result) (n int) {
	for _, r := range results {
		if r.Status != check.OK {
			n++
		}
	}
	return n
}

func cgroupOf(p *check.Process) check.Result {
	r := check.Result{Name: "cgroup", Status: check.OK, Detail: p.Cgroup}
	if p.Cgroup == "" {
		r.Status, r.Detail = check.Missing, "it is in none that is seen at "+p.Mount
		r.Remedy = "ask on the host, where the whole hierarchy of cgroup v2 is mounted; a cgroup of version 1 cannot be balanced"
	}
	return r
}

// containerRow says which container and pod a process is in, as far as its cgroup tells; no row where it is in none.
func containerRow(p *check.Process) []check.Result {
	is := &p.Container
	if *is == (pod.Identity{}) {
		return nil
	}
	var words []string
	if is.Container != "" {
		words = append(words, strings.TrimSpace(is.Runtime+" "+is.Container))
	}
	if is.UID != "" {
		words = append(words, "pod "+is.UID)
	}
	return []check.Result{{Name: "container", Status: check.OK, Detail: strings.Join(words, ", ")}}
}

const programsRow = "programs"

func noPrograms(p *check.Process) check.Result {
	return check.Result{
		Name: programsRow, Status: check.Missing, Detail: "no daemon's programs are attached to this cgroup, or above it",
		Remedy: fmt.Sprintf("start the daemon with --cgroup %s, or a directory above that; or move the process to a cgroup that is balanced: echo %d >DIRECTORY/cgroup.procs",
			p.Cgroup, p.PID),
	}
}

// resultsOf is what decides whether this daemon takes the process's connections, in the order in which the kernel's programs ask.
func resultsOf(p *check.Process, d *datapath.Attached) ([]check.Result, error) {
	at, err := placeOf(p, d)
	if err != nil {
		return nil, err
	}
	itself, err := d.ControlsMap()
	if err != nil {
		return nil, err
	}
	service, err := d.ServiceOf(p.Netns)
	if err != nil {
		return nil, err
	}
	results := []check.Result{{Name: programsRow, Status: check.OK, Detail: at}}
	if p.HasMap(uint32(itself)) {
		results = append(results, check.Result{
			Name: "process", Status: check.Missing, Detail: "this is the daemon, whose own connections are never intercepted", Remedy: "give the number of a client",
		})
	}
	return append(results, lifeOf(d), namespaceOf(p, service)), nil
}

// placeOf says where the daemon's programs are attached.
func placeOf(p *check.Process, d *datapath.Attached) (string, error) {
	for _, directory := range p.Ancestors() {
		here, err := datapath.IsAttachedAt(directory, d.Program)
		if here {
			return "attached to " + directory, nil
		}
		if err != nil {
			return "", err
		}
	}
	return "attached above " + p.Mount, nil
}

func lifeOf(d *datapath.Attached) check.Result {
	r := check.Result{Name: "daemon", Status: check.OK, Detail: "takes new connections"}
	switch {
	case d.Silent:
		r.Status, r.Detail = check.Missing, "has given no sign of life for three seconds"
		r.Remedy = "see whether it is stopped, or has no processor time; restart it"
	case d.Draining:
		r.Status, r.Detail = check.Missing, "starts, or drains: new connections are not intercepted"
		r.Remedy = "wait until /ready of its admin API answers 200, or start another one beside it"
	}
	return r
}

func namespaceOf(p *check.Process, service datapath.Service) check.Result {
	r := check.Result{Name: "network namespace", Status: check.OK, Detail: "the daemon serves it"}
	switch service {
	case datapath.Served:
	case datapath.Released:
		r.Status, r.Detail = check.Missing, "an operator has released it, or the labels of its pod exclude it, or lack what --pods=labelled asks for: its new connections are not balanced"
		r.Remedy = fmt.Sprintf("\"xlb get workloads --admin ADDRESS\", which is that of the daemon, says which; take it back: xlb join --pid %d --admin ADDRESS", p.PID)
	case datapath.LeftAlone:
		r.Status, r.Detail, r.Remedy = check.Missing, "it is the daemon's own, which is left alone (--namespaces=others)", "start the daemon with --namespaces=all"
	default:
		r.Status, r.Detail = check.Missing, "the daemon does not serve it, or not yet: it joins one when a process there first connects to a service address"
		r.Remedy = fmt.Sprintf("connect once, and ask again; if it is still so, the daemon's log says why: it needs CAP_SYS_ADMIN and CAP_SYS_PTRACE, and no --namespaces=own; "+
			"or start a daemon in it: nsenter --net=/proc/%d/ns/net xlb run --cgroup %s --config envoy.yaml", p.PID, p.Cgroup)
	}
	return r
}

func (r *processReport) verdict() string {
	if r.Balanced {
		return "balanced"
	}
	return "not balanced"
}

func (r *processReport) print(e *env, output format) error {
	if output == formatJSON {
		return writeJSON(e.stdout, r)
	}
	fmt.Fprintf(e.stdout, "process %d: %s\n\n", r.PID, r.Name)
	if err := writeTable(e.stdout, []string{"CHECK", "STATUS", "DETAIL"}, checkRows(r.Results)); err != nil {
		return err
	}
	printRemedies(e, r.Results)
	_, err := fmt.Fprintf(e.stdout, "\nverdict: %s\n", r.verdict())
	return err
}

// err has a line for each reason why the process is not balanced.
func (r *processReport) err() error {
	var errs []error
	for _, result := range r.Results {
		if result.Status != check.OK {
			errs = append(errs, fmt.Errorf("process %d is not balanced: %s: %s; %s", r.PID, result.Name, result.Detail, result.Remedy))
		}
	}
	return errors.Join(errs...)
}
