// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// moodies starts three servers that can be told to fail.
func moodies(t *testing.T, place *harness.Place) (servers []*harness.Moody, addresses []netip.AddrPort) {
	t.Helper()
	for _, identity := range harness.Identities(3) {
		m := place.Moody(t, identity)
		servers, addresses = append(servers, m), append(addresses, m.Address)
	}
	return servers, addresses
}

// flagsOf are the health flags of each endpoint in /clusters, which XLB and Envoy print alike.
func flagsOf(t *testing.T, b *harness.Balancer) map[string]string {
	t.Helper()
	flags := map[string]string{}
	for line := range strings.Lines(b.Get(t, "/clusters")) {
		parts := strings.Split(strings.TrimSpace(line), "::")
		if len(parts) == 4 && parts[2] == "health_flags" {
			flags[parts[1]] = parts[3]
		}
	}
	return flags
}

// awaitFlags waits until an endpoint has these health flags, and returns how long that took.
func awaitFlags(t *testing.T, b *harness.Balancer, endpoint netip.AddrPort, want string) time.Duration {
	t.Helper()
	began := time.Now()
	harness.Eventually(t, await.Patience, endpoint.String()+" is "+want, func() bool { return flagsOf(t, b)[endpoint.String()] == want })
	return time.Since(began)
}

const ejected = "/failed_outlier_check"

// outlierDetection ejects after five failures, soon, for a second.
func outlierDetection(more map[string]any) map[string]any {
	o := map[string]any{"interval": "0.2s", "base_ejection_time": "1s", "max_ejection_percent": 50}
	for k, v := range more {
		o[k] = v
	}
	return map[string]any{"outlier_detection": o}
}

// moody is a cluster of three servers that can be told to fail, and its service.
type moody struct {
	place     *harness.Place
	name      string
	servers   []*harness.Moody
	addresses []netip.AddrPort
	service   netip.AddrPort
}

// startMoody serves such a cluster for each of the sets of more fields, of which a server will have that mood.
func startMoody(t *testing.T, mode harness.Mode, moods []programs.Mood, sets ...map[string]any) (*harness.Balancer, []*moody) {
	t.Helper()
	place := harness.SameHost(t)
	var config harness.Config
	var all []*moody
	for i, fields := range sets {
		m := &moody{place: place, service: harness.Service()}
		m.servers, m.addresses = moodies(t, place)
		one := harness.OneCluster(m.service, m.addresses...)
		one.Listeners[0].Hosts[0].Routes[0].Timeout = -1
		if moods[i] == programs.MoodStall {
			one.Listeners[0].Hosts[0].Routes[0].Timeout = stallTime
		}
		one.Clusters[0].Fields = fields
		config.Add(one)
		m.name = config.Clusters[len(config.Clusters)-1].Name
		all = append(all, m)
	}
	return harness.Start(t, mode, config, place), all
}

// load has four clients make requests until the test ends.
func (m *moody) load(t *testing.T) *harness.Process {
	t.Helper()
	load := m.place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: m.service.String(), Connections: 4, Pause: time.Millisecond})
	awaitRequests(t, load, 100)
	return load
}

// ejections are those of the cluster by a rule, or of another kind.
func (m *moody) ejections(t *testing.T, b *harness.Balancer, kind string) float64 {
	t.Helper()
	return b.Metric(t, "envoy_cluster_outlier_detection_ejections_"+kind, fmt.Sprintf("envoy_cluster_name=%q", m.name))
}

// stallTime is what a request, or a check, has where a server stalls. It is long, because the other servers have no more: one that waits for a
// processor is not to look like one that stalls.
const stallTime = time.Second

func TestFailingEndpointIsEjectedAndReturns(t *testing.T) {
	suite.Long(t, suite.Slow)
	tests := []struct {
		mood programs.Mood
		rule string
	}{
		{"503", "consecutive_5xx"},
		{"500", "consecutive_5xx"},
		{programs.MoodReset, "consecutive_5xx"},
		{programs.MoodStall, "consecutive_5xx"},
	}
	var sets []map[string]any
	var moods []programs.Mood
	for _, test := range tests {
		sets, moods = append(sets, outlierDetection(nil)), append(moods, test.mood)
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		balancer, all := startMoody(t, mode, moods, sets...)
		t.Cleanup(func() { balancer.RequireFast(t, mode, 0.5) })
		for i, test := range tests {
			t.Run(string(test.mood), func(t *testing.T) {
				harness.Beside(t) // on a cluster of its own
				m := all[i]
				load := m.load(t)
				m.servers[0].Become(t, test.mood)
				gone := awaitFlags(t, balancer, m.addresses[0], ejected)
				failed := requireAway(t, load, func() (since float64, away bool) {
					away = flagsOf(t, balancer)[m.addresses[0].String()] == ejected
					return m.ejections(t, balancer, "enforced_total"), away
				})
				m.servers[0].Become(t, "200")
				back := awaitFlags(t, balancer, m.addresses[0], "healthy")
				awaitServed(t, load, m.servers[0].Identity)

				if got := m.ejections(t, balancer, "enforced_"+test.rule); got < 1 {
					t.Errorf("ejections by %s: %v, want 1 or more", test.rule, got)
				}
				if got := m.ejections(t, balancer, "active"); got != 0 {
					t.Errorf("%v are ejected after the return", got)
				}
				t.Logf("ejected after %v, back after %v, %d of %d requests failed", gone, back, failed, report(t, load).Total)
			})
		}
	})
}

