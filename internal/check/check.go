// SPDX-License-Identifier: Apache-2.0

package check

// Status is the outcome of one check.
type Status string

// Values of Status.
const (
	// OK: as it should be.
	OK Status = "ok"
	// Degraded: XLB works, but slower or for fewer clients than it could.
	Degraded Status = "degraded"
	// Missing: what needs it does not work.
	Missing Status = "missing"
)

// Verdict is what this machine can do.
type Verdict string

// Values of Verdict, the best first.
const (
	FastPath     Verdict = "fast path"
	SlowPathOnly Verdict = "slow path only"
	CannotRun    Verdict = "cannot run"
)

// Result is the outcome of one check.
type Result struct {
	// Name is stable, for scripts.
	Name   string `json:"name"`
	Status Status `json:"status"`
	// Detail is what was found.
	Detail string `json:"detail"`
	// Remedy is what to do, "" when there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// Report is the outcome of all checks.
type Report struct {
	Verdict Verdict `json:"verdict"`
	// Kernel is its release, uname -r.
	Kernel  string   `json:"kernel"`
	Results []Result `json:"results"`
}

// need says what does not work when a check finds something missing.
type need int

const (
	// needNothing: a check that degrades at worst.
	needNothing need = iota
	needFastPath
	needRun
)

// probe is one check.
type probe struct {
	name string
	need need
	// run returns what was found; the name is filled in.
	run func() Result
}

// Run makes all checks. It takes well under a second, and changes nothing.
func Run() *Report {
	report := &Report{Verdict: FastPath, Kernel: KernelRelease()}
	probes := []probe{
		{"kernel", needNothing, func() Result { return judgeKernel(report.Kernel) }},
		{"privileges", needRun, privileges},
		{"cgroup", needRun, cgroupV2},
		{"network namespaces", needNothing, namespaces},
	}
	probes = append(probes, kernelProbes()...)
	probes = append(probes, limitProbes()...)
	for _, p := range probes {
		report.add(p)
	}
	return report
}

// add runs a probe. Without privileges the kernel refuses everything, which would
// only repeat the one problem there is.
func (r *Report) add(p probe) {
	if p.need != needNothing && r.lacks("privileges") {
		r.Results = append(r.Results, Result{Name: p.name, Status: Missing, Detail: "not tried without privileges"})
		return
	}
	result := p.run()
	result.Name = p.name
	r.Results = append(r.Results, result)
	if result.Status != Missing {
		return
	}
	switch {
	case p.need == needRun:
		r.Verdict = CannotRun
	case p.need == needFastPath && r.Verdict == FastPath:
		r.Verdict = SlowPathOnly
	}
}

func (r *Report) lacks(name string) bool {
	for _, result := range r.Results {
		if result.Name == name {
			return result.Status == Missing
		}
	}
	return false
}

func ok(detail string) Result { return Result{Status: OK, Detail: detail} }

func degraded(detail, remedy string) Result {
	return Result{Status: Degraded, Detail: detail, Remedy: remedy}
}

func missing(detail, remedy string) Result {
	return Result{Status: Missing, Detail: detail, Remedy: remedy}
}
