// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

var (
	output = flag.String("output", "text", "format of the matrix: text or json")
	out    = flag.String("out", "", "file for the matrix, an absolute path; standard output by default")
	direct = flag.Bool("direct", false, "let clients speak to servers without XLB, to test the programs themselves")
)

// casePatience bounds one case. Clients give up after 30 s by themselves.
const casePatience = 45 * time.Second

// TestMain keeps standard output for the matrix: what the testing package
// prints goes to standard error.
func TestMain(m *testing.M) {
	if programs.Selected() {
		os.Exit(programs.Main())
	}
	stdout := os.Stdout
	os.Stdout = os.Stderr
	code := harness.Main(m)
	if err := report.save(stdout); err != nil {
		fmt.Fprintf(os.Stderr, "write the matrix: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

// report is what the run has found.
var report matrix

// save writes what was found, if a pair was tried at all.
func (m *matrix) save(file *os.File) (err error) {
	if len(m.Cells) == 0 {
		return nil
	}
	if *out != "" {
		if file, err = os.Create(*out); err != nil {
			return err
		}
	}
	write := m.writeText
	if *output == "json" {
		write = m.writeJSON
	}
	return errors.Join(write(file), file.Close())
}

// topologies say where clients and servers are.
var topologies = []struct {
	name   string
	places func(testing.TB) (clients, servers *harness.Place)
}{
	{"same host", func(t testing.TB) (*harness.Place, *harness.Place) {
		place := harness.SameHost(t)
		return place, place
	}},
	{"cross host", harness.TwoHosts},
}

func TestInterop(t *testing.T) {
	if *output != "text" && *output != "json" {
		t.Fatalf("-output is %q: use text or json", *output)
	}
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			bed := newBed(t, topology.name, topology.places)
			for _, server := range bed.servers {
				t.Run(server.name, func(t *testing.T) { bed.tryClients(t, server) })
			}
		})
	}
}

// bed is a topology with its servers and one XLB.
type bed struct {
	topology string
	clients  *harness.Place
	balancer *harness.Balancer
	servers  []*server
}

// server is a running server behind its service address.
type server struct {
	party
	service, address netip.AddrPort
	files            files
}

// withTrailers lets trailers pass, which are left out otherwise, and serves HTTP/1.0, which is refused otherwise.
func withTrailers() map[string]any {
	return map[string]any{"enable_trailers": true, "accept_http_10": true}
}

// trailersOfEndpoints is the same for a cluster.
func trailersOfEndpoints() map[string]any {
	const options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	return map[string]any{"typed_extension_protocol_options": map[string]any{options: map[string]any{
		"@type":                "type.googleapis.com/" + options,
		"explicit_http_config": map[string]any{"http_protocol_options": withTrailers()},
	}}}
}

func newBed(t *testing.T, topology string, places func(testing.TB) (clients, servers *harness.Place)) *bed {
	t.Helper()
	clientPlace, serverPlace := places(t)
	b := &bed{topology: topology, clients: clientPlace}
	served := newFiles(t)
	var config harness.Config
	for _, p := range servers {
		s := startServer(t, serverPlace, p, served.withStore(t))
		b.servers = append(b.servers, s)
		config.Listeners = append(config.Listeners, harness.Listener{
			Address: s.service, Manager: map[string]any{"http_protocol_options": withTrailers()}, Hosts: []harness.VirtualHost{{Routes: []harness.Route{{Clusters: harness.To(p.name), Timeout: -1}}}},
		})
		config.Clusters = append(config.Clusters, harness.Cluster{Name: p.name, Endpoints: []netip.AddrPort{s.address}, Fields: trailersOfEndpoints()})
	}
	for _, s := range b.servers {
		s.checkContract(t, serverPlace)
	}
	if !*direct {
		b.balancer = harness.Start(t, harness.Modes(t)[0], config, clientPlace)
	}
	return b
}

