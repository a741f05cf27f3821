// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/tcptest"
)

// villain is a management server that means harm. It says on every stream what say gives, until that is nil.
type villain struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	say func(n int) *discoveryv3.DiscoveryResponse
}

func (v *villain) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				return
			}
		}
	}()
	for n := 0; ; n++ {
		response := v.say(n)
		if response == nil {
			<-stream.Context().Done()
			return nil
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

func serveVillain(t *testing.T, say func(n int) *discoveryv3.DiscoveryResponse) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, &villain{say: say})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return netip.MustParseAddrPort(l.Addr().String())
}

// once says something, and then nothing.
func once(bodies ...*anypb.Any) func(int) *discoveryv3.DiscoveryResponse {
	return func(n int) *discoveryv3.DiscoveryResponse {
		if n > 0 {
			return nil
		}
		return &discoveryv3.DiscoveryResponse{TypeUrl: clusterType, VersionInfo: "evil", Nonce: "1", Resources: bodies}
	}
}

// garbage answers every connection with bytes that are no HTTP/2.
func garbage(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	return tcptest.Listen(t, func(c net.Conn) { _, _ = io.WriteString(c, text) })
}

// Whatever a management server says, traffic keeps the configuration that was good last, memory is bounded, and the reason can be read. A server that means well
// afterwards is followed.
func TestHostileControlPlanesHarmNoTraffic(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	harness.OnlyXLB(t, "the bound is XLB's")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service, good := harness.SameHost(t), harness.Service(), serveControlPlane(t, false)
		_, servers := origins(t, place, "a", "b")
		own := good.address
		front := tcptest.NewSwitchboard(t, own)
		w := world{}
		w.put(assignmentType, "shop", assignmentOf("shop", servers[0]))
		w.put(clusterType, "shop", edsCluster(good, "shop", "shop"))
		w.put(listenerType, "web", rdsListener(good, "web", service, "table"))
		w.put(routesType, "table", tableOf("table", routeTo("/", "shop", nil)))
		good.deliver(t, w)
		good.address = front.Address
		x := harness.Start(t, mode, harness.Config{Fields: good.fields()}, place)
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 4, Pause: time.Millisecond})
		awaitRequests(t, load, 200)
		memory := x.Memory(t)
		for _, c := range []struct {
			name    string
			server  netip.AddrPort
			visible string // in the log
		}{
			{"no HTTP/2", garbage(t, "220 mail.test ESMTP\r\n"), "stream to the management server ended"},
			{"100 MB in a response", serveVillain(t, once(&anypb.Any{TypeUrl: clusterType, Value: make([]byte, 100<<20)})), "larger than 64 MiB"},
			{"bodies that end too soon", serveVillain(t, once(&anypb.Any{TypeUrl: clusterType, Value: []byte{0x0a, 0x7f, 'x'}})), "unexpected EOF"},
			{"bodies of another type", serveVillain(t, once(&anypb.Any{TypeUrl: listenerType})), "in a response of type"},
			{"endless pushes", serveVillain(t, func(n int) *discoveryv3.DiscoveryResponse {
				m := &discoveryv3.DiscoveryResponse{TypeUrl: clusterType, VersionInfo: fmt.Sprint(n), Nonce: fmt.Sprint(n)}
				for range 500 {
					m.Resources = append(m.Resources, &anypb.Any{TypeUrl: clusterType, Value: []byte{0x0a, 4, 'e', 'v', 'i', 'l'}})
				}
				return m
			}), "is named more than once"},
		} {
			front.Turn(c.server)
			harness.Eventually(t, patience, c.name+": the reason can be read", func() bool {
				return strings.Contains(x.Stderr()+x.Get(t, "/config_dump"), c.visible) || strings.Contains(x.Get(t, "/ready"), c.visible)
			})
			time.Sleep(500 * time.Millisecond)
			t.Logf("%s: %d MiB more than at first, %d requests", c.name, (x.Memory(t)-memory)>>20, report(t, load).Total)
			if grown := x.Memory(t) - memory; grown > floodMemory {
				t.Errorf("%s: memory grew by %d MiB", c.name, grown>>20)
			}
		}
		front.Turn(own)
		w.put(assignmentType, "shop", assignmentOf("shop", servers[1]))
		good.deliver(t, w)
		harness.Eventually(t, 60*time.Second, "a server that means well is followed", func() bool { return report(t, load).Served[0]["b"] > 0 })
		var final programs.LoadReport
		load.Finish(t, &final)
		requireClean(t, final)
		t.Logf("%d requests, none failed", final.Total)
	})
}
