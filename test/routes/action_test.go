// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/test/envoytest"
)

var (
	actionTables   = flag.Int("action-tables", 12, "number of tables of actions")
	actionRequests = flag.Int("action-requests", 150, "requests for each of them")
)

// TestActionsAreThoseOfEnvoy sends the same requests through Envoy and through the
// slow path, with one configuration, and compares answers and what an endpoint saw.
func TestActionsAreThoseOfEnvoy(t *testing.T) {
	envoytest.Binary(t)
	w := NewWorld(*seed)
	tables := make([]*ActionTable, *actionTables)
	for i := range tables {
		tables[i] = w.ActionTable()
	}
	seen := newCopies()
	e, p := startBoth(t, tables, seen)
	statuses := map[int]int{}
	differences := 0
	for i, table := range tables {
		excepted := map[string]bool{}
		for n := range *actionRequests {
			r := w.ActionRequest(table)
			w.header(r, "X-Id", fmt.Sprint(n))
			want, got := e.send(t, i, r), p.send(t, i, r)
			statuses[want.Status]++
			excepted[fmt.Sprint(n)] = isExcepted(r, want.Status)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("table %d, route %s\n%q\n(-Envoy +XLB):\n%s", i, table.routeAt(r.Target), r.Bytes(), diff)
				if differences++; differences > 10 {
					t.Fatal("too many differences")
				}
			}
		}
		seen.requireEqual(t, excepted)
	}
	t.Logf("%d tables, %d requests each, seed %d: %v, %d copies", *actionTables, *actionRequests, *seed, statuses, seen.total)
	if seen.total == 0 {
		t.Error("no copies: another seed, or more tables")
	}
	for _, status := range []int{200, 301, 302, 303, 307, 308, 403, 404, 503} {
		if statuses[status] == 0 {
			t.Errorf("no answer %d: another seed, or more tables", status)
		}
	}
}

// startBoth runs Envoy and the slow path on the same tables and endpoints.
func startBoth(t testing.TB, tables []*ActionTable, seen *copies) (envoy, xlb *peer) {
	t.Helper()
	addresses := freeAddresses(t, len(tables))
	var listeners, clusters []any
	for i, table := range tables {
		listeners = append(listeners, ActionListener(table, fmt.Sprintf("table-%d", i), addresses[i]))
	}
	for _, name := range ActionClusters {
		clusters = append(clusters, clusterAt(name, endpoint(t, name)))
	}
	for _, name := range MirrorClusters {
		clusters = append(clusters, clusterAt(name, seen.endpoint(t, name)))
	}
	bootstrap, err := json.Marshal(Object{"static_resources": Object{"listeners": listeners, "clusters": clusters}})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("actions.json", bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	e := launchEnvoy(t, bootstrap, addresses)
	for i := range tables {
		e.conns[i] = e.process.Dial(t, e.addresses[i]) // waits until it listens
	}
	return &peer{addresses: e.addresses, conns: e.conns}, startProxy(t, cfg)
}

func clusterAt(name string, address netip.AddrPort) Object {
	return Object{"name": name, "load_assignment": Object{"cluster_name": name, "endpoints": []any{Object{
		"lb_endpoints": []any{Object{"endpoint": Object{"address": socketAddress(address)}}},
	}}}}
}

// peer is what requests are sent to, over one connection for each table.
type peer struct {
	addresses []netip.AddrPort
	conns     []*envoytest.Conn
	// lines are what is compared of an answer's fields; nil stands for normal.
	lines func(http.Header) []string
}

// answer is what is compared: a response, and in its body the request that the endpoint saw.
type answer struct {
	Status int
	Header []string
	Body   string
}

// send asks and reads the answer. A connection that ended in between is replaced.
func (p *peer) send(t testing.TB, table int, r *Request) answer {
	t.Helper()
	a, err := p.try(table, r)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		p.conns[table] = nil
		a, err = p.try(table, r)
	}
	if err != nil {
		t.Fatalf("table %d: %v of %s for %q", table, err, p.addresses[table], r.Bytes())
	}
	return a
}

func (p *peer) try(table int, r *Request) (answer, error) {
	c := p.conns[table]
	if c == nil {
		opened, err := net.Dial("tcp", p.addresses[table].String())
		if err != nil {
			return answer{}, err
		}
		c = &envoytest.Conn{Conn: opened, Reader: bufio.NewReader(opened)}
		p.conns[table] = c
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return answer{}, err
	}
	if _, err := c.Write(r.Bytes()); err != nil {
		return answer{}, err
	}
	response, err := http.ReadResponse(c.Reader, &http.Request{Method: r.Method})
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	if response.Close {
		_ = c.Close()
		p.conns[table] = nil
	}
	lines := p.lines
	if lines == nil {
		lines = normal
	}
	return answer{response.StatusCode, lines(response.Header), string(body)}, nil
}

// unasked are fields that Envoy sets on its own and XLB, without --envoy-headers, does not,
// and those that two answers to one request need not share.
var unasked = []string{"date", "x-forwarded-proto", "connection", "transfer-encoding"}

// normal lists fields by name, each with its values in order: several lines are one list, in which empty ones count
// for nothing (RFC 9110 sections 5.3 and 5.6.1).
// A length of 0 is left out, which some messages without a body have and others not.
func normal(h http.Header) []string {
	var lines []string
	for name, values := range h {
		name = strings.ToLower(name)
		if !slices.Contains(unasked, name) && (name != "content-length" || values[0] != "0") {
			values = slices.DeleteFunc(values, func(v string) bool { return v == "" })
			lines = append(lines, name+": "+strings.Join(values, ","))
		}
	}
	slices.Sort(lines)
	return lines
}

// routeAt is the route for a target, for messages.
func (t *ActionTable) routeAt(target string) string {
	for _, vh := range t.Config["virtual_hosts"].([]any) {
		for _, r := range vh.(Object)["routes"].([]any) {
			for _, kind := range []string{"path", "prefix", "path_separated_prefix"} {
				at, _ := r.(Object)["match"].(Object)[kind].(string)
				if at != "" && strings.HasPrefix(strings.ToLower(target), strings.ToLower(at)) {
					text, _ := json.Marshal(r)
					return string(text)
				}
			}
		}
	}
	return "none, or one of an expression"
}
