// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/source/intake"
	"github.com/xlb-project/xlb/internal/xds"
)

// oneFile is a source of which one file of a kind is read.
type oneFile struct {
	*testing.T
	s *Source
	d *dynamic
	f config.File
}

const fromFile = `
node: {id: a, cluster: b}
dynamic_resources:
  cds_config: {resource_api_version: V3, path_config_source: {path: %[1]q}}
  lds_config: {resource_api_version: V3, path_config_source: {path: /nowhere}}
static_resources:
  clusters:
  - {name: shop, type: EDS, connect_timeout: 1s, eds_cluster_config: {eds_config: {resource_api_version: V3, path_config_source: {path: %[2]q}}}}
`

func readsFile(t *testing.T, kind config.Kind) *oneFile {
	t.Helper()
	dir := t.TempDir()
	clusters, endpoints := filepath.Join(dir, "clusters.yaml"), filepath.Join(dir, "endpoints.yaml")
	src := newTestSource(t, fmt.Appendf(nil, fromFile, clusters, endpoints), slog.New(slog.DiscardHandler))
	path := map[config.Kind]string{config.Clusters: clusters, config.Assignments: endpoints}[kind]
	return &oneFile{t, src, src.dynamic, config.File{Kind: kind, Path: path}}
}

// hold has the file read with that version, and resources on a line each.
func (f *oneFile) hold(version string, resources ...string) {
	f.Helper()
	text := "version_info: '" + version + "'\nresources: ["
	for _, r := range resources {
		text += "{'@type': type.googleapis.com/envoy.config." + r + "},"
	}
	f.write(text + "]\n")
}

func (f *oneFile) write(text string) {
	f.Helper()
	f.d.put(f.d.parse(f.f, []byte(text)))
}

// origin is what is shown of the file.
func (f *oneFile) origin() admin.Origin {
	f.Helper()
	for _, o := range f.s.Origins() {
		if o.Kind == f.f.Kind.String() {
			return o
		}
	}
	f.Fatal("the file is not among the origins")
	return admin.Origin{}
}

// want compares what is shown of the file, without times.
func (f *oneFile) want(version string, refused uint64, problems ...admin.Problem) {
	f.Helper()
	o := f.origin()
	var got []admin.Problem
	if o.Refusal != nil {
		got = o.Refusal.Problems
	}
	if diff := cmp.Diff(problems, got, cmpopts.EquateEmpty()); diff != "" || o.Version != version || o.Refused != refused || o.Taken == nil {
		f.Errorf("version %q, refused %d times, want %q and %d; problems (-want +got):\n%s", o.Version, o.Refused, version, refused, diff)
	}
}

// states are what is shown of its resources: name, version in force, state, version of what was refused.
func (f *oneFile) states() (list []string) {
	for _, r := range f.d.inFile(f.f) {
		if (r.State == xds.Nacked) != (r.FailedBody != nil && !r.FailedAt.IsZero() && r.Error != "") || (r.Body != nil) != !r.LastUpdate.IsZero() {
			f.Errorf("%s is %v, and has body %v of %v, refused body %v of %v because of %q", r.Name, r.State, r.Body, r.LastUpdate, r.FailedBody, r.FailedAt, r.Error)
		}
		list = append(list, strings.Join([]string{r.Name, r.Version, r.State.String(), r.FailedVersion}, " "))
	}
	return list
}

const (
	goodWeb = "cluster.v3.Cluster, name: web, connect_timeout: 1s, type: STATIC"
	slowWeb = "cluster.v3.Cluster, name: web, connect_timeout: 2s, type: STATIC"
	badWeb  = "cluster.v3.Cluster, name: web, connect_timeout: 1s, type: STATIC, load_assignment: {cluster_name: web, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.0.0.1, port_value: 70000}}}}]}]}"
	goodNew = "cluster.v3.Cluster, name: new, connect_timeout: 1s, type: STATIC"
	badNew  = "cluster.v3.Cluster, name: new, connect_timeout: 1s, type: STATIC, upstream_bind_config: {}"
)

