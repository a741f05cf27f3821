// SPDX-License-Identifier: Apache-2.0

package views

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
	"github.com/xlb-project/xlb/internal/workload"
)

const whole = `
views:
- name: shop
  config: views/shop.yaml
  select:
  - {namespace: shop, pod: web-*}
  - {namespace: shop, labels: {tier: front*, app: web}}
  - {cgroup: /tenants/shop}
  - {netns: blue}
- name: host-2
  config: /etc/xlb/host.yaml
  select: [{host: true}, {netns: /run/netns/red, cgroup: /}]
`

func TestAFileNamesViewsInItsOrder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "views.yaml")
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	want := &File{Path: path, Version: fmt.Sprintf("%x", sha256.Sum256([]byte(whole)))[:16], Views: []View{
		{View: model.View{Number: 1, Name: "shop"}, Config: filepath.Join(dir, "views/shop.yaml"), Select: []Selector{
			{Namespace: "shop", Pod: "web-*"}, {Namespace: "shop", Labels: []Label{{"app", "web"}, {"tier", "front*"}}}, {Cgroup: "/tenants/shop"}, {Netns: "blue"},
		}},
		{View: model.View{Number: 2, Name: "host-2"}, Config: "/etc/xlb/host.yaml", Select: []Selector{{Host: true}, {Netns: "/run/netns/red", Cgroup: "/"}}},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(View{})); diff != "" {
		t.Errorf("views (-want +got):\n%s", diff)
	}
}

func TestAFileMayBeJSON(t *testing.T) {
	f, err := Parse("views.json", []byte(`{"views": [{"name": "a", "config": "a.yaml", "select": [{"host": true}]}]}`))
	if err != nil || len(f.Views) != 1 || f.Views[0].Config != "a.yaml" {
		t.Errorf("got %+v, %v, want the view a of a.yaml", f, err)
	}
}

func TestAFileThatIsNotThereIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "views.yaml")
	if _, err := Read(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want one that names %s", err, path)
	}
}

func TestAFileMayHaveNoViews(t *testing.T) {
	if f, err := Parse("f.yaml", []byte("views: []\n")); err != nil || f.Of(workload.Facts{Host: true}).Name != "" {
		t.Errorf("got %v, want a file whose workloads all see the shared configuration", err)
	}
}

func TestTwoViewsMayHaveOneConfiguration(t *testing.T) {
	text := "views: [{name: a, config: c.yaml, select: [{netns: a}]}, {name: b, config: c.yaml, select: [{netns: b}]}]"
	if _, err := Parse("f.yaml", []byte(text)); err != nil {
		t.Error(err)
	}
}

// oneView is a file with one view, of which one field is replaced.
func oneView(field, value string) string {
	values := map[string]string{"name": "a", "config": "a.yaml", "select": "[{netns: a}]"}
	values[field] = value
	text := "views:\n- {"
	for _, name := range []string{"name", "config", "select"} {
		if values[name] != "" {
			text += name + ": " + values[name] + ", "
		}
	}
	return text + "}\n"
}

