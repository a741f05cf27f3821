// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
)

// refusedFile is a file that is made bad in the same way for XLB and Envoy.
type refusedFile struct {
	// kind and file as "xlb get config" shows them, stats is what the names of Envoy's statistics begin with.
	kind, file, stats string
	// bad is what it holds, resource and field are what is wrong.
	bad             string
	resource, field string
}

func (f *inFiles) refusedFiles() []refusedFile {
	t := f.T
	cluster := edsCluster(f, "shop", "shop")
	cluster["lb_policy"] = "CLUSTER_PROVIDED" // without type ORIGINAL_DST
	listener := rdsListener(f, "web", harness.Service(), "table")
	chains := listener["filter_chains"].([]any)[0].(map[string]any)["filters"].([]any)[0].(map[string]any)["typed_config"].(map[string]any)
	delete(chains, "stat_prefix")
	table := tableOf("table", routeTo("/", "shop", nil))
	table["virtual_hosts"].([]any)[0].(map[string]any)["domains"] = []any{"*", "*"}
	return []refusedFile{
		{"clusters", clustersFile, "cluster_manager.cds.", resourcesOf(t, clusterType, cluster, edsCluster(f, "beacon", "beacon")), "shop", "lb_policy"},
		{"assignments", endpointsFile, "cluster.shop.", resourcesOf(t, assignmentType, assignmentOf("store", f.servers[1])), "store", ""},
		{"listeners", listenersFile, "listener_manager.lds.", resourcesOf(t, listenerType, listener), "web", "filter_chains[0].filters[0].typed_config.stat_prefix"},
		{"routes", routesFile, "http.web.rds.table.", resourcesOf(t, routesType, table), "table", "virtual_hosts[0].domains[1]"},
	}
}

// stat is a statistic under Envoy's name.
func (f *inFiles) stat(name string) string {
	f.Helper()
	for line := range strings.Lines(f.balancer.Get(f.T, "/stats")) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "none"
}

// awaitUpdates waits until the statistics of a file are these, in Envoy as in XLB.
func (f *inFiles) awaitUpdates(prefix string, success, rejected, failure int) {
	f.Helper()
	want := fmt.Sprintf("attempts %d, success %d, rejected %d, failure %d", success+rejected+failure, success, rejected, failure)
	harness.Eventually(f, await.Patience, prefix+": "+want, func() bool {
		return want == fmt.Sprintf("attempts %s, success %s, rejected %s, failure %s",
			f.stat(prefix+"update_attempt"), f.stat(prefix+"update_success"), f.stat(prefix+"update_rejected"), f.stat(prefix+"update_failure"))
	})
}

// Files of each kind are refused, are no YAML, and are mended, under load. Envoy counts what XLB counts, under the same names; the version that is in force
// stays. XLB says besides what is wrong, wherever an operator may look, as long as it is.
func TestRefusedFilesAreSeen(t *testing.T) {
	forFiles(t, func(f *inFiles) {
		good := map[string]string{}
		for _, one := range f.refusedFiles() {
			text, err := os.ReadFile(f.path(one.file))
			if err != nil {
				f.Fatal(err)
			}
			good[one.file] = string(text)
			f.awaitUpdates(one.stats, 1, 0, 0)
		}
		f.requireNothingRefused()
		for _, one := range f.refusedFiles() {
			before := [2]string{f.stat(one.stats + "version"), f.stat(one.stats + "update_time")}
			f.move(f.path(one.file), one.bad)
			f.awaitUpdates(one.stats, 1, 1, 0)
			f.requireRefused(one.kind, f.path(one.file), one.resource, one.field)
			f.requireErrorState(one)
			f.move(f.path(one.file), "{")
			f.awaitUpdates(one.stats, 1, 1, 1)
			f.requireRefused(one.kind, f.path(one.file), "", "line 1")
			if after := [2]string{f.stat(one.stats + "version"), f.stat(one.stats + "update_time")}; after != before || before[0] == "0" {
				f.Errorf("%s: version and time of what is in force are %v, and were %v", one.kind, after, before)
			}
			f.move(f.path(one.file), good[one.file])
			f.awaitUpdates(one.stats, 2, 1, 1)
			f.requireNothingRefused()
		}
		for _, one := range f.refusedFiles() {
			f.requireCount(one.kind, 2)
		}
	})
}