// requireAway fails when requests go on to fail while an endpoint is out of service, those in flight aside. It returns how many had failed before.
// State tells whether the endpoint is out, and since which time it was taken out: an endpoint may return, and be taken out again, while one looks.
func requireAway(t *testing.T, load *harness.Process, state func() (since float64, away bool)) (failed int) {
	t.Helper()
	await.OneOfThree(t, "an endpoint that is out of service", func() (difference string) {
		harness.Eventually(t, 2*await.Patience, "the endpoint is out of service for a hundred requests", func() bool {
			since, away := state()
			if !away {
				return false
			}
			// Flags are shown a moment before they take effect.
			awaitRequests(t, load, 50)
			failed = report(t, load).Failed
			awaitRequests(t, load, 100)
			late := report(t, load).Failed - failed
			still, away := state()
			difference = ""
			// The load's four connections may have had a request on their way.
			if late > 4 {
				difference = fmt.Sprintf("%d of a hundred requests failed", late)
			}
			return away && still == since
		})
		return difference
	})
	return failed
}

// awaitServed waits until a running load is served by that server once more.
func awaitServed(t *testing.T, load *harness.Process, identity string) {
	t.Helper()
	before := report(t, load).Served[0][identity]
	harness.Eventually(t, await.Patience, identity+" serves again", func() bool { return report(t, load).Served[0][identity] > before })
}

func TestEveryRuleEjects(t *testing.T) {
	// Others' rules are off.
	base := map[string]any{"consecutive_5xx": 0, "interval": "0.5s", "enforcing_success_rate": 0, "success_rate_minimum_hosts": 3, "success_rate_request_volume": 5, "failure_percentage_minimum_hosts": 3, "failure_percentage_request_volume": 5}
	tests := []struct {
		rule string
		mood programs.Mood
		more map[string]any
	}{
		{"consecutive_gateway_failure", "502", map[string]any{"enforcing_consecutive_gateway_failure": 100}},
		{"success_rate", "500", map[string]any{"enforcing_success_rate": 100, "success_rate_stdev_factor": 1000}},
		{"failure_percentage", "404,500", map[string]any{"enforcing_failure_percentage": 100, "failure_percentage_threshold": 30}},
		{"consecutive_local_origin_failure", programs.MoodRefuse, map[string]any{"split_external_local_origin_errors": true, "enforcing_local_origin_success_rate": 0}},
	}
	var sets []map[string]any
	for _, test := range tests {
		more := maps.Clone(base)
		maps.Copy(more, test.more)
		sets = append(sets, outlierDetection(more))
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		balancer, all := startMoody(t, mode, make([]programs.Mood, len(tests)), sets...)
		for i, test := range tests {
			t.Run(test.rule, func(t *testing.T) {
				harness.Beside(t) // on a cluster of its own
				m := all[i]
				m.load(t)
				m.servers[0].Become(t, test.mood)
				harness.Eventually(t, await.Patience, "an ejection by "+test.rule, func() bool {
					return m.ejections(t, balancer, "enforced_"+test.rule) > 0
				})
				if got := m.ejections(t, balancer, "enforced_consecutive_5xx"); got > 0 {
					t.Errorf("%v ejections by a rule that is off", got)
				}
			})
		}
	})
}

func TestEjectionsKeepTheirPercentage(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		servers, addresses := moodies(t, place)
		config := harness.OneCluster(service, addresses...)
		config.Clusters[0].Fields = outlierDetection(map[string]any{"max_ejection_percent": 34, "base_ejection_time": "30s"})
		balancer := harness.Start(t, mode, config, place)
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 4})

		servers[0].Become(t, "503")
		servers[1].Become(t, "503")
		label := `envoy_cluster_name="origins"`
		harness.Eventually(t, await.Patience, "a second ejection is forbidden", func() bool {
			return balancer.Metric(t, "envoy_cluster_outlier_detection_ejections_overflow", label) > 0
		})
		if got := balancer.Metric(t, "envoy_cluster_outlier_detection_ejections_active", label); got != 1 {
			t.Errorf("ejected: %v of three, with max_ejection_percent 34", got)
		}
		awaitRequests(t, load, 10)
	})
}

