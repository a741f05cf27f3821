// SPDX-License-Identifier: Apache-2.0

package views

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/problem"
	"github.com/xlb-project/xlb/internal/workload"
)

// Selector selects workloads that have all that its fields ask for. Fields that are empty ask for nothing; one at least is not.
type Selector struct {
	// Namespace and Pod are Kubernetes', as a container runtime reports them. What ends in * is the beginning of one.
	Namespace, Pod string
	// Labels are some that the pod has, in the order of their keys.
	Labels []Label
	// Cgroup is the path of a cgroup, with "/" first and no last one, but for the root. Processes of those below it are selected, too.
	Cgroup string
	// Netns is the name of a network namespace in a watched directory, or the path of that file.
	Netns string
	// Host is the host's own network namespace. Then the other fields are empty.
	Host bool
}

// Of is the view of a workload: the first one that selects it, or the shared one, which is the zero value. A template selects workloads with
// all the values known that it has in ForEach.
func (f *File) Of(facts workload.Facts) View {
	for i := range f.Views {
		v := &f.Views[i]
		if !slices.ContainsFunc(v.Select, func(s Selector) bool { return s.selects(facts) }) {
			continue
		}
		values, isKnown := v.valuesOf(facts)
		switch {
		case !isKnown:
		case v.IsTemplate():
			return v.of(values)
		default:
			return *v
		}
	}
	return View{}
}

// Basis is what selectors of the file look at.
func (f *File) Basis() (b workload.Basis) {
	for i := range f.Views {
		for _, s := range f.Views[i].Select {
			b.Cgroup = b.Cgroup || s.Cgroup != ""
			b.Netns = b.Netns || s.Netns != ""
		}
		b.Netns = b.Netns || slices.Contains(f.Views[i].ForEach, "netns")
	}
	return b
}

// SelectsPods is the name of a view that has a selector by what a container runtime reports, or is a template of such values; empty: no view has.
func (f *File) SelectsPods() string {
	for i := range f.Views {
		if slices.ContainsFunc(f.Views[i].ForEach, func(name string) bool { return name != "netns" }) {
			return f.Views[i].Name
		}
	}
	return f.withSelector(func(s Selector) bool { return s.Namespace+s.Pod != "" || len(s.Labels) > 0 })
}

// selectsHost is the name of a view that has a selector of the host's own network namespace, selectsOthers of one that selects other ones; empty: no view has.
func (f *File) selectsHost() string { return f.withSelector(func(s Selector) bool { return s.Host }) }

func (f *File) selectsOthers() string {
	return f.withSelector(func(s Selector) bool { return !s.Host })
}

// withSelector is the name of the first view that has such a selector.
func (f *File) withSelector(is func(Selector) bool) string {
	for i := range f.Views {
		if slices.ContainsFunc(f.Views[i].Select, is) {
			return f.Views[i].Name
		}
	}
	return ""
}

// selects reports whether a workload has all that the selector asks for. What is not known of the workload it does not have.
func (s Selector) selects(facts workload.Facts) bool {
	if s.isEmpty() || s.Host != facts.Host {
		return false
	}
	return isLike(s.Namespace, facts.Namespace) && isLike(s.Pod, facts.Pod) && isBelow(s.Cgroup, facts.Cgroup) && isCalled(s.Netns, facts.Netns) && hasAll(s.Labels, facts.Labels)
}

// isEmpty reports a selector that asks for nothing.
func (s Selector) isEmpty() bool {
	return s.Namespace+s.Pod+s.Cgroup+s.Netns == "" && !s.Host && len(s.Labels) == 0
}

// isLike reports whether a name is the one asked for, or begins with it.
func isLike(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	start, isStart := strings.CutSuffix(pattern, "*")
	if isStart {
		return name != "" && strings.HasPrefix(name, start)
	}
	return name == pattern
}

