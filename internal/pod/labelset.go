// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unique"
)

// maxLabels bounds what is kept of the labels of a pod, in bytes of keys and values and two more for each label. Kubernetes bounds neither their number nor their
// size all together.
const maxLabels = 8192

// Labels are those of a pod. == compares them: equal ones are kept once, whatever pods have them. The zero value has none.
type Labels struct {
	// lines are "key=value", each with an end of line, in the order of the keys.
	lines unique.Handle[string]
}

// LabelsOf keeps labels as a container runtime reports them. It leaves out those that Kubernetes does not take, and what the kubelet says of each pod by
// labels of its own: with that no two pods would have equal ones. The error says that they are more than 8 KiB: then it keeps nothing.
func LabelsOf(labels map[string]string) (Labels, error) {
	var size int
	for key, value := range labels {
		if isKept(key, value) {
			size += len(key) + len(value) + 2
		}
	}
	switch {
	case size == 0:
		return Labels{}, nil
	case size > maxLabels:
		return Labels{}, fmt.Errorf("they have %d bytes; at most %d are taken", size, maxLabels)
	}
	var lines strings.Builder
	lines.Grow(size)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if isKept(key, labels[key]) {
			lines.WriteString(key + "=" + labels[key] + "\n")
		}
	}
	return Labels{unique.Make(lines.String())}, nil
}

func isKept(key, value string) bool {
	return IsLabelKey(key) && IsLabelValue(value) && !IsOfKubelet(key)
}

// Get is the value of a label, which may be empty. false: there is no such label.
func (l Labels) Get(key string) (value string, ok bool) {
	if l == (Labels{}) {
		return "", false
	}
	for line := range strings.Lines(l.lines.Value()) {
		if name, value, _ := strings.Cut(line, "="); name == key {
			return strings.TrimSuffix(value, "\n"), true
		}
	}
	return "", false
}

// Equal is ==, for packages that do not compare fields which are not exported.
func (l Labels) Equal(other Labels) bool { return l == other }

// String is all of them as kubectl shows them: app=web,tier=front.
func (l Labels) String() string {
	if l == (Labels{}) {
		return ""
	}
	return strings.ReplaceAll(strings.TrimSuffix(l.lines.Value(), "\n"), "\n", ",")
}

// The bounds of Kubernetes for labels, in bytes: of a key's prefix, of its name behind that, and of a value.
const (
	maxPrefix = 253
	maxPart   = 63
)

var (
	labelPrefix = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	labelPart   = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

// IsLabelKey reports what Kubernetes takes as the key of a label: a name, as in app, or a name behind a prefix that is a DNS name, as in example.com/tier.
func IsLabelKey(key string) bool {
	prefix, name, isPrefixed := strings.Cut(key, "/")
	if !isPrefixed {
		name = prefix
	} else if len(prefix) > maxPrefix || !labelPrefix.MatchString(prefix) {
		return false
	}
	return len(name) <= maxPart && labelPart.MatchString(name)
}

// IsLabelValue reports what Kubernetes takes as the value of a label, which may be empty.
func IsLabelValue(value string) bool {
	return value == "" || len(value) <= maxPart && labelPart.MatchString(value)
}

// IsOfKubelet reports a label by which the kubelet gives a container runtime a pod's name, namespace or UID, which Pod has without it. The pod itself has no such label.
func IsOfKubelet(key string) bool {
	switch key {
	case "io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "io.kubernetes.pod.uid":
		return true
	}
	return false
}
