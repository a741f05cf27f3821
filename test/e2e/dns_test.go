// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// nameServer knows one name, "origin.test", which is all addresses at a time, or fails. It has no answer to questions for silentName.
type nameServer struct {
	address netip.AddrPort

	mu    sync.Mutex // guards the rest
	addrs []netip.Addr
	ttl   uint32
	code  dnsmessage.RCode
	// silent does not answer.
	silent bool
	// asked for IPv4 addresses.
	asked int
	// unanswered questions for silentName.
	unanswered int
	// alias is the time to live of an alias of the name, which has the addresses then; 0: there is none.
	alias uint32
}

const (
	originName = "origin.test"
	silentName = "silent.test"
	aliasName  = "alias.test"
)

func startNameServer(t *testing.T) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	s := &nameServer{address: netip.MustParseAddrPort(conn.LocalAddr().String())}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := s.reply(buffer[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return s
}

func (s *nameServer) reply(question []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := m.Questions[0]
	if q.Name.String() == silentName+"." {
		s.unanswered++
		return nil
	}
	if q.Type == dnsmessage.TypeA {
		s.asked++
	}
	if s.silent {
		return nil
	}
	m.Response, m.RecursionAvailable, m.Additionals, m.RCode = true, true, nil, s.code
	if q.Name.String() != originName+"." {
		m.RCode = dnsmessage.RCodeNameError
	}
	if s.alias > 0 && m.RCode == dnsmessage.RCodeSuccess {
		alias := dnsmessage.MustNewName(aliasName + ".")
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: s.alias},
			Body:   &dnsmessage.CNAMEResource{CNAME: alias},
		})
		q.Name = alias
	}
	for _, a := range s.addrs {
		if m.RCode == dnsmessage.RCodeSuccess && q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: s.ttl},
				Body:   &dnsmessage.AResource{A: a.As4()},
			})
		}
	}
	answer, _ := m.Pack()
	return answer
}

func (s *nameServer) set(code dnsmessage.RCode, ttl uint32, addrs ...netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.code, s.ttl, s.addrs, s.silent = code, ttl, addrs, false
}

// setAlias has the name lead to its addresses by way of an alias with that time to live in seconds.
func (s *nameServer) setAlias(ttl uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alias = ttl
}

// silences counts the questions that got no answer.
func (s *nameServer) silences() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unanswered
}

func (s *nameServer) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// namedOrigins are servers at one port of several addresses. Each tells its address, ends the connection behind a response, so that
// connections of before do not matter, and holds requests for /hold until it may write to the channel: to say that it has one, and to answer.
func namedOrigins(t *testing.T, held chan<- struct{}, addrs ...netip.Addr) uint16 {
	return atOnePort(t, addrs, func(a netip.Addr) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hold" {
				held <- struct{}{}
				held <- struct{}{}
			}
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, a.String())
		}
	})
}

func namedConfig(service netip.AddrPort, servers *nameServer, kind string, port uint16, fields map[string]any) harness.Config {
	config := harness.OneCluster(service)
	f := map[string]any{
		"type": kind, "dns_refresh_rate": "0.2s", "dns_lookup_family": "V4_ONLY",
		"load_assignment": assignedNames(port, originName),
		"typed_dns_resolver_config": map[string]any{"name": "envoy.network.dns_resolver.cares", "typed_config": map[string]any{
			"@type":                "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
			"resolvers":            []any{map[string]any{"socket_address": map[string]any{"address": servers.address.Addr().String(), "port_value": servers.address.Port()}}},
			"dns_resolver_options": map[string]any{"no_default_search_domain": true},
		}},
	}
	for k, v := range fields {
		f[k] = v
	}
	config.Clusters[0].Fields = f
	return config
}