// Of a file of clusters the good ones are taken, and the others are refused by name, field and reason: in the row of the file and for each resource.
func TestFilesOfClustersTellWhatIsRefused(t *testing.T) {
	f := readsFile(t, config.Clusters)
	steps := []struct {
		name      string
		do        func()
		version   string
		refused   uint64
		resources []string
		paths     []string
	}{
		{"good", func() { f.hold("1", goodWeb) }, "1", 0, []string{"web 1 ACKED "}, nil},
		{"one changed for the worse", func() { f.hold("2", badWeb, goodNew) }, "1", 1, []string{"new 2 ACKED ", "web 1 NACKED 2"}, []string{"web load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value"}},
		{"both", func() { f.hold("3", badWeb, badNew) }, "1", 2, []string{"new 2 NACKED 3", "web 1 NACKED 3"}, []string{"web load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address.port_value", "new upstream_bind_config"}},
		{"no YAML", func() { f.write("{") }, "1", 3, []string{"new 2 NACKED 3", "web 1 NACKED 3"}, []string{" line 1"}},
		{"mended, and the same as before", func() { f.hold("4", goodWeb) }, "4", 3, []string{"web 1 ACKED "}, nil},
		{"changed", func() { f.hold("5", slowWeb) }, "5", 3, []string{"web 5 ACKED "}, nil},
		{"a new one that is bad", func() { f.hold("6", slowWeb, badNew) }, "5", 4, []string{"new  NACKED 6", "web 5 ACKED "}, []string{"new upstream_bind_config"}},
		{"without it", func() { f.hold("7", slowWeb) }, "7", 4, []string{"web 5 ACKED "}, nil},
	}
	for _, s := range steps {
		s.do()
		o := f.origin()
		var paths []string
		if o.Refusal != nil {
			for _, p := range o.Refusal.Problems {
				paths = append(paths, p.Resource+" "+p.Path)
			}
		}
		if o.Version != s.version || o.Refused != s.refused {
			t.Errorf("%s: version %q, refused %d times, want %q and %d", s.name, o.Version, o.Refused, s.version, s.refused)
		}
		if diff := cmp.Diff(s.paths, paths); diff != "" {
			t.Errorf("%s: problems (-want +got):\n%s", s.name, diff)
		}
		if diff := cmp.Diff(s.resources, f.states()); diff != "" {
			t.Errorf("%s: resources (-want +got):\n%s", s.name, diff)
		}
	}
	counted := f.d.intake.Of(intake.KeyOf(f.f))
	if u := counted.Updates(); u.Successes != 4 || u.Rejected != 3 || u.Failures != 1 {
		t.Errorf("as Envoy counts: %+v", u)
	}
}

// A file of endpoints with another name than its cluster has is refused, and the refusal has the cluster's name.
func TestFilesOfEndpointsTellWhatIsRefused(t *testing.T) {
	f := readsFile(t, config.Assignments)
	f.hold("1", "endpoint.v3.ClusterLoadAssignment, cluster_name: shop")
	f.want("1", 0)
	f.hold("2", "endpoint.v3.ClusterLoadAssignment, cluster_name: store")
	f.want("1", 1, admin.Problem{Resource: "store", Reason: `"shop" is asked for, and the file holds another; give it that name`})
	if diff := cmp.Diff([]string{"shop 1 ACKED ", "store  NACKED 2"}, f.states()); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	f.hold("3", "endpoint.v3.ClusterLoadAssignment, cluster_name: shop", "endpoint.v3.ClusterLoadAssignment, cluster_name: other")
	f.want("1", 2, admin.Problem{Reason: f.f.Path + ": has 2 resources; a file of this kind has one"})
	f.hold("4", "endpoint.v3.ClusterLoadAssignment, cluster_name: shop")
	f.want("4", 2)
}
