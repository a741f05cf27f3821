// SPDX-License-Identifier: Apache-2.0

package views

import (
	"testing"

	"github.com/xlb-project/xlb/internal/problem"
	"github.com/xlb-project/xlb/internal/workload"
)

func TestASelectorSelectsWhatHasAllOfItsFields(t *testing.T) {
	pod := workload.Facts{Namespace: "shop", Pod: "web-0", Cgroup: "/kubepods/pod1/main", Netns: "/run/netns/cni-1"}
	host := workload.Facts{Host: true}
	tests := []struct {
		name  string
		s     Selector
		facts workload.Facts
		want  bool
	}{
		{"no field", Selector{}, pod, false},
		{"no field, nothing known", Selector{}, workload.Facts{}, false},
		{"namespace", Selector{Namespace: "shop"}, pod, true},
		{"another namespace", Selector{Namespace: "shop2"}, pod, false},
		{"beginning of a namespace without *", Selector{Namespace: "sho"}, pod, false},
		{"beginning of a namespace", Selector{Namespace: "sho*"}, pod, true},
		{"whole name and *", Selector{Namespace: "shop*"}, pod, true},
		{"any namespace", Selector{Namespace: "*"}, pod, true},
		{"any namespace of what is no pod", Selector{Namespace: "*"}, workload.Facts{Netns: "/run/netns/blue"}, false},
		{"pod", Selector{Pod: "web-0"}, pod, true},
		{"pods", Selector{Namespace: "shop", Pod: "web-*"}, pod, true},
		{"pods of another namespace", Selector{Namespace: "bank", Pod: "web-*"}, pod, false},
		{"other pods of the namespace", Selector{Namespace: "shop", Pod: "api-*"}, pod, false},
		{"any pod of what is no pod", Selector{Pod: "*"}, workload.Facts{Cgroup: "/a"}, false},
		{"its cgroup", Selector{Cgroup: "/kubepods/pod1/main"}, pod, true},
		{"cgroup above", Selector{Cgroup: "/kubepods"}, pod, true},
		{"root of cgroups", Selector{Cgroup: "/"}, pod, true},
		{"root of cgroups, process in it", Selector{Cgroup: "/"}, workload.Facts{Cgroup: "/"}, true},
		{"root of cgroups, no cgroup known", Selector{Cgroup: "/"}, workload.Facts{Netns: "/run/netns/blue"}, false},
		{"cgroup below", Selector{Cgroup: "/kubepods/pod1/main/a"}, pod, false},
		{"cgroup whose name begins alike", Selector{Cgroup: "/kubepods/pod"}, pod, false},
		{"cgroup at another level", Selector{Cgroup: "/pod1"}, pod, false},
		{"name of a network namespace", Selector{Netns: "cni-1"}, pod, true},
		{"another name", Selector{Netns: "cni-11"}, pod, false},
		{"file of a network namespace", Selector{Netns: "/run/netns/cni-1"}, pod, true},
		{"file in /var/run", Selector{Netns: "/var/run/netns/cni-1"}, pod, true},
		{"file of docker's", Selector{Netns: "/run/docker/netns/1"}, workload.Facts{Netns: "/var/run/docker/netns/1"}, true},
		{"same name in another directory", Selector{Netns: "/run/docker/netns/cni-1"}, pod, false},
		{"name, none known", Selector{Netns: "blue"}, workload.Facts{Cgroup: "/a"}, false},
		{"all fields", Selector{Namespace: "shop", Pod: "web-0", Cgroup: "/kubepods", Netns: "cni-1"}, pod, true},
		{"all fields but one", Selector{Namespace: "shop", Pod: "web-0", Cgroup: "/kubepods", Netns: "cni-2"}, pod, false},
		{"host", Selector{Host: true}, host, true},
		{"host, of a pod", Selector{Host: true}, pod, false},
		{"pod, of the host", Selector{Pod: "*"}, host, false},
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

func TestABasisIsWhatSelectorsLookAt(t *testing.T) {
	tests := []struct {
		name, selectors string
		want            workload.Basis
	}{
		{"pods and host", "[{pod: a}, {namespace: b}, {host: true}]", workload.Basis{}},
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

func mustParse(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func FuzzFile(f *testing.F) {
	for _, text := range []string{whole, oneView("select", "[{host: true}, {pod: '*'}]"), oneView("select", "[{}]"), oneView("select", "[{namespace: }]"), oneView("select", "[{labels: {}}]"), "views: [&a {select: [*a]}]"} {
		f.Add(text, "shop", "web-0", "/tenants/shop/a", "/run/netns/blue")
	}
	f.Fuzz(func(t *testing.T, text, namespace, pod, cgroup, netns string) {
		file, err := Parse("f.yaml", []byte(text))
		if err != nil {
			if file != nil || len(problem.PartsOf(err)) == 0 {
				t.Fatalf("%v beside %+v", err, file)
			}
			return
		}
		facts := []workload.Facts{{}, {Host: true}, {Namespace: namespace, Pod: pod, Cgroup: cgroup, Netns: netns}}
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
		if s == (Selector{}) || s.Host && s != (Selector{Host: true}) {
			t.Fatalf("view %s has the selector %+v", view.Name, s)
		}
	}
}