// A bootstrap that is refused is seen likewise; Envoy reads its own once.
func TestRefusedBootstrapIsSeen(t *testing.T) {
	harness.OnlyXLB(t, "Envoy reads its bootstrap once")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		_, servers := origins(t, place, "a")
		f := &inFiles{T: t, place: place, balancer: harness.Start(t, mode, harness.OneCluster(harness.Service(), servers[0]), place)}
		path := f.balancer.File()
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f.requireNothingRefused()
		version := f.stat("xlb.bootstrap.version")
		for i, bad := range []struct{ text, field string }{
			{"admun: {}\n" + string(good), "admun"}, {"{", "line 1"}, {strings.ReplaceAll(string(good), "static_resources", "other"), "other"},
		} {
			f.move(path, bad.text)
			harness.Eventually(t, await.Patience, "the bootstrap is refused", func() bool {
				return f.stat("xlb.config.bootstrap.file.refused") == fmt.Sprint(i+1)
			})
			f.requireRefused("bootstrap", path, "", bad.field)
		}
		if now := f.stat("xlb.bootstrap.version"); now != version || version == "0" {
			t.Errorf("the version in force is %s, and was %s", now, version)
		}
		f.move(path, string(good))
		harness.Eventually(t, await.Patience, "the bootstrap is taken", func() bool {
			return f.stat("xlb.config.bootstrap.file.last_reload_successful") == "1"
		})
		f.requireNothingRefused()
		f.requireCount("bootstrap", 3)
		f.move(path, string(good)+"# changed\n")
		harness.Eventually(t, await.Patience, "another version is in force", func() bool { return f.stat("xlb.bootstrap.version") != version })
	})
}

// origins are the rows of "xlb get config" of that kind, or all.
func (f *inFiles) origins() []admin.Origin {
	f.Helper()
	var list []admin.Origin
	if err := json.Unmarshal([]byte(f.balancer.Get(f.T, "/xlb/config")), &list); err != nil {
		f.Fatal(err)
	}
	return list
}

// requireRefused fails unless XLB says everywhere that what came of this kind from that file is refused, because of that field, and nothing else is.
func (f *inFiles) requireRefused(kind, path, resource, field string) {
	f.Helper()
	if f.balancer.IsEnvoy() {
		return
	}
	refused := admin.RefusedOf(f.origins())
	if len(refused) != 1 || refused[0].Kind != kind || refused[0].From != path || len(refused[0].Refusal.Problems) == 0 {
		f.Fatalf("refused is %+v, want %s of %s", refused, kind, path)
	}
	if p := refused[0].Refusal.Problems[0]; p.Resource != resource || p.Path != field || p.Reason == "" {
		f.Errorf("the problem is %+v, want one of resource %q, field %q", p, resource, field)
	}
	if n := f.balancer.Metric(f.T, "xlb_config_last_reload_successful", `kind="`+kind+`"`); n != 0 {
		f.Errorf("xlb_config_last_reload_successful of %s is %v", kind, n)
	}
	line := refused[0].String()
	if ready := f.balancer.Get(f.T, "/ready"); !strings.HasPrefix(ready, "LIVE\n") || !strings.Contains(ready, line) {
		f.Errorf("/ready: %q, want LIVE and %q", ready, line)
	}
	if dump := f.balancer.Get(f.T, "/config_dump"); !strings.Contains(dump, `"xlb_refused"`) {
		f.Error("/config_dump does not have the refused file")
	}
	if table := f.xlb("get", "config"); !strings.Contains(table, "refused at ") || !strings.Contains(table, refused[0].Refusal.Problems[0].String()) {
		f.Errorf("xlb get config:\n%s", table)
	}
	if report := f.xlb("check"); !strings.Contains(report, line) {
		f.Errorf("xlb check lacks %q:\n%s", line, report)
	}
}

// requireServerRefused fails unless these kinds, and no other, are refused of a control plane, for reasons that begin so. A server that sends whole states
// has them refused again with each: the time may be another each time.
func (f *inFiles) requireServerRefused(want map[string]string) {
	f.Helper()
	refused := admin.RefusedOf(f.origins())
	for _, o := range refused {
		reason, wanted := want[o.Kind]
		if !wanted || o.Source != "server" || o.From == "" || !strings.HasPrefix(o.Refusal.Reason(), reason) {
			f.Errorf("%+v, want it refused because of %q", o, reason)
		}
		if n := f.balancer.Metric(f.T, "xlb_config_last_reload_successful", `kind="`+o.Kind+`"`); n != 0 {
			f.Errorf("xlb_config_last_reload_successful of %s is %v", o.Kind, n)
		}
		if ready := f.balancer.Get(f.T, "/ready"); !strings.Contains(ready, o.Refusal.Reason()) {
			f.Errorf("/ready: %q, want %q", ready, o.Refusal.Reason())
		}
		if table := f.xlb("get", "config"); !strings.Contains(table, o.Refusal.Reason()) {
			f.Errorf("xlb get config lacks %q:\n%s", o.Refusal.Reason(), table)
		}
	}
	if report := f.xlb("check"); len(refused) > 0 && !strings.Contains(report, refused[0].Refusal.Reason()) {
		f.Errorf("xlb check lacks %q:\n%s", refused[0].Refusal.Reason(), report)
	}
	if len(refused) != len(want) {
		f.Errorf("%d kinds are refused, want %d", len(refused), len(want))
	}
}

