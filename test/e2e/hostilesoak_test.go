// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/tcptest"
)

// What the soak may leave, more than at its first rest: bytes that are the daemon's own, which its garbage collector gives back late, and how long each
// bout of harm lasts.
const (
	soakMemory      = 96 << 20
	soakDescriptors = 8
	soakGoroutines  = 16
	soakBout        = 20 * time.Second
)

// soakNames is how many names a fiend has for resources of each kind.
const soakNames = 12

// fiend is a control plane and a server of secrets that says at random what it may and what it must not, in each form of the protocol.
type fiend struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	secretv3.UnimplementedSecretDiscoveryServiceServer
	goods map[string][]named // what is valid, by kind
	kinds []string           // sorted

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	said   map[string]int
}

// named is a resource as it is sent.
type named struct {
	name string
	body *anypb.Any
}

// draw has the source of chance for a moment: streams run at once.
func (f *fiend) draw(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

func (f *fiend) count(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said[what]++
}

// spoil makes of a good resource one of another sort, which may still be good.
func (f *fiend) spoil(kind string, r named) named {
	body := proto.Clone(r.body).(*anypb.Any)
	sorts := []string{"good", "good", "changed byte", "truncated", "another type", "another name", "empty", "random", "deep"}
	sort := sorts[f.draw(len(sorts))]
	f.count(sort)
	switch sort {
	case "changed byte":
		for range 1 + f.draw(4) {
			body.Value[f.draw(len(body.Value))] = byte(f.draw(256))
		}
	case "truncated":
		body.Value = body.Value[:f.draw(len(body.Value))]
	case "another type":
		body.TypeUrl = f.kinds[f.draw(len(f.kinds))]
	case "another name":
		others := f.goods[kind]
		r.name = others[f.draw(len(others))].name
	case "empty":
		body.Value = nil
	case "random":
		body.Value = make([]byte, 1+f.draw(2000))
		for i := range body.Value {
			body.Value[i] = byte(f.draw(256))
		}
	case "deep":
		// Wrappers in wrappers, and messages in messages.
		for range 20 {
			value, _ := proto.Marshal(&discoveryv3.Resource{Name: r.name, Resource: body})
			body = &anypb.Any{TypeUrl: "type.googleapis.com/envoy.service.discovery.v3.Resource", Value: value}
		}
	}
	return named{r.name, body}
}

// resources are some of a kind, some of them more than once, or a giant.
func (f *fiend) resources(kind string) (all []named) {
	if f.draw(150) == 0 {
		f.count("giant")
		return []named{{"giant", &anypb.Any{TypeUrl: kind, Value: make([]byte, 4<<20+f.draw(66<<20))}}}
	}
	goods := f.goods[kind]
	if len(goods) == 0 {
		return []named{{"none", &anypb.Any{TypeUrl: kind, Value: []byte("none")}}}
	}
	// All that is good often enough that much is in force.
	if f.draw(3) == 0 {
		f.count("all good")
		return slices.Clone(goods)
	}
	for range f.draw(2 * len(goods)) {
		all = append(all, f.spoil(kind, goods[f.draw(len(goods))]))
	}
	return all
}

// wrap gives resources versions and times to live, of which a third has none.
func (f *fiend) wrap(all []named) (out []*discoveryv3.Resource) {
	for _, r := range all {
		w := &discoveryv3.Resource{Name: r.name, Version: strconv.Itoa(f.draw(5)), Resource: r.body}
		switch f.draw(6) {
		case 0:
			w.Ttl = durationpb.New(time.Duration(f.draw(2000)) * time.Millisecond)
		case 1:
			w.Ttl = durationpb.New(-time.Hour)
		case 2:
			w.Ttl, w.Resource = durationpb.New(time.Second), nil // a heartbeat
		}
		out = append(out, w)
	}
	return out
}

func (f *fiend) kind() string {
	if f.draw(20) == 0 {
		return "type.googleapis.com/none"
	}
	return f.kinds[f.draw(len(f.kinds))]
}

// nonce is new, one that was there, or none.
func (f *fiend) nonce() string { return []string{"", "1", strconv.Itoa(f.draw(1 << 20))}[f.draw(3)] }

func (f *fiend) state(kind string) *discoveryv3.DiscoveryResponse {
	m := &discoveryv3.DiscoveryResponse{TypeUrl: kind, VersionInfo: strconv.Itoa(f.draw(1000)), Nonce: f.nonce()}
	all := f.resources(kind)
	if f.draw(4) > 0 {
		for _, r := range all {
			m.Resources = append(m.Resources, r.body)
		}
		return m
	}
	for _, w := range f.wrap(all) {
		body, _ := anypb.New(w)
		m.Resources = append(m.Resources, body)
	}
	return m
}

func (f *fiend) difference(kind string) *discoveryv3.DeltaDiscoveryResponse {
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: kind, SystemVersionInfo: strconv.Itoa(f.draw(1000)), Nonce: f.nonce(), Resources: f.wrap(f.resources(kind))}
	for range f.draw(4) {
		if goods := f.goods[kind]; len(goods) > 0 {
			m.RemovedResources = append(m.RemovedResources, goods[f.draw(len(goods))].name)
		}
	}
	return m
}

