// SPDX-License-Identifier: Apache-2.0

package views

import (
	"path"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/pod"
	"github.com/xlb-project/xlb/internal/problem"
	"github.com/xlb-project/xlb/internal/workload"
)

// maxForEach bounds the values that the views of a template differ in.
const maxForEach = 8

// labelValueOf stands in front of the key of a label, as in labels.app.
const labelValueOf = "labels."

// IsTemplate reports whether there is a view for each combination of the values in ForEach, and not one view.
func (v *View) IsTemplate() bool { return len(v.ForEach) > 0 }

// Checkable is the view with which the bootstrap is checked: v itself, and of a template one that it might make, whose values are their own names.
func (v *View) Checkable() View {
	if v.IsTemplate() {
		return v.of(v.ForEach)
	}
	return *v
}

// of is the view of a template for these values, in the order of ForEach. It has no number. Its name has the names of the values, too: where these change views are
// others, whatever the values. No value has a "/" or "=" in it: two views never have one name.
func (v *View) of(values []string) View {
	name := v.Name
	for i, value := range values {
		name += "/" + v.ForEach[i] + "=" + value
	}
	return View{
		View: model.View{Name: name}, Config: v.Config, values: values,
		Node: v.node.of(func(name string) string {
			if i := slices.Index(v.ForEach, name); i >= 0 {
				return values[i]
			}
			return constant(name)
		}),
	}
}

// Makes reports whether a template of the file makes a view as another file's template has made it: by that name, from the same sources.
func (f *File) Makes(v *View) bool {
	return slices.ContainsFunc(f.Views, func(template View) bool {
		if !strings.HasPrefix(v.Name, template.Name+"/") || len(template.ForEach) != len(v.values) {
			return false
		}
		made := template.of(v.values)
		return made.Name == v.Name && made.HasSourcesOf(v)
	})
}

// valuesOf are those by which a template tells a workload from others; false: one of them is not known.
func (v *View) valuesOf(facts workload.Facts) (values []string, ok bool) {
	for _, name := range v.ForEach {
		value, ok := valueOf(name, facts)
		if !ok {
			return nil, false
		}
		values = append(values, value)
	}
	return values, true
}

// valueOf is what is known of a workload by a name. A label that it has may be empty.
func valueOf(name string, facts workload.Facts) (value string, ok bool) {
	switch name {
	case "namespace":
		value = facts.Namespace
	case "pod":
		value = facts.Pod
	case "netns":
		if facts.Netns != "" {
			value = path.Base(facts.Netns)
		}
	default:
		return facts.Labels.Get(strings.TrimPrefix(name, labelValueOf))
	}
	return value, value != "" && strings.IndexFunc(value, isOther) < 0
}

// isOther reports a character that no value has: names of pods and labels do not. A file that is a network namespace may have such a name, which then stands for
// nothing.
func isOther(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("-_.:", r)
}

const forEachRule = "want the names of what is known of a workload: namespace, pod, netns, or labels. and the key of a label, as in labels.app"

// forEach are the values by which workloads have views of their own. nil: there is one view, or what there is has been reported.
func forEach(f fields) (names []string) {
	if !f.has("for_each") {
		return nil
	}
	list := f.list("for_each", forEachRule, maxForEach, func(at string, value any) {
		name, isText := value.(string)
		switch key, isLabel := strings.CutPrefix(name, labelValueOf); {
		case !isText:
			f.problems.Add(at, "%s", noText(value, forEachRule))
		case isLabel && !pod.IsLabelKey(key), isLabel && pod.IsOfKubelet(key):
			f.problems.Add(at, "%q is no key of a label of a pod: %s", key, forEachRule)
		case !isLabel && name != "namespace" && name != "pod" && name != "netns":
			f.problems.Add(at, "%q is not known of a workload: %s", name, forEachRule)
		case slices.Contains(names, name):
			f.problems.Add(at, "%s stands here twice: remove one", name)
		}
		names = append(names, name)
	})
	if list != nil && len(list) == 0 {
		f.add("for_each", "is empty: %s; remove the field where there is one view", forEachRule)
	}
	return names
}

// checkTemplate refuses a template of which two views would be one node to a control plane, or that selects the host, of which nothing is known.
func checkTemplate(f fields, v *View) {
	if !v.IsTemplate() {
		return
	}
	if i := slices.IndexFunc(v.Select, func(s Selector) bool { return s.Host }); i >= 0 {
		f.problems.Add(problem.At(f.at("select"), i)+".host", "nothing in for_each is known of the host's own network namespace: give it a view of its own")
	}
	if v.node == nil {
		f.add("node", "required with for_each: want {id: ...}, with each value of it in braces, so that a control plane knows the views apart")
		return
	}
	used := map[string]bool{}
	v.node.id.each(func(name string) { used[name] = true })
	for _, name := range v.ForEach {
		if !used[name] {
			f.problems.Add(f.at("node")+".id", "has no {%s}: two views that differ in it would be one node to a control plane", name)
			return
		}
	}
	if name := v.node.id.confuses(v.ForEach); name != "" {
		f.problems.Add(f.at("node")+".id", "{%s} runs into what is beside it: two views would be one node to a control plane; put a character between that no value has, as in {namespace}~{pod}", name)
	}
}