// requireNothingRefused fails unless all of XLB's places are clean.
func (f *inFiles) requireNothingRefused() {
	f.Helper()
	if f.balancer.IsEnvoy() {
		return
	}
	for _, o := range f.origins() {
		if o.Refusal != nil || o.Taken == nil || o.Version == "" {
			f.Errorf("%+v is not in force", o)
		}
	}
	for kind, n := range f.balancer.Samples(f.T, "xlb_config_last_reload_successful", "kind") {
		if n != 1 {
			f.Errorf("xlb_config_last_reload_successful of %s is %v", kind, n)
		}
	}
	if ready := f.balancer.Get(f.T, "/ready"); ready != "LIVE\n" {
		f.Errorf("/ready: %q", ready)
	}
	if dump := f.balancer.Get(f.T, "/config_dump"); strings.Contains(dump, "error_state") || strings.Contains(dump, "xlb_refused") {
		f.Error("/config_dump has something refused")
	}
	if report := f.xlb("check"); !strings.Contains(report, "what came last is in force") {
		f.Errorf("xlb check:\n%s", report)
	}
}

// requireCount fails unless so many refusals of a kind are counted: they stay when they are mended.
func (f *inFiles) requireCount(kind string, want float64) {
	f.Helper()
	if f.balancer.IsEnvoy() {
		return
	}
	if n := f.balancer.Metric(f.T, "xlb_config_refused_total", `kind="`+kind+`"`); n != want {
		f.Errorf("xlb_config_refused_total of %s is %v, want %v", kind, n, want)
	}
}

func (f *inFiles) xlb(args ...string) string {
	f.Helper()
	return f.place.Run(f.T, append(append([]string{harness.Binary(f.T)}, args...), "--admin", f.balancer.Admin.String())...).Output(f.T, commandPatience)
}

// requireErrorState fails unless /config_dump has Envoy's error_state of the resource that was refused. Envoy has it of listeners alone.
func (f *inFiles) requireErrorState(of refusedFile) {
	f.Helper()
	if f.balancer.IsEnvoy() && of.kind != "listeners" {
		return
	}
	s, has := f.errorStates()[of.resource]
	if !has || s.Details == "" {
		f.Fatalf("%s: error_state of %s is %+v", of.kind, of.resource, s)
	}
	if !f.balancer.IsEnvoy() && (!strings.HasPrefix(s.Details, of.field) || s.Version != "1") {
		f.Errorf("%s: error_state is %+v, want field %q and version 1", of.kind, s, of.field)
	}
}

// errorState is envoy.admin.v3.UpdateFailureState.
type errorState struct {
	Failed struct {
		Name        string `json:"name"`
		ClusterName string `json:"cluster_name"`
	} `json:"failed_configuration"`
	Attempt time.Time `json:"last_update_attempt"`
	Details string    `json:"details"`
	Version string    `json:"version_info"`
}

// errorStates are those of all resources of /config_dump, by the names of what was refused. Envoy shows those of listeners once more without a time.
func (f *inFiles) errorStates() map[string]errorState {
	f.Helper()
	var whole any
	if err := json.Unmarshal([]byte(f.balancer.Get(f.T, "/config_dump?include_eds")), &whole); err != nil {
		f.Fatal(err)
	}
	states := map[string]errorState{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for key, one := range v {
				if key == "error_state" {
					s := f.errorStateOf(one)
					if name := cmp.Or(s.Failed.Name, s.Failed.ClusterName); !s.Attempt.IsZero() {
						states[name] = s
					}
				}
				walk(one)
			}
		}
	}
	walk(whole)
	return states
}

func (f *inFiles) errorStateOf(v any) (s errorState) {
	f.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		f.Fatal(err)
	}
	return s
}