// assignedNames are the endpoints of the cluster, by name.
func assignedNames(port uint16, names ...string) map[string]any {
	var all []any
	for _, name := range names {
		all = append(all, map[string]any{"endpoint": map[string]any{"address": map[string]any{"socket_address": map[string]any{"address": name, "port_value": port}}}})
	}
	return map[string]any{"cluster_name": "origins", "endpoints": []any{map[string]any{"lb_endpoints": all}}}
}

// answers asks n times, on connections of their own, and counts bodies of 200 and statuses of others.
func answers(t *testing.T, place *harness.Place, service netip.AddrPort, n int) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range n {
		report := runExchange(t, place, service, await.Patience, getAndReceive("/")...)
		switch {
		case len(report.Replies) != 1:
			got["none: "+report.Error]++
		case report.Replies[0].Status == 200:
			got[report.Replies[0].Body]++
		default:
			got[http.StatusText(report.Replies[0].Status)]++
		}
	}
	return got
}

// only waits until all requests are answered by these, each at least once.
func only(t *testing.T, place *harness.Place, service netip.AddrPort, what string, want ...string) {
	t.Helper()
	var got map[string]int
	defer func() {
		if t.Failed() {
			t.Logf("%s: answers of %v, want %v", what, got, want)
		}
	}()
	harness.Eventually(t, await.Patience, what, func() bool {
		got = answers(t, place, service, 4)
		if len(got) != len(want) {
			return false
		}
		for _, w := range want {
			if got[w] == 0 {
				return false
			}
		}
		return true
	})
}

// forAll runs a test in every mode and beside Envoy.
func forAll(t *testing.T, test func(t *testing.T, start func(harness.Config) *harness.Balancer, place *harness.Place)) {
	t.Helper()
	place := harness.SameHost(t)
	forAllIn(t, place, func(t *testing.T, start func(harness.Config) *harness.Balancer) { test(t, start, place) })
}

// forAllIn is forAll in a place that is there already, perhaps with servers.
func forAllIn(t *testing.T, place *harness.Place, test func(t *testing.T, start func(harness.Config) *harness.Balancer)) {
	t.Helper()
	for _, mode := range harness.Modes(t) {
		t.Run(mode.Name, func(t *testing.T) {
			test(t, func(c harness.Config) *harness.Balancer { return harness.Start(t, mode, c, place) })
		})
	}
	if !harness.Envoy() {
		t.Run("Envoy", func(t *testing.T) {
			test(t, func(c harness.Config) *harness.Balancer { return harness.StartEnvoy(t, c, place) })
		})
	}
}

// forAllAtOnce has all of them run at the same time, each in a place of its own, until the test ends.
func forAllAtOnce(t *testing.T, begin func(peer string, start func(harness.Config) *harness.Balancer, place *harness.Place)) {
	t.Helper()
	for _, mode := range harness.Modes(t) {
		place := harness.SameHost(t)
		begin(mode.Name, func(c harness.Config) *harness.Balancer { return harness.Start(t, mode, c, place) }, place)
	}
	if !harness.Envoy() {
		place := harness.SameHost(t)
		begin("Envoy", func(c harness.Config) *harness.Balancer { return harness.StartEnvoy(t, c, place) }, place)
	}
}

var (
	firstAddr  = netip.MustParseAddr("127.96.0.1")
	secondAddr = netip.MustParseAddr("127.96.0.2")
)