// converse says what it likes on a stream until it ends that, or the daemon does.
func converse[Q, A any](f *fiend, stream grpc.BidiStreamingServer[Q, A], say func() *A) error {
	if f.draw(10) > 0 {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
	// Half of all streams are read.
	if f.draw(2) == 0 {
		go func() {
			for {
				if _, err := stream.Recv(); err != nil {
					return
				}
			}
		}()
	}
	for {
		switch f.draw(30) {
		case 0:
			f.count("stream ended")
			return nil
		case 1:
			f.count("stream failed")
			return status.Error(codes.Code(1+f.draw(16)), "by the fiend")
		case 2:
			f.count("silence")
			select {
			case <-stream.Context().Done():
				return nil
			case <-time.After(time.Duration(f.draw(3000)) * time.Millisecond):
			}
		}
		if err := stream.Send(say()); err != nil {
			return err
		}
		f.count("responses")
		time.Sleep(time.Duration(f.draw(20)) * time.Millisecond)
	}
}

// StreamAggregatedResources implements the service of the state of the world.
func (f *fiend) StreamAggregatedResources(s discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return converse(f, s, func() *discoveryv3.DiscoveryResponse { return f.state(f.kind()) })
}

// DeltaAggregatedResources implements the service of differences.
func (f *fiend) DeltaAggregatedResources(s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return converse(f, s, func() *discoveryv3.DeltaDiscoveryResponse { return f.difference(f.kind()) })
}

// StreamSecrets implements the service of secrets alone.
func (f *fiend) StreamSecrets(s secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	return converse(f, s, func() *discoveryv3.DiscoveryResponse { return f.state(secretType) })
}

// DeltaSecrets is StreamSecrets by differences.
func (f *fiend) DeltaSecrets(s secretv3.SecretDiscoveryService_DeltaSecretsServer) error {
	return converse(f, s, func() *discoveryv3.DeltaDiscoveryResponse { return f.difference(secretType) })
}

// serve answers until the test ends.
func (f *fiend) serve(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, f)
	secretv3.RegisterSecretDiscoveryServiceServer(server, f)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return netip.MustParseAddrPort(l.Addr().String())
}

