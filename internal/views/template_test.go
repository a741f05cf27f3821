// SPDX-License-Identifier: Apache-2.0

package views

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
	"github.com/xlb-project/xlb/internal/workload"
)

const tenants = `
views:
- name: fixed
  config: fixed.yaml
  node: {id: "fixed-{hostname}"}
  select: [{namespace: kube-system}]
- name: tenant
  config: tenant.yaml
  select: [{namespace: "*"}]
  for_each: [namespace, labels.example.com/tier]
  node:
    id: "{hostname}~{namespace}~{labels.example.com/tier}"
    cluster: "{namespace}"
    metadata: {NAMESPACE: "{namespace}", LABELS: {tier: "{labels.example.com/tier}"}, LIST: ["{{namespace}}", 7, true], "{namespace}": x}
- name: rest
  config: rest.yaml
  select: [{namespace: "*"}]
`

func hostnameOf(t *testing.T) string {
	t.Helper()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestATemplateMakesAViewForEachOfItsValues(t *testing.T) {
	f := mustParse(t, tenants)
	front := labelsOf(t, map[string]string{"example.com/tier": "front"})
	v := f.Of(workload.Facts{Namespace: "shop", Pod: "web-0", Labels: front})
	if v.View != (model.View{Name: "tenant/namespace=shop/labels.example.com/tier=front"}) || v.Config != "tenant.yaml" || v.IsTemplate() {
		t.Errorf("got %+v", v)
	}
	host := hostnameOf(t)
	if v.Node.ID != host+"~shop~front" || v.Node.Cluster != "shop" {
		t.Errorf("it is the node %q of the cluster %q", v.Node.ID, v.Node.Cluster)
	}
	want := map[string]any{"NAMESPACE": "shop", "LABELS": map[string]any{"tier": "front"}, "LIST": []any{"{namespace}", 7.0, true}, "{namespace}": "x"}
	if diff := cmp.Diff(want, v.Node.Metadata.AsMap()); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestATemplateSelectsThoseOfWhichAllOfItsValuesAreKnown(t *testing.T) {
	f := mustParse(t, tenants)
	empty := labelsOf(t, map[string]string{"example.com/tier": ""})
	tests := []struct {
		name  string
		facts workload.Facts
		want  model.View
	}{
		{"the view before it", workload.Facts{Namespace: "kube-system", Labels: empty}, model.View{Number: 1, Name: "fixed"}},
		{"empty label", workload.Facts{Namespace: "shop", Labels: empty}, model.View{Name: "tenant/namespace=shop/labels.example.com/tier="}},
		{"no such label", workload.Facts{Namespace: "shop"}, model.View{Number: 2, Name: "rest"}},
		{"no pod", workload.Facts{Netns: "/run/netns/blue"}, model.View{}},
		{"host", workload.Facts{Host: true}, model.View{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := f.Of(tt.facts).View; got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestANodeOfAViewIsAlsoOneOfAViewThatIsNoTemplate(t *testing.T) {
	v := mustParse(t, tenants).Views[0]
	if want := "fixed-" + hostnameOf(t); v.Node.ID != want || v.Node.Metadata != nil {
		t.Errorf("got %+v, want the ID %s alone", v.Node, want)
	}
	if v := mustParse(t, tenants).Views[2]; !v.Node.IsAs((&nodeText{}).of(constant)) {
		t.Errorf("a view without node has %+v", v.Node)
	}
}

// What a value has in it is text: a tenant may have chosen it.
func TestAValueIsNoTemplate(t *testing.T) {
	got := template("a-{netns}-{pod}-{{x}}").with(func(name string) string { return "{" + name + "}}" })
	if want := "a-{netns}}-{pod}}-{x}"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Two combinations of values never make views of one name.
func TestNamesOfMadeViewsDiffer(t *testing.T) {
	f := mustParse(t, `views: [{name: a, config: a.yaml, select: [{namespace: "*"}], for_each: [namespace, pod], node: {id: "{namespace}/{pod}"}}]`)
	seen := map[string]string{}
	for _, facts := range []workload.Facts{{Namespace: "a", Pod: "b-c"}, {Namespace: "a-b", Pod: "c"}, {Namespace: "a.b", Pod: "c"}, {Namespace: "a", Pod: "b.c"}} {
		name, what := f.Of(facts).Name, fmt.Sprintf("%+v", facts)
		if seen[name] != "" {
			t.Errorf("%s and %s both have the view %s", seen[name], what, name)
		}
		seen[name] = what
	}
}

// A view of other values is another one, though they are called alike: FILE may have changed.
func TestViewsOfOtherValuesHaveOtherNames(t *testing.T) {
	of := func(forEach string) string {
		return mustParse(t, `views: [{name: t, config: t.yaml, select: [{namespace: "*"}], for_each: [`+forEach+`], node: {id: "{`+forEach+`}"}}]`).Of(workload.Facts{Namespace: "shop", Pod: "shop"}).Name
	}
	if of("namespace") == of("pod") {
		t.Errorf("both are called %s", of("pod"))
	}
}

// What a node's ID may be made of: each value is found in it again.
func TestIDsOfMadeViewsDiffer(t *testing.T) {
	for _, id := range []string{
		"sidecar~10.0.0.7~{pod}.{namespace}~{namespace}.svc.cluster.local", "{namespace}/{pod}", "a-{pod}~{hostname}-{namespace}", "{pod}{pod}~{namespace}", "{namespace}~{pod}.{namespace}.{hostname}", "{namespace}{{1}}{pod}",
	} {
		mustParse(t, `views: [{name: t, config: t.yaml, select: [{namespace: "*"}], for_each: [namespace, pod], node: {id: "`+id+`"}}]`)
	}
}

// Names of files may have anything in them. What no control plane could be sent, and what a table of the terminal cannot show, is no value.
func TestAnOddNameOfANetworkNamespaceIsNoValue(t *testing.T) {
	f := mustParse(t, `views: [{name: t, config: t.yaml, select: [{cgroup: /t}], for_each: [netns], node: {id: "{netns}"}}]`)
	for _, name := range []string{"a~b", "a}b", "{hostname}", "a b", "a\nb", "\x1b[31m", "\xff", "a=b", ""} {
		if got := f.Of(workload.Facts{Cgroup: "/t", Netns: "/run/netns/" + name}).Name; name != "" && got != "" {
			t.Errorf("%q has the view %q", name, got)
		}
	}
}

func TestATemplateIsCheckedByAViewThatItMightMake(t *testing.T) {
	all := mustParse(t, tenants).Views
	if got := all[0].Checkable(); got.View != all[0].View || !got.HasSourcesOf(&all[0]) || len(got.Select) != 1 {
		t.Errorf("one that is no template is checked as %+v", got)
	}
	if got := all[1].Checkable(); got.Name != "tenant/namespace=namespace/labels.example.com/tier=labels.example.com/tier" || got.Node.Cluster != "namespace" {
		t.Errorf("got %+v", got)
	}
}

func TestOtherSourcesAreAnotherFileOrAnotherNode(t *testing.T) {
	of := func(namespace string) View {
		v := mustParse(t, tenants).Views[1]
		return v.of([]string{namespace, "x"})
	}
	a, b, c := of("a"), of("a"), of("c")
	if !a.HasSourcesOf(&b) || a.HasSourcesOf(&c) {
		t.Error("views are the same by their nodes")
	}
	b.Config = "other.yaml"
	if a.HasSourcesOf(&b) {
		t.Error("views of different files have the same sources")
	}
}

func TestAFileMakesViewsByItsTemplates(t *testing.T) {
	before := mustParse(t, tenants)
	made := before.Of(workload.Facts{Namespace: "shop", Labels: labelsOf(t, map[string]string{"example.com/tier": "front"})})
	for _, tt := range []struct {
		name, old, new string
		want           bool
	}{
		{"the same", "", "", true},
		{"selects others", "select: [{namespace: \"*\"}]\n  for_each", "select: [{namespace: shop}]\n  for_each", true},
		{"another file", "tenant.yaml", "other.yaml", false},
		{"another node", "cluster: \"{namespace}\"", "cluster: all", false},
		{"another name", "name: tenant", "name: renter", false},
		{"other values", "for_each: [namespace, labels.example.com/tier]", "for_each: [labels.example.com/tier, namespace]", false},
		{"fewer values", "for_each: [namespace, labels.example.com/tier]\n  node:\n    id: \"{hostname}~{namespace}~{labels.example.com/tier}\"\n", "for_each: [namespace]\n  node:\n    id: \"{namespace}\"\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(tenants, tt.old, tt.new, 1)
			if tt.name == "fewer values" {
				text = strings.Replace(text, "LABELS: {tier: \"{labels.example.com/tier}\"}, ", "", 1)
			}
			if got := mustParse(t, text).Makes(&made); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if before.Makes(&before.Views[0]) {
		t.Error("a view of the file is taken for one of a template")
	}
}

func TestATemplateByNamesOfNamespacesNeedsThose(t *testing.T) {
	f := mustParse(t, `views: [{name: a, config: a.yaml, select: [{cgroup: /a}], for_each: [netns], node: {id: "{netns}"}}]`)
	if b := f.Basis(); !b.Netns || !b.Cgroup {
		t.Errorf("it depends on %+v", b)
	}
	if got := f.SelectsPods(); got != "" {
		t.Errorf("%s needs a container runtime", got)
	}
	if got := f.Of(workload.Facts{Cgroup: "/a", Netns: "/run/netns/blue"}).Name; got != "a/netns=blue" {
		t.Errorf("got %q", got)
	}
	if got := mustParse(t, strings.ReplaceAll(tenants, "namespace: ", "netns: ")).SelectsPods(); got != "tenant" {
		t.Errorf("what needs a container runtime is %q", got)
	}
}

func TestATemplateIsRefusedByTheFieldThatBreaksARule(t *testing.T) {
	of := func(rest string) string {
		return "views:\n- {name: a, config: a.yaml, select: [{netns: a}], " + rest + "}\n"
	}
	const node = `for_each: [netns], node: {id: "{netns}"`
	tests := []struct{ name, text, path, reason string }{
		{"no node", of("for_each: [netns]"), "views[0].node", "required with for_each"},
		{"ID without a value", of(`for_each: [netns, labels.app], node: {id: "a-{netns}"}`), "views[0].node.id", "has no {labels.app}"},
		{"values without anything between", of(`for_each: [netns, labels.app], node: {id: "{netns}{labels.app}"}`), "views[0].node.id", "{netns} runs into what is beside it"},
		{"values that text in braces seems to repeat", of(`for_each: [netns, labels.app], node: {id: "{netns}{labels.app}~{{0}}"}`), "views[0].node.id", "{netns} runs into what is beside it"},
		{"values with what they may have between", of(`for_each: [netns, labels.app], node: {id: "a-{netns}-{labels.app}"}`), "views[0].node.id", "{netns} runs into what is beside it"},
		{"no ID", of(`for_each: [netns], node: {cluster: "{netns}"}`), "views[0].node.id", "has no {netns}"},
		{"empty", of(`for_each: [], node: {id: a}`), "views[0].for_each", "is empty"},
		{"a word", of(`for_each: netns, node: {id: a}`), "views[0].for_each", "want a list"},
		{"a number", of(`for_each: [7], node: {id: a}`), "views[0].for_each[0]", "write it in quotes"},
		{"unknown value", of(`for_each: [uid], node: {id: "{uid}"}`), "views[0].for_each[0]", "is not known of a workload"},
		{"label of the kubelet", of(`for_each: [labels.io.kubernetes.pod.uid], node: {id: "{labels.io.kubernetes.pod.uid}"}`), "views[0].for_each[0]", "no key of a label"},
		{"no label", of(`for_each: [labels.], node: {id: "{labels.}"}`), "views[0].for_each[0]", "no key of a label"},
		{"twice", of(`for_each: [netns, netns], node: {id: "{netns}"}`), "views[0].for_each[1]", "twice"},
		{"too many", of(`for_each: [` + strings.Repeat("netns,", maxForEach+1) + `], node: {id: "{netns}"}`), "views[0].for_each", "8 is the most"},
		{"host", "views:\n- {name: a, config: a.yaml, select: [{host: true}], " + node + "}}\n", "views[0].select[0].host", "a view of its own"},
		{"another value", of(node + `, cluster: "{pod}"}`), "views[0].node.cluster", "{pod} is no value of this view, of which there are {hostname}, {netns}"},
		{"a brace alone", of(node + `, cluster: "a{"}`), "views[0].node.cluster", "write {{ or }}"},
		{"a brace that closes", of(node + `, cluster: "a}"}`), "views[0].node.cluster", "write {{ or }}"},
		{"braces in braces", of(node + `, cluster: "{a{netns}"}`), "views[0].node.cluster", "write {{ or }}"},
		{"value of metadata", of(node + `, metadata: {a: {b: ["{pod}"]}}}`), "views[0].node.metadata.a.b[0]", "{pod} is no value"},
		{"metadata that are a word", of(node + `, metadata: a}`), "views[0].node.metadata", "want a mapping"},
		{"unknown field of a node", of(node + `, locality: {}}`), "views[0].node.locality", "unknown field"},
		{"a node that says nothing", of("node: {}"), "views[0].node", "says nothing"},
		{"a node that is a word", of("node: a"), "views[0].node", "want a mapping"},
		{"an ID that is a number", of("node: {id: 7}"), "views[0].node.id", "write it in quotes"},
		{"a value of a view that is no template", of(`node: {id: "{netns}"}`), "views[0].node.id", "{netns} is no value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(tt.text))
			var field *problem.FieldError
			if !errors.As(err, &field) || !strings.Contains(err.Error(), tt.path+": ") || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("got %v, want %s: ...%s", err, tt.path, tt.reason)
			}
		})
	}
}

// A node is known by its ID where the control plane is the same.
func TestTwoViewsOfOneControlPlaneAreTwoNodes(t *testing.T) {
	const first = "views:\n- {name: a, config: dir/a.yaml, select: [{netns: a}], node: {id: %q}}\n"
	for _, tt := range []struct {
		name, id, second string
		refused          bool
	}{
		{"one ID", "x", `config: dir/a.yaml, node: {id: x}`, true},
		{"one ID by another spelling of the file", "x", `config: ./dir//a.yaml, node: {id: x}`, true},
		{"one ID that is spelled with a value", "{hostname}", `config: dir/a.yaml, node: {id: "` + hostnameOf(t) + `"}`, true},
		{"one ID and other metadata", "x", `config: dir/a.yaml, node: {id: x, metadata: {NAMESPACE: b}}`, true},
		{"another ID", "x", `config: dir/a.yaml, node: {id: other}`, false},
		{"another file", "x", `config: dir/b.yaml, node: {id: x}`, false},
		{"no ID", "x", `config: dir/a.yaml, node: {cluster: x}`, false},
		{"no node", "x", `config: dir/a.yaml`, false},
		{"a template", "{{netns}}", `config: dir/a.yaml, for_each: [netns], node: {id: "{netns}"}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("/f.yaml", fmt.Appendf(nil, first+"- {name: b, select: [{netns: b}], %s}\n", tt.id, tt.second))
			if !tt.refused {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if want := "views[1].node.id: view a has this id, too"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	t.Run("one ID by a relative and by an absolute path", func(t *testing.T) {
		t.Chdir(t.TempDir())
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse("f.yaml", fmt.Appendf(nil, first+"- {name: b, select: [{netns: b}], config: %s/dir/a.yaml, node: {id: x}}\n", "x", dir))
		if want := "views[1].node.id: view a has this id, too"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	// Views that leave that to one bootstrap are one node by its user's choice: in FILE the order counts, and they may stand apart.
	mustParse(t, "views:\n- {name: a, config: a.yaml, select: [{netns: a}]}\n- {name: b, config: a.yaml, select: [{netns: b}]}\n")
}

func TestMetadataAreThoseOfJSON(t *testing.T) {
	f := mustParse(t, `views: [{name: a, config: a.yaml, select: [{netns: a}], node: {metadata: {a: null, b: "x", c: -3, d: {}}}}]`)
	text, err := protojson.Marshal(f.Views[0].Node.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(string(text), " ", ""); got != `{"a":null,"b":"x","c":-3,"d":{}}` {
		t.Errorf("got %s", got)
	}
}