// TestALogicalHostIsTheFirstAddressOfTheLastAnswer moves a name from address to address, and breaks it.
func TestALogicalHostIsTheFirstAddressOfTheLastAnswer(t *testing.T) {
	suite.Long(t, suite.Clock)
	harness.Beside(t)
	forAll(t, func(t *testing.T, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		names, service, hold := startNameServer(t), harness.Service(), make(chan struct{})
		names.set(dnsmessage.RCodeSuccess, 60, secondAddr, firstAddr)
		port := namedOrigins(t, hold, firstAddr, secondAddr)
		start(namedConfig(service, names, "LOGICAL_DNS", port, nil))

		only(t, place, service, "the first address", secondAddr.String())
		held := place.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
			Address: service.String(), Timeout: await.Patience, Steps: getAndReceive("/hold")})
		<-hold
		names.set(dnsmessage.RCodeSuccess, 60, firstAddr, secondAddr)
		only(t, place, service, "the addresses in another order", firstAddr.String())
		<-hold
		var report programs.ExchangeReport
		if held.Next(t, &report); len(report.Replies) != 1 || report.Replies[0].Body != secondAddr.String() {
			t.Errorf("the request that was under way when the address changed: %+v", report)
		}
		for _, code := range []dnsmessage.RCode{dnsmessage.RCodeServerFailure, dnsmessage.RCodeNameError, dnsmessage.RCodeSuccess} {
			names.set(code, 60)
			asked := names.questions()
			harness.Eventually(t, await.Patience, "two more questions", func() bool { return names.questions() >= asked+2 })
			only(t, place, service, "no address, with "+code.String(), firstAddr.String())
		}
		names.set(dnsmessage.RCodeSuccess, 60, secondAddr)
		only(t, place, service, "found again", secondAddr.String())
	})
}

// TestNamesOfAStrictClusterFollowTheirAnswers adds and takes addresses, and breaks the name.
func TestNamesOfAStrictClusterFollowTheirAnswers(t *testing.T) {
	harness.Beside(t)
	forAll(t, func(t *testing.T, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		names, service := startNameServer(t), harness.Service()
		names.set(dnsmessage.RCodeSuccess, 60, firstAddr)
		port := namedOrigins(t, nil, firstAddr, secondAddr)
		start(namedConfig(service, names, "STRICT_DNS", port, nil))

		only(t, place, service, "one address", firstAddr.String())
		names.set(dnsmessage.RCodeSuccess, 60, firstAddr, secondAddr)
		only(t, place, service, "two addresses", firstAddr.String(), secondAddr.String())
		names.set(dnsmessage.RCodeServerFailure, 60)
		asked := names.questions()
		harness.Eventually(t, await.Patience, "two more questions", func() bool { return names.questions() >= asked+2 })
		only(t, place, service, "the server fails", firstAddr.String(), secondAddr.String())
		names.set(dnsmessage.RCodeNameError, 60)
		only(t, place, service, "no such name", http.StatusText(http.StatusServiceUnavailable))
		names.set(dnsmessage.RCodeSuccess, 60, secondAddr)
		only(t, place, service, "found again", secondAddr.String())
	})
}

// TestANameThatDoesNotAnswerHoldsNoOtherUp has a cluster of two names, of which one never gets an answer. The other one is served from, and moves,
// while the first look-up of that one is still under way: it fails after two questions at the earliest, with XLB and with Envoy.
func TestANameThatDoesNotAnswerHoldsNoOtherUp(t *testing.T) {
	harness.Beside(t)
	place := harness.SameHost(t)
	port := namedOrigins(t, nil, firstAddr, secondAddr)
	forAllIn(t, place, func(t *testing.T, start func(harness.Config) *harness.Balancer) {
		await.OneOfThree(t, "one name is silent", func() (difference string) {
			names, service := startNameServer(t), harness.Service()
			names.set(dnsmessage.RCodeSuccess, 60, firstAddr)
			balancer := start(namedConfig(service, names, "STRICT_DNS", port, map[string]any{"load_assignment": assignedNames(port, originName, silentName)}))
			defer balancer.Terminate(t)
			only(t, place, service, "the name that answers", firstAddr.String())
			if n := names.silences(); n != 1 {
				difference = fmt.Sprintf("served after %d questions without an answer; ", n)
			}
			before := names.silences()
			names.set(dnsmessage.RCodeSuccess, 60, secondAddr)
			only(t, place, service, "it moves", secondAddr.String())
			if n := names.silences() - before; n > 1 {
				difference += fmt.Sprintf("moved after %d more; ", n)
			}
			return difference
		})
	})
}