func healthCheck(more map[string]any) map[string]any {
	h := map[string]any{
		"timeout": fmt.Sprintf("%gs", stallTime.Seconds()), "interval": "0.1s", "no_traffic_interval": "0.1s", "unhealthy_threshold": 2, "healthy_threshold": 2,
		"http_health_check": map[string]any{"path": "/healthz"},
	}
	for k, v := range more {
		h[k] = v
	}
	return map[string]any{"health_checks": []any{h}}
}

const unhealthy = "/failed_active_hc"

func TestUnhealthyEndpointGetsNoRequests(t *testing.T) {
	requireMoodsAreNoticed(t, healthCheck(nil), "503", programs.MoodReset, programs.MoodStall, programs.MoodRefuse)
}

// requireMoodsAreNoticed has a server of a cluster with this check fall into each mood, and recover.
func requireMoodsAreNoticed(t *testing.T, check map[string]any, moods ...programs.Mood) {
	t.Helper()
	sets := slices.Repeat([]map[string]any{check}, len(moods))
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		balancer, all := startMoody(t, mode, moods, sets...)
		t.Cleanup(func() { balancer.RequireFast(t, mode, 0.5) })
		for i, mood := range moods {
			t.Run(string(mood), func(t *testing.T) {
				harness.Beside(t) // on a cluster of its own
				m := all[i]
				load := m.load(t)
				m.servers[0].Become(t, mood)
				away := func() bool { return strings.HasPrefix(flagsOf(t, balancer)[m.addresses[0].String()], unhealthy) }
				harness.Eventually(t, await.Patience, "the endpoint is unhealthy", away)
				requireAway(t, load, func() (since float64, is bool) { return 0, away() }) // it recovers when it is told
				m.servers[0].Become(t, "200")
				awaitFlags(t, balancer, m.addresses[0], "healthy")
				awaitServed(t, load, m.servers[0].Identity)
			})
		}
	})
}

// Payloads are sent and expected as bytes, here of HTTP; what comes in between does not matter.
func TestTCPCheckJudgesByWhatComes(t *testing.T) {
	text := func(s string) map[string]any { return map[string]any{"text": hex.EncodeToString([]byte(s))} }
	check := healthCheck(map[string]any{"reuse_connection": false, "tcp_health_check": map[string]any{
		"send": text("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), "receive": []any{text("HTTP/1.1 2"), text("\r\n\r\n")},
	}})
	delete(check["health_checks"].([]any)[0].(map[string]any), "http_health_check")
	requireMoodsAreNoticed(t, check, "503", programs.MoodStall)
}

func TestUncheckedEndpointServesNothing(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		servers, addresses := moodies(t, place)
		servers[0].Become(t, "503")
		config := harness.OneCluster(service, addresses...)
		config.Clusters[0].Fields = healthCheck(nil)
		harness.Start(t, mode, config, place)

		r := runLoad(t, place, programs.LoadSpec{Address: service.String(), Connections: 4, Requests: 100})
		requireClean(t, r)
		if state := servers[0].Report(t); state.Requests != state.Checks {
			t.Errorf("the endpoint that never passed a check got %d requests", state.Requests-state.Checks)
		}
	})
}

func TestPassedCheckEndsAnEjection(t *testing.T) {
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		servers, addresses := moodies(t, place)
		config := harness.OneCluster(service, addresses...)
		config.Clusters[0].Fields = outlierDetection(map[string]any{"base_ejection_time": "300s"})
		for k, v := range healthCheck(map[string]any{"interval": "1s", "unhealthy_threshold": 100, "tcp_health_check": map[string]any{}}) {
			config.Clusters[0].Fields[k] = v
		}
		check := config.Clusters[0].Fields["health_checks"].([]any)[0].(map[string]any)
		delete(check, "http_health_check")
		balancer := harness.Start(t, mode, config, place)
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: service.String(), Connections: 4})

		label := `envoy_cluster_name="origins"`
		servers[0].Become(t, "503")
		harness.Eventually(t, await.Patience, "an ejection", func() bool {
			return balancer.Metric(t, "envoy_cluster_outlier_detection_ejections_enforced_total", label) > 0
		})
		servers[0].Become(t, "200")
		awaitFlags(t, balancer, addresses[0], "healthy")
		awaitServed(t, load, servers[0].Identity)
	})
}
