// SPDX-License-Identifier: Apache-2.0

package views

import (
	"reflect"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/pod"
	"github.com/xlb-project/xlb/internal/problem"
	"github.com/xlb-project/xlb/internal/workload"
)

func TestASelectorSelectsWhatHasAllOfItsFields(t *testing.T) {
	web := workload.Facts{
		Namespace: "shop", Pod: "web-0", Labels: labelsOf(t, map[string]string{"app": "web", "tier": "front-2", "canary": ""}),
		Cgroup: "/kubepods/pod1/main", Netns: "/run/netns/cni-1",
	}
	host := workload.Facts{Host: true}
	tests := []struct {
		name  string
		s     Selector
		facts workload.Facts
		want  bool
	}{
		{"no field", Selector{}, web, false},
		{"no field, nothing known", Selector{}, workload.Facts{}, false},
		{"namespace", Selector{Namespace: "shop"}, web, true},
		{"another namespace", Selector{Namespace: "shop2"}, web, false},
		{"beginning of a namespace without *", Selector{Namespace: "sho"}, web, false},
		{"beginning of a namespace", Selector{Namespace: "sho*"}, web, true},
		{"whole name and *", Selector{Namespace: "shop*"}, web, true},
		{"any namespace", Selector{Namespace: "*"}, web, true},
		{"any namespace of what is no pod", Selector{Namespace: "*"}, workload.Facts{Netns: "/run/netns/blue"}, false},
		{"pod", Selector{Pod: "web-0"}, web, true},
		{"pods", Selector{Namespace: "shop", Pod: "web-*"}, web, true},
		{"pods of another namespace", Selector{Namespace: "bank", Pod: "web-*"}, web, false},
		{"other pods of the namespace", Selector{Namespace: "shop", Pod: "api-*"}, web, false},
		{"any pod of what is no pod", Selector{Pod: "*"}, workload.Facts{Cgroup: "/a"}, false},
		{"label", Selector{Labels: []Label{{"app", "web"}}}, web, true},
		{"another value of a label", Selector{Labels: []Label{{"app", "webs"}}}, web, false},
		{"beginning of a label's value without *", Selector{Labels: []Label{{"tier", "front"}}}, web, false},
		{"beginning of a label's value", Selector{Labels: []Label{{"tier", "front*"}}}, web, true},
		{"whole value and *", Selector{Labels: []Label{{"tier", "front-2*"}}}, web, true},
		{"another beginning", Selector{Labels: []Label{{"tier", "back*"}}}, web, false},
		{"label that it does not have", Selector{Labels: []Label{{"team", "web"}}}, web, false},
		{"empty value", Selector{Labels: []Label{{"canary", ""}}}, web, true},
		{"empty value, the label has one", Selector{Labels: []Label{{"app", ""}}}, web, false},
		{"empty value, no such label", Selector{Labels: []Label{{"team", ""}}}, web, false},
		{"any value", Selector{Labels: []Label{{"app", "*"}}}, web, true},
		{"any value, also an empty one", Selector{Labels: []Label{{"canary", "*"}}}, web, true},
		{"any value, no such label", Selector{Labels: []Label{{"team", "*"}}}, web, false},
		{"labels", Selector{Labels: []Label{{"app", "web"}, {"tier", "front-2"}}}, web, true},
		{"labels, but for one", Selector{Labels: []Label{{"app", "web"}, {"team", "a"}, {"tier", "front-2"}}}, web, false},
		{"labels and namespace", Selector{Namespace: "shop", Labels: []Label{{"app", "web"}}}, web, true},
		{"labels in another namespace", Selector{Namespace: "bank", Labels: []Label{{"app", "web"}}}, web, false},
		{"labels of what is no pod", Selector{Labels: []Label{{"app", "*"}}}, workload.Facts{Cgroup: "/a"}, false},
		{"its cgroup", Selector{Cgroup: "/kubepods/pod1/main"}, web, true},
		{"cgroup above", Selector{Cgroup: "/kubepods"}, web, true},
		{"root of cgroups", Selector{Cgroup: "/"}, web, true},
		{"root of cgroups, process in it", Selector{Cgroup: "/"}, workload.Facts{Cgroup: "/"}, true},
		{"root of cgroups, no cgroup known", Selector{Cgroup: "/"}, workload.Facts{Netns: "/run/netns/blue"}, false},
		{"cgroup below", Selector{Cgroup: "/kubepods/pod1/main/a"}, web, false},
		{"cgroup whose name begins alike", Selector{Cgroup: "/kubepods/pod"}, web, false},
		{"cgroup at another level", Selector{Cgroup: "/pod1"}, web, false},
		{"name of a network namespace", Selector{Netns: "cni-1"}, web, true},
		{"another name", Selector{Netns: "cni-11"}, web, false},
		{"file of a network namespace", Selector{Netns: "/run/netns/cni-1"}, web, true},
		{"file in /var/run", Selector{Netns: "/var/run/netns/cni-1"}, web, true},
		{"file of docker's", Selector{Netns: "/run/docker/netns/1"}, workload.Facts{Netns: "/var/run/docker/netns/1"}, true},
		{"same name in another directory", Selector{Netns: "/run/docker/netns/cni-1"}, web, false},
		{"name, none known", Selector{Netns: "blue"}, workload.Facts{Cgroup: "/a"}, false},
		{"all fields", Selector{Namespace: "shop", Pod: "web-0", Cgroup: "/kubepods", Netns: "cni-1"}, web, true},
		{"all fields but one", Selector{Namespace: "shop", Pod: "web-0", Cgroup: "/kubepods", Netns: "cni-2"}, web, false},
		{"host", Selector{Host: true}, host, true},
		{"host, of a pod", Selector{Host: true}, web, false},
		{"pod, of the host", Selector{Pod: "*"}, host, false},
		{"label, of the host", Selector{Labels: []Label{{"app", "*"}}}, host, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.s.selects(tt.facts); got != tt.want {
				t.Errorf("%+v selects %+v: %v, want %v", tt.s, tt.facts, got, tt.want)
			}
		})
	}
}

