// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/internal/model"
)

const bootstrapBefore = `static_resources:
  listeners:
  - name: web
    address: { socket_address: { address: 127.80.0.2, port_value: 80 } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          http_filters:
          - name: envoy.filters.http.router
            typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
          route_config:
            virtual_hosts:
            - name: web
              domains: ["*"]
              routes:
`

const bootstrapBehind = `  clusters:
  - name: web
    type: STATIC
    load_assignment:
      cluster_name: web
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 18081 } } } }] }]
`

// BenchmarkLoad measures reading a file of 10,000 routes: of a reload, what comes before the routes are compiled.
func BenchmarkLoad(b *testing.B) {
	for name, match := range map[string]string{
		"prefix": `{ prefix: "/api/v1/service%05d/" }`,
		"header": `{ prefix: /, headers: [{ name: x-tenant, string_match: { exact: "tenant-%05d" } }] }`,
	} {
		var w strings.Builder
		w.WriteString(bootstrapBefore)
		for i := range 10000 {
			fmt.Fprintf(&w, "              - { match: "+match+", route: { cluster: web } }\n", i)
		}
		w.WriteString(bootstrapBehind)
		file := filepath.Join(b.TempDir(), name+".yaml")
		if err := os.WriteFile(file, []byte(w.String()), 0o600); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Load(file); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAssemble has the endpoints of one cluster change among thousands, and ten thousand routes that stay.
func BenchmarkAssemble(b *testing.B) {
	const clusters, endpoints, routes = 2000, 10, 10000
	bootstrap, err := ParseBootstrap("b.yaml", []byte(dynamicBase))
	if err != nil {
		b.Fatal(err)
	}
	pack := func(kind Kind, text string) *anypb.Any {
		m := kind.newMessage()
		json, err := yaml.YAMLToJSON([]byte(text))
		if err == nil {
			err = protojson.Unmarshal(json, m)
		}
		if err != nil {
			b.Fatal(err)
		}
		body, err := anypb.New(m)
		if err != nil {
			b.Fatal(err)
		}
		return body
	}
	r := Resources{Clusters: map[string]*anypb.Any{}, Assignments: map[string]*anypb.Any{}, Listeners: map[string]*anypb.Any{}, Routes: map[string]*anypb.Any{}}
	assignment := func(name string, n int) *anypb.Any {
		var list []string
		for j := range endpoints {
			list = append(list, fmt.Sprintf("{endpoint: {address: {socket_address: {address: 10.%d.%d.%d, port_value: 80}}}}", n/200, n%200, j+1))
		}
		return pack(Assignments, fmt.Sprintf("{cluster_name: %s, endpoints: [{lb_endpoints: [%s]}]}", name, strings.Join(list, ",")))
	}
	for i := range clusters {
		name := fmt.Sprintf("c%d", i)
		r.Clusters[name] = pack(Clusters, fmt.Sprintf("{name: %s, type: EDS, eds_cluster_config: {eds_config: {ads: {}}}}", name))
		r.Assignments[name] = assignment(name, i)
	}
	var list []string
	for i := range routes {
		list = append(list, fmt.Sprintf("{match: {path: /p%d}, route: {cluster: c%d}}", i, i%clusters))
	}
	r.Routes["table"] = pack(Routes, "{name: table, virtual_hosts: [{name: v, domains: ['*'], routes: ["+strings.Join(list, ",")+"]}]}")
	r.Listeners["web"] = pack(Listeners, httpListener("web", "127.0.0.1", rdsManager))
	change := [2]*anypb.Any{assignment("c7", 7), assignment("c7", clusters)}
	for name, assemble := range map[string]func() (*model.Config, error){
		"all":  func() (*model.Config, error) { return bootstrap.Assemble(r) },
		"told": func() (*model.Config, error) { return bootstrap.AssembleAssignments(r, []string{"c7"}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r.Assignments["c7"] = change[i%2]
				if cfg, err := assemble(); err != nil || len(cfg.Clusters) != clusters+1 {
					b.Fatal(err)
				}
			}
		})
	}
}