func startServer(t *testing.T, place *harness.Place, p party, f files) *server {
	t.Helper()
	s := &server{party: p, service: harness.Service(), address: netip.AddrPortFrom(place.Address, place.FreePort(t)), files: f}
	argv := append(p.path(t), s.address.Addr().String(), strconv.Itoa(int(s.address.Port())), f.served, f.store, openDirectory(t))
	process := place.Run(t, argv...)
	harness.Eventually(t, 20*time.Second, p.name+" answers", func() bool {
		if !process.Alive() {
			t.Fatalf("server %s ended:\n%s", p.name, process.Stderr())
		}
		response, err := place.HTTPClient().Get(s.url("/small/00"))
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return s
}

func (s *server) url(path string) string { return "http://" + s.address.String() + path }

// checkContract fails when a server frames bodies in another way than it must.
func (s *server) checkContract(t *testing.T, place *harness.Place) {
	t.Helper()
	for path, want := range map[string]string{"/large": "5000000 []", "/chunked": "-1 [chunked]"} {
		response, err := place.HTTPClient().Get(s.url(path))
		if err != nil {
			t.Fatalf("server %s: %v", s.name, err)
		}
		response.Body.Close()
		if got := fmt.Sprint(response.ContentLength, response.TransferEncoding); got != want {
			t.Fatalf("server %s: length and codings of %s: got %s, want %s", s.name, path, got, want)
		}
	}
}

// path is the command of a party with the program's absolute path.
func (p party) path(t testing.TB) []string {
	t.Helper()
	program, err := filepath.Abs(p.command[0])
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{program}, p.command[1:]...)
}

func (b *bed) tryClients(t *testing.T, s *server) {
	for _, client := range clients {
		t.Run(client.name, func(t *testing.T) {
			c := &cell{Topology: b.topology, Client: client.name, Server: s.name}
			report.Cells = append(report.Cells, c)
			pair := &pair{bed: b, client: client, server: s, base: s.service}
			if *direct {
				pair.base = s.address
			}
			pair.tryCases(t, c)
			if t.Failed() {
				t.Logf("%s to %s: %s", client.name, s.name, c)
			}
		})
	}
}

// pair is a client that speaks to a server at a base address.
type pair struct {
	*bed
	client  party
	server  *server
	base    netip.AddrPort
	process *harness.Process
	// counted after the case before.
	counted counters
}

func (p *pair) tryCases(t *testing.T, c *cell) {
	p.count(t)
	for _, tc := range testCases {
		if reason := cannot(p.client.name, p.server.name, tc.name); reason != "" {
			c.add(result{Case: tc.name, Outcome: outcomeCannot, Reason: reason})
			continue
		}
		err := p.try(t, tc)
		r := result{Case: tc.name, Outcome: outcomeOK, counters: p.count(t)}
		if err == nil && p.balancer != nil && !harness.Envoy() {
			err = tc.judgeConnections(p.client.name, r.Connections)
		}
		if err != nil {
			r.Outcome, r.Reason, r.WithoutXLB = outcomeFailed, err.Error(), p.tryWithoutXLB(t, tc)
			t.Errorf("%s: %v\nwithout XLB: %s", tc.name, err, r.WithoutXLB)
		}
		c.add(r)
	}
}

// count returns what XLB has counted since the last call.
func (p *pair) count(t *testing.T) counters {
	t.Helper()
	if p.balancer == nil || harness.Envoy() {
		return counters{}
	}
	fast, slow := p.balancer.Served(t)
	before := p.counted
	p.counted = counters{Fast: int(fast), Slow: int(slow), Connections: int(p.balancer.Metric(t, "xlb_connections_intercepted_total"))}
	return p.counted.since(before)
}

// try lets the client do one case. After a failure the next case gets a new
// client: nobody knows what state this one is in.
func (p *pair) try(t *testing.T, tc testCase) error {
	t.Helper()
	if p.process == nil {
		argv := append(p.client.path(t), "http://"+p.base.String(), p.server.files.served, openDirectory(t))
		p.process = p.clients.RunCommand(t, exec.Command(argv[0], argv[1:]...))
	}
	p.server.files.forget(t, tc.name)
	var got answer
	err := p.process.TryAsk(tc.name, casePatience, &got)
	if err == nil {
		err = tc.judge(p.client.name, p.server.name, got, p.server.files)
	}
	if err == nil {
		return nil
	}
	p.process = nil
	return err
}

// tryWithoutXLB tells what comes of a case when client and server speak directly.
func (p *pair) tryWithoutXLB(t *testing.T, tc testCase) string {
	t.Helper()
	without := &pair{bed: p.bed, client: p.client, server: p.server, base: p.server.address}
	if err := without.try(t, tc); err != nil {
		return err.Error()
	}
	return outcomeOK
}