func TestAFileOfViewsIsRefusedByTheFieldThatBreaksARule(t *testing.T) {
	long := strings.Repeat("a", 64)
	many := strings.Repeat("{netns: a},", maxSelectors+1)
	manyViews := ""
	for i := range maxViews + 1 {
		manyViews += fmt.Sprintf("- {name: v%d, config: a.yaml, select: [{netns: a}]}\n", i)
	}
	tests := []struct{ name, text, path, reason string }{
		{"empty", "", "", "expected a file of views"},
		{"no mapping", "[]", "", "expected a file of views"},
		{"no views", "{}", "views", "required"},
		{"views that are a mapping", "views: {}", "views", "want a list"},
		{"views without a value", "views:\n", "views", "want a list"},
		{"field of the file", "views: []\nversion: 1\n", "version", "unknown field"},
		{"too many views", "views:\n" + manyViews, "views", "has 256 entries, 255 is the most"},
		{"a view that is a word", "views: [a]", "views[0]", "want a mapping with name, config, select"},
		{"field of a view", oneView("name", "a, nodes: {}"), "views[0].nodes", "unknown field"},
		{"field with a name of no field", "views: [{\"a\\nb\": 1}]", "views[0]", "a field has no valid name"},
		{"no name", oneView("name", ""), "views[0].name", "required"},
		{"empty name", oneView("name", "''"), "views[0].name", "is empty"},
		{"capital in a name", oneView("name", "Shop"), "views[0].name", "lower-case"},
		{"name that begins with -", oneView("name", "-a"), "views[0].name", "letter or digit first and last"},
		{"name that ends with -", oneView("name", "a-"), "views[0].name", "letter or digit first and last"},
		{"name that is too long", oneView("name", long), "views[0].name", "1 to 63"},
		{"name with an end of line", oneView("name", `"a\n"`), "views[0].name", "1 to 63"},
		{"name that is a number", oneView("name", "7"), "views[0].name", "write it in quotes"},
		{"name that is a bool", oneView("name", "no"), "views[0].name", "write it in quotes"},
		{"name of the shared configuration", oneView("name", "shared"), "views[0].name", "choose another name"},
		{"no configuration", oneView("config", ""), "views[0].config", "required"},
		{"empty configuration", oneView("config", "''"), "views[0].config", "is empty"},
		{"configuration in the file", oneView("config", "{static_resources: {}}"), "views[0].config", "is no text"},
		{"no selectors", oneView("select", ""), "views[0].select", "required"},
		{"selectors that are one", oneView("select", "{netns: a}"), "views[0].select", "want a list"},
		{"empty selectors", oneView("select", "[]"), "views[0].select", "selects no workload"},
		{"too many selectors", oneView("select", "["+many+"]"), "views[0].select", "1024 is the most"},
		{"empty selector", oneView("select", "[{netns: a}, {}]"), "views[0].select[1]", "selects no workload"},
		{"selector without a value", oneView("select", "[null]"), "views[0].select[0]", "want a mapping"},
		{"field of a selector", oneView("select", "[{pid: 1}]"), "views[0].select[0].pid", "unknown field"},
		{"no labels", oneView("select", "[{labels: {}}]"), "views[0].select[0].labels", "asks for no label"},
		{"no labels among others", oneView("select", "[{namespace: a, labels: {}}]"), "views[0].select[0].labels", "asks for no label"},
		{"labels without a value", oneView("select", "[{labels: }]"), "views[0].select[0].labels", "is no mapping"},
		{"labels that are text", oneView("select", "[{labels: app=web}]"), "views[0].select[0].labels", "is no mapping"},
		{"labels that are a list", oneView("select", "[{labels: [app]}]"), "views[0].select[0].labels", "is no mapping"},
		{"key with *", oneView("select", "[{labels: {'app*': web}}]"), "views[0].select[0].labels", "a key is no key of a label"},
		{"key that is too long", oneView("select", "[{labels: {"+long+": web}}]"), "views[0].select[0].labels", "a key is no key of a label"},
		{"empty key", oneView("select", "[{labels: {'': web}}]"), "views[0].select[0].labels", "a key is no key of a label"},
		{"key that begins with -", oneView("select", "[{labels: {-app: web}}]"), `views[0].select[0].labels["-app"]`, "no key of a label"},
		{"key with a prefix in capitals", oneView("select", "[{labels: {Example.com/app: web}}]"), "views[0].select[0].labels", "a key is no key of a label"},
		{"key of the kubelet's", oneView("select", "[{labels: {io.kubernetes.pod.name: web-0}}]"), `views[0].select[0].labels["io.kubernetes.pod.name"]`, "select by pod and namespace"},
		{"label without a value", oneView("select", "[{labels: {app: }}]"), `views[0].select[0].labels["app"]`, "is no text"},
		{"label that is a list", oneView("select", "[{labels: {app: [web]}}]"), `views[0].select[0].labels["app"]`, "is no text"},
		{"label that is a number", oneView("select", "[{labels: {version: 2}}]"), `views[0].select[0].labels["version"]`, "write it in quotes"},
		{"label that is a bool", oneView("select", "[{labels: {canary: true}}]"), `views[0].select[0].labels["canary"]`, "write it in quotes"},
		{"label with * in the middle", oneView("select", "[{labels: {app: w*b}}]"), `views[0].select[0].labels["app"]`, "* stands at the end alone"},
		{"label with two *", oneView("select", "[{labels: {app: web**}}]"), `views[0].select[0].labels["app"]`, "* stands at the end alone"},
		{"label with a value that is too long", oneView("select", "[{labels: {app: "+long+"}}]"), `views[0].select[0].labels["app"]`, "no label has such a value"},
		{"label with a beginning that is too long", oneView("select", "[{labels: {app: "+long+"*}}]"), `views[0].select[0].labels["app"]`, "no label has such a value"},
		{"label with a value that ends with -", oneView("select", "[{labels: {app: web-}}]"), `views[0].select[0].labels["app"]`, "no label has such a value"},
		{"label with a beginning that no value has", oneView("select", "[{labels: {app: -web*}}]"), `views[0].select[0].labels["app"]`, "no label has such a value"},
		{"label with a space", oneView("select", "[{labels: {app: a b}}]"), `views[0].select[0].labels["app"]`, "no label has such a value"},
		{"label beside the host", oneView("select", "[{host: true, labels: {app: web}}]"), "views[0].select[0].host", "selector of its own"},
		{"namespace without a value", oneView("select", "[{namespace: }]"), "views[0].select[0].namespace", "is no text"},
		{"* in the middle", oneView("select", "[{pod: a*b}]"), "views[0].select[0].pod", "* stands at the end alone"},
		{"two *", oneView("select", "[{pod: a**}]"), "views[0].select[0].pod", "* stands at the end alone"},
		{"namespace in capitals", oneView("select", "[{namespace: Shop}]"), "views[0].select[0].namespace", "no Kubernetes namespace has such a name"},
		{"pod with its namespace", oneView("select", "[{pod: shop/web-0}]"), "views[0].select[0].pod", "no pod has such a name"},
		{"relative cgroup", oneView("select", "[{cgroup: tenants/shop}]"), "views[0].select[0].cgroup", "is relative"},
		{"cgroup with ..", oneView("select", "[{cgroup: /tenants/../shop}]"), "views[0].select[0].cgroup", "or .."},
		{"cgroup with a last /", oneView("select", "[{cgroup: /tenants/}]"), "views[0].select[0].cgroup", "a last /"},
		{"cgroup with * is of a name", oneView("select", "[{cgroup: a*}]"), "views[0].select[0].cgroup", "is relative"},
		{"cgroup where it is mounted", oneView("select", "[{cgroup: /sys/fs/cgroup/tenants}]"), "views[0].select[0].cgroup", "leave out where cgroups are mounted"},
		{"relative path of a network namespace", oneView("select", "[{netns: netns/blue}]"), "views[0].select[0].netns", "neither a name nor"},
		{"network namespace ..", oneView("select", "[{netns: ..}]"), "views[0].select[0].netns", "neither a name nor"},
		{"path of a network namespace with ..", oneView("select", "[{netns: /run/../blue}]"), "views[0].select[0].netns", "or .."},
		{"path of a network namespace /", oneView("select", "[{netns: /}]"), "views[0].select[0].netns", "a last /"},
		{"no host", oneView("select", "[{host: false}]"), "views[0].select[0].host", "want true"},
		{"host as text", oneView("select", "[{host: 'true'}]"), "views[0].select[0].host", "want true"},
		{"host beside others", oneView("select", "[{host: true, netns: a}]"), "views[0].select[0].host", "selector of its own"},
		{"name of two views", "views: [{name: a, config: a, select: [{netns: a}]}, {name: a, config: b, select: [{netns: b}]}]", "views[1].name", "another view is called a"},
		{"key twice", "views: []\nviews: []\n", "line 2", "already set"},
		{"longer than a file may be", strings.Repeat("#", maxSize) + "\nviews: []", "", "longer than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse("f.yaml", []byte(tt.text))
			field, ok := errors.AsType[*problem.FieldError](err)
			if f != nil || !ok || field.Path != tt.path || !strings.Contains(field.Reason, tt.reason) {
				t.Fatalf("got %v, want at %q: %s", err, tt.path, tt.reason)
			}
			if n := strings.Count(err.Error(), "\n"); n != 0 {
				t.Errorf("%d lines for one mistake: %v", 1+n, err)
			}
		})
	}
}

func TestAllProblemsOfAFileAreReported(t *testing.T) {
	_, err := Parse("f.yaml", []byte("views: [{name: A, select: [{}]}, {config: b, select: [{host: 1, cgroup: a}]}]"))
	var got []string
	for _, part := range problem.PartsOf(err) {
		got = append(got, part.Path)
	}
	want := []string{"views[0].config", "views[0].name", "views[0].select[0]", "views[1].name", "views[1].select[0].cgroup", "views[1].select[0].host"}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(View{})); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
