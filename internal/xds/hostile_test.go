// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/limits"
)

// Ten thousand clusters, each with its assignment.
func TestManyResources(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		const many = 10000
		var clusters, assignments []proto.Message
		for i := range many {
			name := fmt.Sprintf("outbound|8080||service-%05d.namespace.svc.cluster.local", i)
			clusters = append(clusters, cluster(name, 1))
			assignments = append(assignments, assignment(name, 1))
		}
		server := play(t, func(d *dialogue) {
			d.next(Clusters)
			d.give(Clusters, "1", "1", clusters...)
			d.give(Listeners, "1", "1")
			a := d.next(Assignments)
			d.expect(len(a.names)+len(a.subscribe) == many, "all are asked for", len(a.names))
			d.give(Assignments, "1", "1", assignments...)
			for i := range 100 { // one at a time
				d.give(Assignments, fmt.Sprint(i), "n", assignments[i], assignment(fmt.Sprintf("outbound|8080||service-%05d.namespace.svc.cluster.local", 100+i), 2))
			}
			d.stay()
		})
		begin := time.Now()
		first := make(chan Snapshot, 1)
		o := observe(t, Config{Servers: []Server{server}, Delta: delta, FetchTimeout: time.Minute, Update: func(s Snapshot) error {
			select {
			case first <- s:
				t.Logf("%d clusters handed out %v after the start", len(s.Clusters), time.Since(begin))
			default:
			}
			return nil
		}})
		s := <-first
		o.awaitStatus("responses", func(s Status) bool { return s.Kinds[Assignments].Successes == 101 })
		if len(s.Clusters) != many || len(s.Assignments) != many {
			t.Errorf("first state has %d clusters, %d assignments", len(s.Clusters), len(s.Assignments))
		}
	})
}

// A response that is too large ends the stream with a reason. The server is not asked again at once, though it has answered.
func TestTooLargeResponse(t *testing.T) {
	big := &discoveryv3.DiscoveryResponse{TypeUrl: Clusters.TypeURL(), VersionInfo: "2", Nonce: "2", Resources: []*anypb.Any{
		{TypeUrl: Clusters.TypeURL(), Value: make([]byte, 100<<20)},
	}}
	server := play(t, func(d *dialogue) {
		d.next(Clusters)
		d.whole(Clusters, "1", "1", static("a", 1))
		d.whole(Listeners, "1", "1")
		d.next(Listeners)
		d.next(Listeners)
		d.write(big)
		d.stay()
	}, func(d *dialogue) { d.stay() })
	o := observe(t, Config{Servers: []Server{server}})
	o.await("clusters a=1")
	s := o.awaitStatus("reason", func(s Status) bool {
		return s.StreamFailures > 0 && s.Error != "" || s.Connected && s.StreamFailures > 0
	})
	_ = s
	if states, _ := o.seen(); len(states) != 1 {
		t.Errorf("states %q", states)
	}
}

// What a server says that is too large is told plainly.
func TestTooLargeIsExplained(t *testing.T) {
	server := play(t, func(d *dialogue) {
		d.write(&discoveryv3.DiscoveryResponse{TypeUrl: Clusters.TypeURL(), Resources: []*anypb.Any{{TypeUrl: Clusters.TypeURL(), Value: make([]byte, limits.ControlPlane.BodyBytes)}}})
		d.stay()
	})
	o := observe(t, Config{Servers: []Server{server}})
	o.awaitStatus("reason", func(s Status) bool { return strings.HasPrefix(s.Error, "a response is larger than 64 MiB") })
}

// A server that pushes without end cannot make the client grow without bound.
func TestEndlessPushes(t *testing.T) {
	o := observe(t, Config{Servers: []Server{serve(t, &flood{names: 2000})}, Update: func(Snapshot) error { return nil }})
	s := o.awaitStatus("responses", func(s Status) bool { return s.Kinds[Clusters].Attempts > 20 })
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	t.Logf("%d responses, %d MiB in use", s.Kinds[Clusters].Attempts, m.HeapAlloc>>20)
	if m.HeapAlloc > 300<<20 {
		t.Errorf("%d MiB in use", m.HeapAlloc>>20)
	}
}

// A server that does not read what it is told is left.
func TestDeafServer(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		o := observe(t, Config{Servers: []Server{serve(t, &flood{deaf: true, names: 3})}, Delta: delta})
		o.awaitStatus("reason", func(s Status) bool { return s.StreamFailures > 0 && s.Error == errDeaf.Error() })
	})
}

// flood pushes new clusters as fast as it can.
type flood struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	deaf  bool
	names int
}

