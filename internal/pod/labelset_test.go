// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func mustKeep(t *testing.T, labels map[string]string) Labels {
	t.Helper()
	kept, err := LabelsOf(labels)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func TestLabelsOfAPodAreKept(t *testing.T) {
	long := strings.Repeat("a", 63)
	prefix := strings.Repeat("a", 251) + ".b"
	tests := []struct {
		name   string
		labels map[string]string
		want   string
	}{
		{"no map", nil, ""},
		{"none", map[string]string{}, ""},
		{"in the order of their keys", map[string]string{"tier": "front", "app": "web", "app.kubernetes.io/name": "web"}, "app=web,app.kubernetes.io/name=web,tier=front"},
		{"empty value", map[string]string{"app": ""}, "app="},
		{"the longest", map[string]string{prefix + "/" + long: long}, prefix + "/" + long + "=" + long},
		{"key that is longer", map[string]string{long + "a": "x", "app": "web"}, "app=web"},
		{"prefix that is longer", map[string]string{"a" + prefix + "/a": "x", "app": "web"}, "app=web"},
		{"value that is longer", map[string]string{"app": long + "a", "tier": "front"}, "tier=front"},
		{"no key of Kubernetes", map[string]string{"a=b": "x", "a b": "x", "": "x", "/a": "x", "a/": "x", "a/b/c": "x", "A/b": "x", "a\nb": "x"}, ""},
		{"no value of Kubernetes", map[string]string{"a": "b=c", "b": "-a", "c": "a\nd=e", "d": "é"}, ""},
		{"of the kubelet", map[string]string{"io.kubernetes.pod.name": "web-0", "io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.uid": "1", "io.kubernetes.pod": "own"}, "io.kubernetes.pod=own"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := mustKeep(t, tt.labels).String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestALabelIsFoundByItsWholeKey(t *testing.T) {
	l := mustKeep(t, map[string]string{"app": "web", "app.b": "x", "b": "", "z": "last"})
	tests := []struct {
		name, key, want string
		ok              bool
	}{
		{"first", "app", "web", true},
		{"last", "z", "last", true},
		{"empty value", "b", "", true},
		{"beginning of a key", "ap", "", false},
		{"end of a key", "pp", "", false},
		{"a value", "web", "", false},
		{"no key", "", "", false},
		{"a key and its value", "app=web", "", false},
		{"two lines", "app=web\nb", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ok := l.Get(tt.key); got != tt.want || ok != tt.ok {
				t.Errorf("got %q, %v, want %q, %v", got, ok, tt.want, tt.ok)
			}
			if got, ok := (Labels{}).Get(tt.key); ok {
				t.Errorf("without labels: got %q", got)
			}
		})
	}
}

func TestEqualLabelsAreOne(t *testing.T) {
	one := map[string]string{"app": "web", "tier": "front", "io.kubernetes.pod.name": "web-0"}
	other := maps.Clone(one)
	other["io.kubernetes.pod.name"] = "web-1"
	if a, b := mustKeep(t, one), mustKeep(t, other); a != b || !a.Equal(b) {
		t.Errorf("%s and %s differ", a, b)
	}
	other["tier"] = "back"
	if a, b := mustKeep(t, one), mustKeep(t, other); a == b || a.Equal(b) {
		t.Errorf("%s and %s are one", a, b)
	}
	if mustKeep(t, nil) != (Labels{}) {
		t.Error("no labels are not the zero value")
	}
}

func TestLabelsBeyondTheirBoundAreNotKept(t *testing.T) {
	// 64 bytes each: a key of 4, a value of 58, and two more.
	labels := map[string]string{}
	for i := range maxLabels / 64 {
		labels[fmt.Sprintf("a%03d", i)] = strings.Repeat("v", 58)
	}
	if l := mustKeep(t, labels); len(l.lines.Value()) != maxLabels {
		t.Errorf("%d bytes are kept, want %d", len(l.lines.Value()), maxLabels)
	}
	labels["not one of Kubernetes"] = strings.Repeat("v", maxLabels)
	mustKeep(t, labels)
	labels["a000"] += "v"
	if l, err := LabelsOf(labels); err == nil || err.Error() != "they have 8193 bytes; at most 8192 are taken" || l != (Labels{}) {
		t.Errorf("got %v, %v, want an error", l, err)
	}
}

func FuzzLabels(f *testing.F) {
	f.Add("app", "web", "tier", "front")
	f.Add("a.b/c", "", "a", "b=c")
	f.Add("a\nb", "x", "", "x\ny=z")
	f.Fuzz(func(t *testing.T, key, value, key2, value2 string) {
		labels := map[string]string{key: value, key2: value2}
		l, err := LabelsOf(labels)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{key, key2, value, value2} {
			got, ok := l.Get(k)
			want, isThere := labels[k]
			if isThere = isThere && isKept(k, want); ok != isThere || ok && got != want {
				t.Fatalf("%q of %q: got %q, %v, want %q, %v", k, labels, got, ok, want, isThere)
			}
		}
	})
}