// TestAnAddressIsBelievedNoLongerThanItsAlias moves a name whose address may be kept for an hour, and its alias for a second.
func TestAnAddressIsBelievedNoLongerThanItsAlias(t *testing.T) {
	harness.Beside(t)
	place := harness.SameHost(t)
	port := namedOrigins(t, nil, firstAddr, secondAddr)
	forAllIn(t, place, func(t *testing.T, start func(harness.Config) *harness.Balancer) {
		names, service := startNameServer(t), harness.Service()
		names.setAlias(1)
		names.set(dnsmessage.RCodeSuccess, 3600, firstAddr)
		start(namedConfig(service, names, "STRICT_DNS", port, map[string]any{"dns_refresh_rate": "3600s", "respect_dns_ttl": true}))
		only(t, place, service, "at first", firstAddr.String())
		names.set(dnsmessage.RCodeSuccess, 3600, secondAddr)
		only(t, place, service, "it moves", secondAddr.String())
	})
}

// TestNamesAreLookedUpWhenTheirAnswersExpire counts questions. A name that is asked for too often shows in any time; one that is asked for too
// seldom has to show in each of three.
func TestNamesAreLookedUpWhenTheirAnswersExpire(t *testing.T) {
	suite.Long(t, suite.Clock)
	harness.Beside(t)
	const window = 3 * time.Second
	tests := []struct {
		name   string
		fields map[string]any
		code   dnsmessage.RCode
		ttl    uint32
		// least are the questions in a window behind the first one; between two are pause at least, on the average.
		least int
		pause time.Duration
	}{
		{"every refresh", map[string]any{"dns_refresh_rate": "0.5s"}, dnsmessage.RCodeSuccess, 1, 4, 500 * time.Millisecond},
		{"time to live of one second", map[string]any{"dns_refresh_rate": "60s", "respect_dns_ttl": true}, dnsmessage.RCodeSuccess, 1, 2, time.Second},
		{"long refresh", map[string]any{"dns_refresh_rate": "3600s"}, dnsmessage.RCodeSuccess, 1, 0, time.Hour},
		{"jitter", map[string]any{"dns_refresh_rate": "0.1s", "dns_jitter": "0.9s"}, dnsmessage.RCodeSuccess, 1, 2, 210 * time.Millisecond},
		{"failures", map[string]any{"dns_refresh_rate": "60s", "dns_failure_refresh_rate": map[string]any{"base_interval": "0.1s", "max_interval": "0.5s"}}, dnsmessage.RCodeServerFailure, 1, 6, 15 * time.Millisecond},
		{"no time to live", lively("0.5s"), dnsmessage.RCodeSuccess, 0, 4, 500 * time.Millisecond},
		{"time to live above the refresh rate", lively("0.1s"), dnsmessage.RCodeSuccess, 3600, 0, time.Hour},
		{"longest time to live", lively("0.1s"), dnsmessage.RCodeSuccess, math.MaxInt32, 0, time.Hour},
		{"time to live of 2^31 s", lively("0.5s"), dnsmessage.RCodeSuccess, math.MaxInt32 + 1, 4, 500 * time.Millisecond},
		{"name that does not exist", lively("0.5s"), dnsmessage.RCodeNameError, 3600, 4, 500 * time.Millisecond},
	}
	type asked struct {
		peer    string
		servers []*nameServer
	}
	var peers []asked
	forAllAtOnce(t, func(peer string, start func(harness.Config) *harness.Balancer, _ *harness.Place) {
		p := asked{peer: peer}
		var config harness.Config
		for _, tt := range tests {
			names := startNameServer(t)
			names.set(tt.code, tt.ttl, firstAddr)
			config.Add(namedConfig(harness.Service(), names, "STRICT_DNS", 1, tt.fields))
			p.servers = append(p.servers, names)
		}
		start(config)
		peers = append(peers, p)
	})
	await.OneOfThree(t, "questions", func() (difference string) {
		began, before := time.Now(), map[*nameServer]int{}
		for _, p := range peers {
			for _, names := range p.servers {
				before[names] = names.questions()
			}
		}
		// What did not happen needs a time.
		time.Sleep(window)
		for _, p := range peers {
			for i, tt := range tests {
				n, took := p.servers[i].questions()-before[p.servers[i]], time.Since(began)
				if most := mostQuestions(took, tt.pause); n > most {
					t.Errorf("%s: %s: %d questions in %v, want at most %d", p.peer, tt.name, n, took, most)
				}
				if n < tt.least {
					difference += fmt.Sprintf("%s: %s: %d questions in %v, want at least %d; ", p.peer, tt.name, n, took, tt.least)
				}
			}
		}
		return difference
	})
}