func (f *flood) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return f.push(func(m any) error { return stream.RecvMsg(m) }, &discoveryv3.DiscoveryRequest{}, func(n int) error {
		m := &discoveryv3.DiscoveryResponse{TypeUrl: Clusters.TypeURL(), VersionInfo: fmt.Sprint(n), Nonce: fmt.Sprint(n)}
		for i := range f.names {
			m.Resources = append(m.Resources, packed(cluster(fmt.Sprintf("%d-%d", n, i), n)))
		}
		return stream.Send(m)
	})
}

func (f *flood) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return f.push(func(m any) error { return stream.RecvMsg(m) }, &discoveryv3.DeltaDiscoveryRequest{}, func(n int) error {
		m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: Clusters.TypeURL(), Nonce: fmt.Sprint(n)}
		for i := range f.names {
			m.Resources = append(m.Resources, named(cluster(fmt.Sprintf("%d-%d", n%2, i), n), "1", 0))
			m.RemovedResources = append(m.RemovedResources, fmt.Sprintf("%d-%d", (n+1)%2, i))
		}
		return stream.Send(m)
	})
}

func (f *flood) push(receive func(any) error, m any, send func(int) error) error {
	if err := receive(m); err != nil {
		return err
	}
	if !f.deaf {
		go func() {
			for receive(m) == nil { // to the end
			}
		}()
	}
	for n := 0; ; n++ {
		if err := send(n); err != nil {
			return err
		}
	}
}

// The text of a refusal is bounded, and counts what it leaves out.
func TestRefusalIsBounded(t *testing.T) {
	var all []judgement
	for i := range 10000 {
		all = append(all, judgement{received: &received{name: fmt.Sprintf("cluster-%d", i)}, reason: reason{text: "is bad \xff"}})
	}
	text := refusal(all).Error()
	if len(text) > maxFault+10000*3 || !strings.HasSuffix(text, " more") || !strings.HasPrefix(text, "cluster-0: is bad ?; cluster-1: is bad ?") {
		t.Errorf("%d bytes, %.80s … %s", len(text), text, text[len(text)-40:])
	}
	if err := refusal([]judgement{{received: &received{name: strings.Repeat("x", 1<<20)}, reason: reason{text: "long"}}}); len(err.Error()) > maxFault {
		t.Errorf("%d bytes", len(err.Error()))
	}
}

// Bytes that are no response end the stream, and nothing else.
func TestNoProtobuf(t *testing.T) {
	good := play(t, func(d *dialogue) {
		d.whole(Clusters, "1", "1", static("a", 1))
		d.whole(Listeners, "1", "1")
		d.stay()
	})
	bad := play(t, func(d *dialogue) {
		// A field of the wrong wire type in the place of the resources: the name within is no string.
		d.send(&discoveryv3.DiscoveryResponse{TypeUrl: Clusters.TypeURL(), VersionInfo: "1", Nonce: "1", Resources: []*anypb.Any{{TypeUrl: Clusters.TypeURL(), Value: []byte{0x08, 1}}}})
		a := d.next(Clusters)
		for a.fault == "" {
			a = d.next(Clusters)
		}
		d.expect(a.fault == "resource 0: read its body: the name is no string", "refused", a)
		d.send(&anypb.Any{TypeUrl: "\x0a\xff\xff", Value: []byte{0xff}}) // not a response at all
		d.stay()
	}, func(*dialogue) {})
	o := observe(t, Config{Servers: []Server{bad, good}})
	o.await("clusters a=1")
}

// A resource that nobody can judge is refused, and the rest is taken.
func TestCheckPanics(t *testing.T) {
	server := play(t, func(d *dialogue) {
		d.next(Clusters)
		d.whole(Listeners, "1", "1")
		d.whole(Clusters, "1", "1", static("a", 1), static("b", 13))
		a := d.next(Clusters)
		d.expect(a.fault == "b: internal error while it was judged", "refused", a)
		d.stay()
	})
	o := observe(t, Config{Servers: []Server{server}, Check: func(k Kind, name string, body *anypb.Any) ([]string, error) {
		if content, _, _ := contentOf(body); content == 13 {
			panic("unlucky")
		}
		return check(k, name, body)
	}})
	o.await("clusters a=1")
}

// textless is an error whose text cannot be had.
type textless struct{}

func (textless) Error() string { panic("no text") }

// So is one whose reason panics when it is read.
func TestReasonPanics(t *testing.T) {
	server := play(t, func(d *dialogue) {
		d.next(Clusters)
		d.whole(Listeners, "1", "1")
		d.whole(Clusters, "1", "1", static("a", 1), static("b", 13))
		a := d.next(Clusters)
		d.expect(a.fault == "b: internal error while it was judged", "refused", a)
		d.stay()
	})
	o := observe(t, Config{Servers: []Server{server}, Check: func(k Kind, name string, body *anypb.Any) ([]string, error) {
		if content, _, _ := contentOf(body); content == 13 {
			return nil, textless{}
		}
		return check(k, name, body)
	}})
	o.await("clusters a=1")
}
