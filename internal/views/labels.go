// SPDX-License-Identifier: Apache-2.0

package views

import (
	"maps"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/pod"
	"github.com/xlb-project/xlb/internal/problem"
)

// Label is a label that a selector asks for: its key, and its value, which may be empty. What ends in * is the beginning of a value, or all of it.
type Label struct{ Key, Value string }

// hasAll reports whether a pod has all of these labels.
func hasAll(wish []Label, labels pod.Labels) bool {
	return !slices.ContainsFunc(wish, func(l Label) bool { return !l.isAmong(labels) })
}

func (l Label) isAmong(labels pod.Labels) bool {
	value, ok := labels.Get(l.Key)
	start, isStart := strings.CutSuffix(l.Value, "*")
	return ok && (value == l.Value || isStart && strings.HasPrefix(value, start))
}

const labelsRule = "want labels that a pod has, as in {app: web, tier: front*}"

// labels are those of a selector. nil: it has none, or what it has is no mapping, which has been reported.
func labels(f fields) (all []Label) {
	if !f.has("labels") {
		return nil
	}
	values, ok := f.values["labels"].(map[string]any)
	switch {
	case !ok:
		f.add("labels", "is no mapping: %s", labelsRule)
	case len(values) == 0:
		f.add("labels", "asks for no label: %s, or remove the field", labelsRule)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		all = append(all, label(f, key, values[key]))
	}
	return all
}

// label reads one of them. A key that may be a secret is not quoted.
func label(f fields, key string, value any) Label {
	at := problem.Key(f.at("labels"), key)
	switch {
	case !pod.IsLabelKey(key) && !document.IsName(key):
		f.add("labels", "a key is no key of a label of Kubernetes: want one as in app or example.com/tier")
		return Label{}
	case !pod.IsLabelKey(key):
		f.problems.Add(at, "is no key of a label of Kubernetes: want one as in app or example.com/tier")
	case pod.IsOfKubelet(key):
		f.problems.Add(at, "is no label of the pod's own, but of the kubelet's: select by pod and namespace")
	}
	return Label{key, labelValue(f.problems, at, value)}
}

func labelValue(p *problem.List, at string, value any) string {
	const rule = "want the value of a label, as in web, or its beginning and * behind that, or '' for one that is empty"
	text, ok := value.(string)
	if !ok {
		p.Add(at, "%s", noText(value, rule))
		return ""
	}
	switch start, isStart := strings.CutSuffix(text, "*"); {
	case strings.Contains(start, "*"):
		p.Add(at, "* stands at the end alone, once: %s", rule)
	case !isStart && !pod.IsLabelValue(text), isStart && !isStartOfValue(start):
		p.Add(at, "no label has such a value, which is of letters, digits, -, _ and ., at most 63 of them, a letter or digit first and last: %s", rule)
	}
	return text
}

// isStartOfValue reports what the value of a label may begin with: a letter or digit completes it.
func isStartOfValue(start string) bool { return pod.IsLabelValue(start) || pod.IsLabelValue(start+"a") }