// lively is a cluster whose names are believed as long as their answers say, and asked for anew at that rate where these say nothing. Failures would be
// asked for more seldom.
func lively(refresh string) map[string]any {
	return map[string]any{
		"dns_refresh_rate": refresh, "respect_dns_ttl": true,
		"dns_failure_refresh_rate": map[string]any{"base_interval": "3600s", "max_interval": "3600s"},
	}
}

// mostQuestions come in some time behind the first one.
func mostQuestions(took, pause time.Duration) int {
	if took < pause/10 {
		return 0 // the first one was not so long ago
	}
	return int(took/pause) + 1
}

// TestNoRequestFailsWhileALogicalHostMoves has a client ask without a pause on one connection, while the answer changes its order ten times.
func TestNoRequestFailsWhileALogicalHostMoves(t *testing.T) {
	suite.Long(t, suite.Clock)
	forAll(t, func(t *testing.T, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		const requests = 20000
		names, service := startNameServer(t), harness.Service()
		names.set(dnsmessage.RCodeSuccess, 60, firstAddr)
		port := lastingOrigins(t, firstAddr, secondAddr)
		start(namedConfig(service, names, "LOGICAL_DNS", port, map[string]any{"dns_refresh_rate": "0.01s"}))
		var steps []programs.Step
		for range requests {
			steps = append(steps, getAndReceive("/")...)
		}
		client := place.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{Address: service.String(), Timeout: 60 * time.Second, Steps: steps})
		for i := range 10 {
			asked := names.questions()
			names.set(dnsmessage.RCodeSuccess, 60, []netip.Addr{firstAddr, secondAddr}[i%2])
			harness.Eventually(t, await.Patience, "two more questions", func() bool { return names.questions() >= asked+2 })
		}
		var report programs.ExchangeReport
		client.Next(t, &report)
		if len(report.Replies) != requests {
			t.Fatalf("%d replies: %s", len(report.Replies), report.Error)
		}
		moves := 0
		for i, r := range report.Replies {
			if r.Status != 200 {
				t.Fatalf("reply %d: %d %s", i, r.Status, r.Body)
			}
			if i > 0 && r.Body != report.Replies[i-1].Body {
				moves++
			}
		}
		t.Logf("%d moves in %v", moves, report.Elapsed)
		if moves == 0 {
			t.Error("no answer came from the other address")
		}
	})
}

// lastingOrigins are servers at one port of several addresses, which keep their connections.
func lastingOrigins(t *testing.T, addrs ...netip.Addr) uint16 {
	return atOnePort(t, addrs, func(a netip.Addr) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, a.String()) }
	})
}

// atOnePort starts a server at each address, all at one port, which it returns.
func atOnePort(t *testing.T, addrs []netip.Addr, handler func(netip.Addr) http.HandlerFunc) (port uint16) {
	t.Helper()
	for _, a := range addrs {
		l, err := net.Listen("tcp", netip.AddrPortFrom(a, port).String())
		if err != nil {
			t.Fatal(err)
		}
		port = netip.MustParseAddrPort(l.Addr().String()).Port()
		server := &http.Server{Handler: handler(a)}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { server.Close() })
	}
	return port
}
