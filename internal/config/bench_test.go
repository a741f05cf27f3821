// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