// goodsOf are resources of every kind that fit each other, beside those of the world that the soak comes back to, of which it has the names as well.
func goodsOf(t *testing.T, x *warmingWorld, secret func(string) map[string]any) map[string][]named {
	t.Helper()
	goods := map[string][]named{}
	add := func(kind, name string, resource map[string]any) {
		goods[kind] = append(goods[kind], named{name, bodyOf(t, kind, resource)})
	}
	for kind, all := range x.w {
		for name, resource := range all {
			add(kind, name, resource)
		}
	}
	_, strange := x.a.issue(t, callerIdentity)
	for i := range soakNames {
		name := fmt.Sprint("fiend-", i)
		add(assignmentType, name, assignmentOf(name, x.plain[i%2], x.secured))
		cluster := edsCluster(x.d, name, name)
		if i%2 == 0 {
			cluster["transport_socket"] = meshSocketWith(webIdentity, func(string) map[string]any { return secret(name) })
		}
		if i%3 == 0 {
			cluster["health_checks"] = []any{map[string]any{
				"timeout": "1s", "interval": "1s", "unhealthy_threshold": 1, "healthy_threshold": 1, "http_health_check": map[string]any{"path": "/"},
			}}
			cluster["ignore_health_on_host_removal"] = true
		}
		add(clusterType, name, cluster)
		add(routesType, name, tableOf(name, routeTo("/"+name, name, nil), map[string]any{
			"match": map[string]any{"safe_regex": map[string]any{"regex": fmt.Sprintf("/[a-z]{1,%d}/.*", 10*(i+1))}}, "route": map[string]any{"cluster": name},
		}, routeTo("/", "shop", nil)))
		add(listenerType, name, rdsListener(x.d, name, harness.Service(), name))
		chain, key := x.a.issue(t, callerIdentity)
		if i%4 == 3 {
			key = strange
		}
		own := ownSecret(chain, key)
		own["name"] = []string{name, "default"}[i%2]
		add(secretType, own["name"].(string), own)
	}
	root := authoritySecret(x.a.pem)
	add(secretType, "ROOTCA", root)
	return goods
}

// soak is a daemon between two servers that mean well and one that does not.
type soak struct {
	*warmingWorld
	b              *harness.Balancer
	own, vault     netip.AddrPort
	plane, secrets *tcptest.Switchboard
	fiend          *fiend
	evil           netip.AddrPort
	at             int
}

func newSoak(t *testing.T, delta bool, seed uint64) *soak {
	t.Helper()
	place, good := harness.SameHost(t), serveControlPlane(t, delta)
	s := &soak{own: good.address}
	s.plane = tcptest.NewSwitchboard(t, good.address)
	good.address = s.plane.Address
	s.warmingWorld = newWarmingWorld(t, good, place)
	s.supply(t)
	vault := s.v.path
	s.vault = tcptest.Listen(t, func(c net.Conn) { pipe(c, "unix", vault) })
	s.secrets = tcptest.NewSwitchboard(t, s.vault)
	s.v.path = vault + ".front"
	serveUnix(t, s.v.path, func(c net.Conn) { pipe(c, "tcp", s.secrets.Address.String()) })
	secret := secretOf
	if delta {
		secret = func(name string) map[string]any {
			of := secretOf(name)
			of["sds_config"].(map[string]any)["api_config_source"].(map[string]any)["api_type"] = "DELTA_GRPC"
			return of
		}
	}
	s.secure("shop", "shop-2", "1s", secret)
	// What nobody asks for go-control-plane waits with for ever (its superset of names).
	delete(s.w[assignmentType], "shop-1")
	good.deliver(t, s.w)
	// Servers of secrets are asked over Unix sockets.
	config := s.bootstrap()
	s.fiend = &fiend{goods: goodsOf(t, s.warmingWorld, secret), random: rand.New(rand.NewPCG(seed, 0)), said: map[string]int{}}
	s.fiend.kinds = slices.Sorted(maps.Keys(s.fiend.goods))
	s.evil = s.fiend.serve(t)
	s.b = harness.Start(t, harness.Modes(t)[0], config, place)
	return s
}

// serveUnix accepts connections on a Unix socket until the test ends.
func serveUnix(t *testing.T, path string, serve func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
}

// pipe leads a connection to another server until either ends.
func pipe(c net.Conn, network, address string) {
	defer c.Close()
	server, err := net.Dial(network, address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, c)
		_ = server.Close()
	}()
	_, _ = io.Copy(c, server)
}

// bout has the fiend in place of one server or of both, and cuts what is open now and then.
func (s *soak) bout(until time.Time) {
	for time.Now().Before(until) {
		s.plane.Turn(s.evil)
		if s.fiend.draw(3) > 0 {
			s.secrets.Turn(s.evil)
		}
		time.Sleep(time.Duration(200+s.fiend.draw(8000)) * time.Millisecond)
		if s.fiend.draw(4) == 0 {
			s.secrets.Turn(s.vault)
		}
	}
}

