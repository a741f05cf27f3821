// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/test/envoytest"
)

// TestEnvoyHeadersAreThoseOfEnvoy sends the same requests through Envoy and through the slow path with --envoy-headers, and compares the headers that
// client and endpoint get; what is random, or a time, by its shape.
func TestEnvoyHeadersAreThoseOfEnvoy(t *testing.T) {
	envoytest.Binary(t)
	w := NewWorld(*seed)
	tables := make([]*ActionTable, *actionTables)
	for i := range tables {
		tables[i] = w.ActionTable()
	}
	e, p := startWithHeaders(t, w, tables)
	differences := 0
	seen := map[string]int{}
	for i, table := range tables {
		for range *actionRequests {
			r := w.HeadersRequest(table)
			want, got := e.send(t, i, r), p.send(t, i, r)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("table %d, route %s\n%q\n(-Envoy +XLB):\n%s", i, table.routeAt(r.Target), r.Bytes(), diff)
				if differences++; differences > 10 {
					t.Fatal("too many differences")
				}
			}
			for _, name := range added {
				if strings.Contains(want.Body+"\n"+strings.Join(want.Header, "\n"), "\n"+name+": ") {
					seen[name]++
				}
			}
		}
	}
	t.Logf("%d tables, %d requests each, seed %d: %v", *actionTables, *actionRequests, *seed, seen)
	for _, name := range added {
		if seen[name] == 0 {
			t.Errorf("no %s: another seed, or more tables", name)
		}
	}
}

// added are the headers that must have been seen.
var added = []string{
	"x-forwarded-proto", "x-forwarded-for", requestIDField, "x-envoy-external-address", "x-envoy-expected-rq-timeout-ms", "x-envoy-original-path",
	"x-envoy-original-host", serviceTimeField, "server", "date", "via",
}

// startWithHeaders runs Envoy and the slow path on the same tables and endpoints, with what each adds unasked.
func startWithHeaders(t testing.TB, w World, tables []*ActionTable) (envoy, xlb *peer) {
	t.Helper()
	addresses := freeAddresses(t, len(tables))
	var listeners, clusters []any
	for i, table := range tables {
		listeners = append(listeners, w.HeadersListener(table, fmt.Sprintf("table-%d", i), addresses[i]))
	}
	for _, name := range slices.Concat(ActionClusters, MirrorClusters) {
		clusters = append(clusters, clusterAt(name, headersEndpoint(t, name)))
	}
	bootstrap, err := json.Marshal(Object{"static_resources": Object{"listeners": listeners, "clusters": clusters}})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("headers.json", bootstrap, config.EnvoyHeaders(true))
	if err != nil {
		t.Fatal(err)
	}
	e := launchEnvoy(t, bootstrap, addresses)
	for i := range tables {
		e.conns[i] = e.process.Dial(t, e.addresses[i])
	}
	p := startProxy(t, cfg)
	p.lines = shaped
	return &peer{addresses: e.addresses, conns: e.conns, lines: shaped}, p
}

// headersEndpoint runs a server that answers with the head that it saw, and with the fields that X-Answer asks for.
func headersEndpoint(t testing.TB, cluster string) netip.AddrPort {
	t.Helper()
	if cluster == "dead" {
		return endpoint(t, cluster)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the answer comes behind the request
		w.Header()["Date"] = nil           // which the server would add
		for _, name := range r.Header["X-Answer"] {
			w.Header()[http.CanonicalHeaderKey(name)] = []string{"endpoint"}
		}
		text := fmt.Sprintf("cluster %s\n%s %s\nhost: %s\n%s\n", cluster, r.Method, r.RequestURI, r.Host, strings.Join(shaped(r.Header), "\n"))
		w.Header()["X-Seen"] = []string{fmt.Sprintf("%q", text)} // for HEAD
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

var (
	uuidShape   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	numberShape = regexp.MustCompile(`^[0-9]+$`)
)

// shaped lists all fields but those of the connection, as normal does, with what differs between two answers by its shape.
func shaped(h http.Header) []string {
	lines := make([]string, 0, len(h))
	for name, values := range h {
		name, value := strings.ToLower(name), strings.Join(slices.DeleteFunc(values, func(v string) bool { return v == "" }), ",")
		_, notDate := http.ParseTime(value)
		switch {
		case name == "connection", name == "transfer-encoding", name == "content-length" && value == "0":
			continue
		case name == "date" && notDate == nil:
			value = "a date"
		case name == requestIDField && uuidShape.MatchString(value):
			value = "a new one"
		case name == serviceTimeField && numberShape.MatchString(value):
			value = "a time"
		}
		lines = append(lines, name+": "+value)
	}
	slices.Sort(lines)
	return lines
}