// isBelow reports whether a cgroup is the one asked for, or below it. One that lies outside the daemon's cgroup namespace begins with "/..": it is below the root
// alone.
func isBelow(top, cgroup string) bool {
	if top == "" {
		return true
	}
	below, ok := strings.CutPrefix(cgroup, strings.TrimSuffix(top, "/"))
	return ok && cgroup != "" && (below == "" || below[0] == '/')
}

// isCalled reports whether the file of a network namespace is the one asked for, or has that name.
func isCalled(wish, file string) bool {
	switch {
	case wish == "":
		return true
	case file == "":
		return false
	case strings.HasPrefix(wish, "/"):
		return inRun(wish) == inRun(file)
	}
	return wish == filepath.Base(file)
}

// inRun is a path with /run in place of /var/run, which is a link to it (Filesystem Hierarchy Standard 3.0, 5.13).
func inRun(file string) string {
	if strings.HasPrefix(file, "/var/run/") {
		return strings.TrimPrefix(file, "/var")
	}
	return file
}

func selector(p *problem.List, at string, value any) Selector {
	f := mapping(p, at, value, "namespace", "pod", "cgroup", "netns", "host", "labels")
	s := Selector{Namespace: pattern(f, "namespace", "shop"), Pod: pattern(f, "pod", "web-*"), Labels: labels(f), Cgroup: cgroup(f), Netns: netns(f), Host: host(f)}
	switch {
	case f.values != nil && len(f.values) == 0:
		p.Add(at, "selects no workload: name namespace, pod, labels, cgroup, netns or host")
	case s.Host && len(f.values) > 1:
		f.add("host", "the host's own network namespace is in no pod, and has neither name nor cgroup: give it a selector of its own, {host: true}")
	}
	return s
}

// podName is of the characters that names of Kubernetes' pods and namespaces are of.
var podName = regexp.MustCompile(`^[-.a-z0-9]{0,253}$`)

func pattern(f fields, name, example string) string {
	rule := "want the name of a " + kindOf[name] + ", as in " + example + ", or its beginning and * behind that"
	text, ok := f.text(name, rule)
	if !ok {
		return ""
	}
	switch start := strings.TrimSuffix(text, "*"); {
	case strings.Contains(start, "*"):
		f.add(name, "* stands at the end alone, once: %s", rule)
	case !podName.MatchString(start):
		f.add(name, "no %s has such a name, which is of lower-case letters, digits, - and ., at most 253 of them: %s", kindOf[name], rule)
	}
	return text
}

// kindOf says what has the name that a field asks for.
var kindOf = map[string]string{"namespace": "Kubernetes namespace", "pod": "pod"}

func cgroup(f fields) string {
	const rule = "want the path of a cgroup from the root on, as the line 0:: of /proc/PID/cgroup has it, as in /kubepods/burstable"
	text, ok := f.text("cgroup", rule)
	switch {
	case !ok:
	case isBelow("/sys/fs/cgroup", text):
		f.add("cgroup", "leave out where cgroups are mounted, /sys/fs/cgroup: %s", rule)
	case text[0] != '/':
		f.add("cgroup", "is relative: %s", rule)
	case filepath.Clean(text) != text:
		f.add("cgroup", "has a last /, two of them in a row, . or ..: %s", rule)
	}
	return text
}

func netns(f fields) string {
	const rule = `want the name of a network namespace, as "ip netns" has it, or the path of its file, as in /run/netns/blue`
	text, ok := f.text("netns", rule)
	switch {
	case !ok:
	case text[0] == '/' && (text == "/" || filepath.Clean(text) != text):
		f.add("netns", "has a last /, two of them in a row, . or ..: %s", rule)
	case text[0] != '/' && strings.Contains(text, "/"), text == ".", text == "..":
		f.add("netns", "is neither a name nor an absolute path: %s", rule)
	}
	return text
}

func host(f fields) bool {
	is, isBool := f.values["host"].(bool)
	if f.has("host") && (!isBool || !is) {
		f.add("host", "want true; remove the field where the host's own network namespace is not meant")
	}
	return is
}