func TestTheFirstViewThatSelectsIsTheWorkloads(t *testing.T) {
	f := mustParse(t, whole)
	tests := []struct {
		name  string
		facts workload.Facts
		want  string
	}{
		{"first selector of the first view", workload.Facts{Namespace: "shop", Pod: "web-1"}, "shop"},
		{"labels", workload.Facts{Namespace: "shop", Pod: "api-1", Labels: labelsOf(t, map[string]string{"app": "web", "tier": "front"})}, "shop"},
		{"other labels", workload.Facts{Namespace: "shop", Pod: "api-1", Labels: labelsOf(t, map[string]string{"app": "web", "tier": "back"})}, ""},
		{"last selector of the first view", workload.Facts{Netns: "/run/netns/blue"}, "shop"},
		{"second view", workload.Facts{Netns: "/run/netns/red", Cgroup: "/a"}, "host-2"},
		{"both", workload.Facts{Netns: "/run/netns/red", Cgroup: "/tenants/shop/a"}, "shop"},
		{"host", workload.Facts{Host: true}, "host-2"},
		{"no view", workload.Facts{Namespace: "shop", Pod: "api-1", Cgroup: "/tenants/shop2", Netns: "/run/netns/green"}, ""},
		{"nothing known", workload.Facts{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := f.Of(tt.facts).Name; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAViewOfPodsIsNamed(t *testing.T) {
	tests := []struct{ name, selectors, want string }{
		{"namespace", "[{netns: a}, {namespace: a}]", "a"},
		{"pod", "[{pod: a}]", "a"},
		{"labels", "[{cgroup: /a, labels: {app: web}}]", "a"},
		{"others", "[{cgroup: /a}, {netns: a}, {host: true}]", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := mustParse(t, oneView("select", tt.selectors)).SelectsPods(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestABasisIsWhatSelectorsLookAt(t *testing.T) {
	tests := []struct {
		name, selectors string
		want            workload.Basis
	}{
		{"pods and host", "[{pod: a}, {namespace: b}, {labels: {a: b}}, {host: true}]", workload.Basis{}},
		{"cgroup", "[{pod: a}, {cgroup: /a}]", workload.Basis{Cgroup: true}},
		{"network namespace", "[{netns: a}, {pod: a}]", workload.Basis{Netns: true}},
		{"both", "[{netns: a, cgroup: /a}]", workload.Basis{Cgroup: true, Netns: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := mustParse(t, oneView("select", tt.selectors)).Basis(); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func labelsOf(t *testing.T, labels map[string]string) pod.Labels {
	t.Helper()
	kept, err := pod.LabelsOf(labels)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func mustParse(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func FuzzFile(f *testing.F) {
	for _, text := range []string{whole, oneView("select", "[{host: true}, {pod: '*'}]"), oneView("select", "[{}]"), oneView("select", "[{namespace: }]"), oneView("select", "[{labels: {}}]"), oneView("select", "[{labels: {a.b/c: d*, e: ''}}]"), "views: [&a {select: [*a]}]"} {
		f.Add(text, "shop", "web-0", "e", "d", "/tenants/shop/a", "/run/netns/blue")
	}
	f.Fuzz(func(t *testing.T, text, namespace, name, key, value, cgroup, netns string) {
		file, err := Parse("f.yaml", []byte(text))
		if err != nil {
			if file != nil || len(problem.PartsOf(err)) == 0 {
				t.Fatalf("%v beside %+v", err, file)
			}
			return
		}
		labels, err := pod.LabelsOf(map[string]string{key: value})
		if err != nil {
			t.Fatal(err)
		}
		facts := []workload.Facts{{}, {Host: true}, {Namespace: namespace, Pod: name, Labels: labels, Cgroup: cgroup, Netns: netns}}
		names := map[string]bool{}
		for _, view := range file.Views {
			mustBeUsable(t, view)
			names[view.Name] = true
		}
		if len(names) != len(file.Views) || len(names) > maxViews {
			t.Fatalf("%d views with %d names", len(file.Views), len(names))
		}
		if name := file.Of(facts[0]).Name; name != "" {
			t.Fatalf("view %s selects a workload of which nothing is known", name)
		}
		for _, one := range facts {
			if name := file.Of(one).Name; name != "" && !names[name] {
				t.Fatalf("view %q is not in the file", name)
			}
		}
	})
}

func mustBeUsable(t *testing.T, view View) {
	t.Helper()
	if !viewName.MatchString(view.Name) || view.Name == shared || view.Config == "" || len(view.Select) == 0 {
		t.Fatalf("a view breaks the rules: %+v", view)
	}
	for _, s := range view.Select {
		if s.isEmpty() || s.Host && !reflect.DeepEqual(s, Selector{Host: true}) {
			t.Fatalf("view %s has the selector %+v", view.Name, s)
		}
		for _, l := range s.Labels {
			if !pod.IsLabelKey(l.Key) || pod.IsOfKubelet(l.Key) || !strings.HasSuffix(l.Value, "*") && !pod.IsLabelValue(l.Value) {
				t.Fatalf("view %s asks for the label %+v", view.Name, l)
			}
		}
	}
}