// rest comes back to servers that mean well, with another certificate, until they are followed.
func (s *soak) rest(t *testing.T) {
	t.Helper()
	s.at++
	s.chain, s.key = s.a.issue(t, callerIdentity)
	s.supply(t)
	mark := fmt.Sprint(s.at)
	s.w.put(routesType, "table", tableOf("table", map[string]any{
		"match": map[string]any{"path": "/mark"}, "direct_response": map[string]any{"status": 200, "body": inline(mark)},
	}, routeTo("/", "shop", nil)))
	s.plane.Turn(s.own)
	s.secrets.Turn(s.vault)
	s.d.deliver(t, s.w)
	harness.Eventually(t, 2*time.Minute, "servers that mean well are followed", func() bool {
		return s.first(t, "/mark") == "200 "+mark && strings.HasPrefix(s.first(t, "/"), "200")
	})
}

// first is the status and body of the first answer, empty where there is none.
func (s *soak) first(t *testing.T, path string) string {
	t.Helper()
	replies := runExchange(t, s.place, s.service, 10*time.Second, getAndReceive(path)...).Replies
	if len(replies) == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", replies[0].Status, replies[0].Body)
}

func (s *soak) now(t *testing.T) flat {
	t.Helper()
	return flat{s.b.OwnMemory(t), s.b.Descriptors(t), int(s.b.Metric(t, "go_goroutines"))}
}

// least is the least of each figure within some seconds: garbage, and connections that are about to close, come and go.
func (s *soak) least(t *testing.T) flat {
	t.Helper()
	var out flat
	for i := range 20 {
		now := s.now(t)
		if i == 0 {
			out = now
		}
		out = flat{min(out.memory, now.memory), min(out.descriptors, now.descriptors), min(out.goroutines, now.goroutines)}
		time.Sleep(250 * time.Millisecond)
	}
	return out
}

func (f flat) String() string {
	return fmt.Sprintf("%d MiB, %d descriptors, %d goroutines", f.memory>>20, f.descriptors, f.goroutines)
}

// exceeds reports whether more is held than a soak may leave.
func (f flat) exceeds(first flat) bool {
	return f.memory > first.memory+soakMemory || f.descriptors > first.descriptors+soakDescriptors || f.goroutines > first.goroutines+soakGoroutines
}

// A control plane and a server of secrets that say at random what they may and what they must not, in both forms of the protocol, leave nothing: whenever
// others that mean well are in their place these are followed, and memory, descriptors, goroutines and what the kernel holds are as at the first such rest.
func TestHostileControlPlaneAndSecretsLeaveNothing(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	harness.OnlyXLB(t, "the bounds are XLB's")
	duration := liveSetting(t, hostileControlDuration, 12*time.Second, time.ParseDuration)
	seed := liveSetting(t, hostileControlSeed, 1, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	for _, delta := range []bool{false, true} {
		t.Run(map[bool]string{false: "sotw", true: "delta"}[delta], func(t *testing.T) {
			s := newSoak(t, delta, seed)
			load := s.place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: s.service.String(), Connections: 4, Pause: 5 * time.Millisecond})
			s.bout(time.Now().Add(min(duration, soakBout))) // warms up what grows once
			s.rest(t)
			first, left := s.least(t), s.b.Left(t)
			t.Logf("seed %d: first rest: %v", seed, first)
			for end := time.Now().Add(duration / 2); time.Now().Before(end); {
				s.bout(time.Now().Add(min(soakBout, duration/2)))
				s.rest(t)
				t.Logf("%s: rest %d: %v", time.Now().Format(time.TimeOnly), s.at, s.least(t))
			}
			var last flat
			harness.Eventually(t, 4*time.Minute, "no more is held than at the first rest", func() bool {
				last = s.now(t)
				return !last.exceeds(first)
			})
			s.b.AwaitLeft(t, left)
			var final programs.LoadReport
			load.Finish(t, &final)
			t.Logf("seed %d: %d rests, %v, then %v; %d requests; said: %v", seed, s.at, first, last, final.Total, s.fiend.said)
		})
	}
}
