// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/tcptest"
)

const (
	hostileControlDuration = "XLB_HOSTILE_CONTROL"      // how long the control plane means harm, such as 60m; default 12 s
	hostileControlSeed     = "XLB_HOSTILE_CONTROL_SEED" // of what it does; default 1
)

// bodyOf is a resource as it is sent.
func bodyOf(t *testing.T, kind string, resource map[string]any) *anypb.Any {
	t.Helper()
	typed := maps.Clone(resource)
	typed["@type"] = kind
	text, err := json.Marshal(typed)
	body := &anypb.Any{}
	if err == nil {
		err = protojson.Unmarshal(text, body)
	}
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// misdeeds are what a control plane says that means harm, by name. What they say of the endpoint evil must never be in force.
func misdeeds(t *testing.T, evil netip.AddrPort) map[string]func(n int) *discoveryv3.DiscoveryResponse {
	t.Helper()
	cluster := func(change map[string]any) *anypb.Any {
		c := map[string]any{"name": "shop", "type": "STATIC", "load_assignment": assignmentOf("shop", evil)}
		maps.Copy(c, change)
		return bodyOf(t, clusterType, c)
	}
	say := func(kind, nonce string, bodies ...*anypb.Any) func(int) *discoveryv3.DiscoveryResponse {
		return func(n int) *discoveryv3.DiscoveryResponse {
			if n > 200 {
				return nil
			}
			return &discoveryv3.DiscoveryResponse{TypeUrl: kind, VersionInfo: fmt.Sprint("evil ", n), Nonce: nonce + strconv.Itoa(n), Resources: bodies}
		}
	}
	whole := cluster(nil).GetValue()
	return map[string]func(int) *discoveryv3.DiscoveryResponse{
		"silence":             func(int) *discoveryv3.DiscoveryResponse { return nil },
		"malformed fields":    say(clusterType, "n", cluster(map[string]any{"connect_timeout": "-5s"})),
		"one name twice":      say(clusterType, "n", cluster(nil), cluster(nil)),
		"truncated":           say(clusterType, "n", &anypb.Any{TypeUrl: clusterType, Value: whole[:len(whole)-3]}),
		"another type":        say(clusterType, "n", &anypb.Any{TypeUrl: listenerType, Value: whole}),
		"an unknown type":     say("type.googleapis.com/none", "n", cluster(nil)),
		"no nonce":            say(clusterType, "", cluster(map[string]any{"connect_timeout": "-5s"})),
		"nobody asked":        say(secretType, "n", &anypb.Any{TypeUrl: secretType, Value: whole}),
		"giant":               once(&anypb.Any{TypeUrl: clusterType, Value: make([]byte, 65<<20)}),
		"an assignment twice": say(assignmentType, "n", bodyOf(t, assignmentType, assignmentOf("shop", evil)), bodyOf(t, assignmentType, assignmentOf("shop", evil))),
		"routes to themselves": say(routesType, "n", bodyOf(t, routesType, map[string]any{"name": "table", "virtual_hosts": []any{
			map[string]any{"name": "a", "domains": []any{"*"}}, map[string]any{"name": "a", "domains": []any{"*"}},
		}})),
	}
}

// flat is what must not grow.
type flat struct {
	memory                  int64
	descriptors, goroutines int
}

func flatOf(t *testing.T, b *harness.Balancer) flat {
	t.Helper()
	return flat{b.Memory(t), b.Descriptors(t), int(b.Metric(t, "go_goroutines"))}
}

// A control plane that does at random what it must not, for as long as one likes, harms no request: each is answered by an endpoint of a configuration that
// was accepted. Whenever it means well it is followed, and at the end nothing has grown.
func TestControlPlaneAtRandomHarmsNoTraffic(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.OnlyXLB(t, "the bounds are XLB's")
	duration := liveSetting(t, hostileControlDuration, 12*time.Second, time.ParseDuration)
	seed := liveSetting(t, hostileControlSeed, 1, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	random := rand.New(rand.NewPCG(seed, 0))
	place, service, good := harness.SameHost(t), harness.Service(), serveControlPlane(t, false)
	_, servers := origins(t, place, "a", "b", "evil")
	own := good.address
	front := tcptest.NewSwitchboard(t, own)
	w := world{}
	w.put(assignmentType, "shop", assignmentOf("shop", servers[0]))
	w.put(clusterType, "shop", edsCluster(good, "shop", "shop"))
	w.put(listenerType, "web", rdsListener(good, "web", service, "table"))
	w.put(routesType, "table", tableOf("table", routeTo("/", "shop", nil)))
	good.deliver(t, w)
	good.address = front.Address
	x := harness.Start(t, harness.Modes(t)[0], harness.Config{Fields: good.fields()}, place)
	load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 4, Pause: time.Millisecond})
	awaitRequests(t, load, 100)

	planes, names := []netip.AddrPort{}, []string{}
	for name, say := range misdeeds(t, servers[2]) {
		planes, names = append(planes, serveVillain(t, say)), append(names, name)
	}
	planes, names = append(planes, garbage(t, "HTTP/1.1 400 Bad Request\r\n\r\n"), tcptest.Refusing(t)), append(names, "no HTTP/2", "refused")
	// As good as each harm once, before anything is compared.
	deeds := func(n int, until time.Time) (done int) {
		for ; done < n || time.Now().Before(until); done++ {
			i := random.IntN(len(planes))
			if done < len(planes) {
				i = done
			}
			front.Turn(planes[i])
			time.Sleep(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
			if t.Failed() {
				t.Fatalf("after %q, seed %d", names[i], seed)
			}
			if random.IntN(3) > 0 {
				continue
			}
			front.Turn(own)
			w.put(assignmentType, "shop", assignmentOf("shop", servers[random.IntN(2)]))
			good.deliver(t, w)
		}
		return done
	}
	settled := func(at int) flat {
		front.Turn(own)
		w.put(assignmentType, "shop", assignmentOf("shop", servers[at]))
		good.deliver(t, w)
		before := report(t, load).Served[0]
		identity := []string{"a", "b"}[at]
		harness.Eventually(t, 60*time.Second, "a control plane that means well is followed", func() bool {
			return report(t, load).Served[0][identity] > before[identity]+20
		})
		return flatOf(t, x)
	}
	deeds(len(planes), time.Time{})
	first := settled(1)
	done := deeds(0, time.Now().Add(duration))
	last := settled(0)
	var final programs.LoadReport
	load.Finish(t, &final)
	requireClean(t, final)
	if final.Served[0]["evil"] > 0 {
		t.Errorf("seed %d: %d requests came to an endpoint of a configuration that was refused", seed, final.Served[0]["evil"])
	}
	if last.memory > first.memory+floodMemory || last.descriptors > first.descriptors+4 || last.goroutines > first.goroutines+8 {
		t.Errorf("seed %d: at first %+v, after %d harms %+v", seed, first, done, last)
	}
	t.Logf("seed %d: %d harms, %d requests, none failed; %+v, then %+v", seed, done, final.Total, first, last)
}
