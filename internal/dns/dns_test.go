// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
)

// zone is a fake resolver: hosts and their addresses, separated by blanks. A
// host that is missing fails, "hang" as an address does not answer.
type zone struct {
	mu    sync.Mutex // guards the rest
	hosts map[string]string
	ttl   time.Duration
	// silent is a network for which there is no answer.
	silent string
	asked  int
}

func (z *zone) set(host, addrs string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.hosts[host] = addrs
}

func (z *zone) live(ttl time.Duration) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.ttl = ttl
}

// times is how often it was asked.
func (z *zone) times() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked
}

func (z *zone) remove(host string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.hosts, host)
}

func (z *zone) Lookup(ctx context.Context, network, host string) (Answer, error) {
	z.mu.Lock()
	if network == "ip4" { // every family that is not V6_ONLY asks for these
		z.asked++
	}
	answer := Answer{TTL: z.ttl}
	text, ok := z.hosts[host]
	if network == z.silent {
		text = "hang"
	}
	z.mu.Unlock()
	if !ok {
		return Answer{}, errors.New("no such host")
	}
	if text == "hang" {
		<-ctx.Done()
		return Answer{}, ctx.Err()
	}
	for _, f := range strings.Fields(text) {
		if a := netip.MustParseAddr(f); a.Is4() == (network == "ip4") {
			answer.Addrs = append(answer.Addrs, a)
		}
	}
	return answer, nil
}

// watched is a Resolver in a synctest bubble, and what it reports.
type watched struct {
	Resolver
	mu      sync.Mutex // guards reports
	reports [][]model.Endpoint
}

// follow has the resolver look after a cluster until stop.
func (w *watched) follow(t *testing.T, c *model.Cluster) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, []*model.Cluster{c, {Name: "static", Targets: []model.Target{{Host: "never.asked"}}}}, func(cluster string, endpoints []model.Endpoint) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if cluster != c.Name {
				t.Errorf("report for %s", cluster)
			}
			w.reports = append(w.reports, endpoints)
		})
	}()
	return func() {
		cancel()
		<-done
	}
}

// pass lets time pass and returns what was reported in it.
func (w *watched) pass(d time.Duration) [][]model.Endpoint {
	<-time.After(d) // the bubble's clock
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.reports
	w.reports = nil
	return out
}

// run starts a Resolver for one cluster inside a synctest bubble. The function
// it returns lets time pass and returns what was reported in it.
func run(t *testing.T, z *zone, c *model.Cluster, log *slog.Logger) func(time.Duration) [][]model.Endpoint {
	t.Helper()
	w := &watched{Resolver: Resolver{Lookup: z, Log: log}}
	t.Cleanup(w.follow(t, c))
	return w.pass
}

func cluster(targets ...model.Target) *model.Cluster {
	return &model.Cluster{Name: "c", Discovery: model.StrictDNS, DNSRefresh: 5 * time.Second, Targets: targets}
}

func endpoints(addrs ...string) []model.Endpoint {
	out := []model.Endpoint{}
	for _, a := range addrs {
		out = append(out, model.Endpoint{Address: netip.MustParseAddrPort(a), Weight: 1})
	}
	return out
}

func expect(t *testing.T, when string, got [][]model.Endpoint, want ...[]model.Endpoint) {
	t.Helper()
	equal := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
	if diff := cmp.Diff(want, got, equal); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func TestResolverReportsTheFirstAnswerAndChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{"a": "10.0.0.2 10.0.0.1"}}
		pass := run(t, z, cluster(model.Target{Host: "a", Port: 80, Weight: 1}), nil)

		expect(t, "first", pass(0), endpoints("10.0.0.1:80", "10.0.0.2:80"))
		expect(t, "before the refresh", pass(4*time.Second))
		if z.times() != 1 {
			t.Errorf("asked %d times before the refresh", z.times())
		}
		z.set("a", "10.0.0.1 10.0.0.2 10.0.0.1")
		expect(t, "other order", pass(2*time.Second))
		if z.times() != 2 {
			t.Errorf("asked %d times", z.times())
		}
		z.set("a", "10.0.0.3")
		expect(t, "another address", pass(5*time.Second), endpoints("10.0.0.3:80"))
		z.set("a", "")
		expect(t, "no address left", pass(5*time.Second), endpoints())
	})
}

func TestResolverKeepsTheLastAnswerOfANameThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"}}
		var log bytes.Buffer
		pass := run(t, z, cluster(
			model.Target{Host: "a", Port: 80, Weight: 1}, model.Target{Host: "b", Port: 80, Weight: 1},
		), slog.New(slog.NewTextHandler(&log, nil)))

		expect(t, "first", pass(0), endpoints("10.0.0.1:80", "10.0.0.2:80"))
		z.remove("a")
		z.set("b", "10.0.0.3")
		expect(t, "a fails", pass(6*time.Second), endpoints("10.0.0.1:80", "10.0.0.3:80"))
		expect(t, "a fails for long", pass(time.Minute))
		if n := strings.Count(log.String(), "WARN"); n != 1 {
			t.Errorf("%d warnings for one name that began to fail:\n%s", n, log.String())
		}
		z.set("a", "10.0.0.4")
		expect(t, "a is back", pass(6*time.Second), endpoints("10.0.0.3:80", "10.0.0.4:80"))
		if !strings.Contains(log.String(), "name found again") {
			t.Errorf("the recovery is not logged:\n%s", log.String())
		}
	})
}

func TestResolverReportsAFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{}}
		pass := run(t, z, cluster(model.Target{Host: "a", Port: 80, Weight: 1}), nil)

		expect(t, "first", pass(0), endpoints())
		z.set("a", "10.0.0.1")
		expect(t, "found", pass(5*time.Second), endpoints("10.0.0.1:80"))
	})
}

func TestResolverKeepsEarlierEndpointsUntilAllNamesAreFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{"a": "10.0.0.1"}}
		c := cluster(model.Target{Host: "a", Port: 80, Weight: 1}, model.Target{Host: "b", Port: 80, Weight: 1})
		c.Endpoints = endpoints("10.0.0.1:80", "10.0.0.9:80")
		pass := run(t, z, c, nil)

		expect(t, "b fails", pass(0), endpoints("10.0.0.1:80", "10.0.0.9:80"))
		z.set("b", "10.0.0.2")
		expect(t, "b found", pass(5*time.Second), endpoints("10.0.0.1:80", "10.0.0.2:80"))
		z.remove("b")
		expect(t, "b fails again", pass(5*time.Second))
	})
}

func TestResolverTakesTheAddressesOfTheFamily(t *testing.T) {
	tests := map[model.Family][]model.Endpoint{
		model.FamilyAuto:        endpoints("10.0.0.2:2", "[fd00::1]:1"),
		model.FamilyV4:          endpoints("10.0.0.1:1", "10.0.0.2:2"),
		model.FamilyV6:          endpoints("[fd00::1]:1"),
		model.FamilyV4Preferred: endpoints("10.0.0.1:1", "10.0.0.2:2"),
		model.FamilyAll:         endpoints("10.0.0.1:1", "10.0.0.2:2", "[fd00::1]:1"),
	}
	for family, want := range tests {
		t.Run(family.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z := &zone{hosts: map[string]string{"both": "10.0.0.1 fd00::1", "four": "10.0.0.2"}}
				c := cluster(model.Target{Host: "both", Port: 1, Weight: 1}, model.Target{Host: "four", Port: 2, Weight: 1})
				c.DNS.Family = family
				expect(t, "first", run(t, z, c, nil)(0), want)
			})
		})
	}
}

func TestResolverTakesTheFirstAddressOfALogicalHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{"a": "10.0.0.2 10.0.0.1"}}
		c := cluster(model.Target{Host: "a", Port: 80, Weight: 1})
		c.Discovery = model.LogicalDNS
		pass := run(t, z, c, nil)
		expect(t, "first", pass(0), endpoints("10.0.0.2:80"))
		z.set("a", "10.0.0.1 10.0.0.2")
		expect(t, "other order", pass(5*time.Second), endpoints("10.0.0.1:80"))
		z.set("a", "")
		expect(t, "no address left", pass(5*time.Second))
	})
}

func TestResolverWaitsForTheTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{"a": "10.0.0.1"}, ttl: 30 * time.Second}
		c := cluster(model.Target{Host: "a", Port: 80, Weight: 1})
		c.DNS.RespectTTL, c.DNS.MinRefresh = true, 2*time.Second
		pass := run(t, z, c, nil)
		expect(t, "first", pass(29*time.Second), endpoints("10.0.0.1:80"))
		z.live(time.Second)
		pass(2 * time.Second)
		if z.times() != 2 {
			t.Errorf("asked %d times in 31 s, for a name that lives 30 s", z.times())
		}
		z.live(0)
		pass(time.Second) // the shortest wait is 2 s
		if z.times() != 3 {
			t.Errorf("asked %d times in 32 s", z.times())
		}
		pass(6 * time.Second)
		if z.times() != 4 {
			t.Errorf("asked %d times in 38 s: without a time to live it is every 5 s", z.times())
		}
	})
}

// Nobody who answers once is believed for years.
func TestTimesToLiveAreBounded(t *testing.T) {
	const refresh = 5 * time.Second
	for _, tt := range []struct{ ttl, shortest, want time.Duration }{
		{30 * time.Second, 0, 30 * time.Second}, {24 * time.Hour, 0, 24 * time.Hour}, {25 * time.Hour, 0, 24 * time.Hour},
		{time.Hour, 48 * time.Hour, 48 * time.Hour}, {(1<<31 - 1) * time.Second, 0, 24 * time.Hour},
		{1 << 31 * time.Second, 0, refresh}, {(1<<32 - 1) * time.Second, 0, refresh}, {0, 0, refresh},
	} {
		c := cluster(model.Target{Host: "a", Port: 80, Weight: 1})
		c.DNSRefresh, c.DNS.RespectTTL, c.DNS.MinRefresh = refresh, true, tt.shortest
		if got := newHost("a").wait(c, Answer{TTL: tt.ttl}, nil); got != tt.want {
			t.Errorf("an answer that lives %v is believed for %v, want %v", tt.ttl, got, tt.want)
		}
	}
}

func TestResolverAsksSoonerAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{}}
		c := cluster(model.Target{Host: "a", Port: 80, Weight: 1})
		c.DNSRefresh, c.DNS.FailureBase, c.DNS.FailureMax = time.Hour, 100*time.Millisecond, time.Second
		pass := run(t, z, c, nil)
		pass(20 * time.Second)
		if z.times() < 20 || z.times() > 200 {
			t.Errorf("asked %d times in 20 s, with waits of up to 1 s", z.times())
		}
		z.set("a", "10.0.0.1")
		expect(t, "found", pass(time.Second), endpoints("10.0.0.1:80"))
		asked := z.times()
		pass(59 * time.Minute)
		if z.times() != asked {
			t.Errorf("asked again before its time")
		}
	})
}

func TestResolverAddsTheWeightsOfTargetsWithOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{"a": "10.0.0.1 10.0.0.2", "b": "10.0.0.1"}}
		pass := run(t, z, cluster(
			model.Target{Host: "a", Port: 80, Weight: 2},
			model.Target{Host: "b", Port: 80, Weight: 3},
			model.Target{Host: "b", Port: 81, Weight: 1},
			model.Target{Host: "10.0.0.2", Port: 80, Weight: 4294967295},
		), nil)
		want := endpoints("10.0.0.1:80", "10.0.0.1:81", "10.0.0.2:80")
		want[0].Weight, want[2].Weight = 5, 4294967295
		expect(t, "first", pass(0), want)
		if z.times() != 2 {
			t.Errorf("asked %d times for two names", z.times())
		}
	})
}

// A name that does not answer keeps nothing from its neighbours, at first nor later.
func TestANameThatDoesNotAnswerHoldsNoOtherUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{"a": "10.0.0.1", "b": "hang"}}
		pass := run(t, z, cluster(
			model.Target{Host: "a", Port: 80, Weight: 1}, model.Target{Host: "b", Port: 80, Weight: 1},
		), nil)
		expect(t, "before others have had their chance", pass(gathering-time.Millisecond))
		expect(t, "then", pass(time.Millisecond), endpoints("10.0.0.1:80"))
		z.set("a", "10.0.0.2")
		expect(t, "at the next refresh", pass(5*time.Second), endpoints("10.0.0.2:80"))
		expect(t, "when the look-up has failed", pass(limits.DNS.Whole))
		z.set("b", "10.0.0.3")
		expect(t, "when it answers", pass(limits.DNS.Whole+5*time.Second), endpoints("10.0.0.2:80", "10.0.0.3:80"))
	})
}

func TestNamesThatAnswerAtOneTimeAreOneChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{"hangs": "hang"}}
		c := cluster(model.Target{Host: "hangs", Port: 80, Weight: 1})
		var want []string
		for i := range 50 {
			name, addr := fmt.Sprint("name", i), fmt.Sprint("10.0.0.", i+1)
			z.set(name, addr)
			c.Targets = append(c.Targets, model.Target{Host: name, Port: 80, Weight: 1})
			want = append(want, addr+":80")
		}
		expect(t, "first", run(t, z, c, nil)(time.Second), endpoints(want...))
	})
}

func TestAClusterWithoutAnyAnswerIsReportedWhenItsLookUpsHaveFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{"a": "hang"}}
		pass := run(t, z, cluster(model.Target{Host: "a", Port: 80, Weight: 1}), nil)
		expect(t, "within the time limit of a look-up", pass(limits.DNS.Whole-time.Millisecond))
		expect(t, "after it", pass(time.Millisecond), endpoints())
	})
}

// A configuration changes while one name does not answer: its neighbours are as they were, follow their answers, and are not looked up anew.
func TestWhatIsKnownOutlivesAChangeOfConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{"a": "10.0.0.1", "b": "10.0.0.2"}}
		w := &watched{Resolver: Resolver{Lookup: z}}
		c := cluster(model.Target{Host: "a", Port: 80, Weight: 1}, model.Target{Host: "b", Port: 80, Weight: 1})
		stop := w.follow(t, c)
		expect(t, "first", w.pass(time.Second), endpoints("10.0.0.1:80", "10.0.0.2:80"))
		stop()

		z.set("b", "hang")
		z.set("new", "hang")
		changed := *c
		changed.Endpoints = endpoints("10.0.0.1:80", "10.0.0.2:80")
		changed.Targets = append(changed.Targets, model.Target{Host: "new", Port: 80, Weight: 1})
		asked := z.times()
		stop = w.follow(t, &changed)
		expect(t, "a name more, which does not answer", w.pass(time.Second), endpoints("10.0.0.1:80", "10.0.0.2:80"))
		if n := z.times() - asked; n != 1 {
			t.Errorf("%d questions, want one for the new name", n)
		}
		z.set("a", "10.0.0.9")
		expect(t, "a name moves", w.pass(4*time.Second), endpoints("10.0.0.2:80", "10.0.0.9:80"))
		stop()

		changed.Endpoints = endpoints("10.0.0.2:80", "10.0.0.9:80")
		changed.Targets = changed.Targets[:2]
		stop = w.follow(t, &changed)
		defer stop()
		expect(t, "only names that are known", w.pass(gathering), endpoints("10.0.0.2:80", "10.0.0.9:80"))
	})
}

// What a configuration changes of a cluster is in force although a name of it fails: another port of one that is known, and the end of another.
func TestChangesOfAClusterDoNotWaitForANameThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{"a": "10.0.0.1", "gone": "10.0.0.3"}}
		w := &watched{Resolver: Resolver{Lookup: z}}
		c := cluster(
			model.Target{Host: "a", Port: 80, Weight: 1}, model.Target{Host: "fails", Port: 80, Weight: 1}, model.Target{Host: "gone", Port: 80, Weight: 1},
		)
		c.DNSRefresh = time.Hour
		stop := w.follow(t, c)
		expect(t, "first", w.pass(time.Second), endpoints("10.0.0.1:80", "10.0.0.3:80"))
		stop()
		changed := *c
		changed.Endpoints = endpoints("10.0.0.1:80", "10.0.0.3:80")
		changed.Targets = []model.Target{{Host: "a", Port: 8080, Weight: 1}, c.Targets[1]}
		defer w.follow(t, &changed)()
		expect(t, "at once", w.pass(time.Second), endpoints("10.0.0.1:8080"))
	})
}

// Who asks other servers, or for other addresses, wants to know at once; until then the addresses stand.
func TestNamesThatAreAskedForInAnotherWayAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{hosts: map[string]string{"a": "10.0.0.1 fd00::1"}}
		w := &watched{Resolver: Resolver{Lookup: z}}
		c := cluster(model.Target{Host: "a", Port: 80, Weight: 1})
		c.DNSRefresh, c.DNS.Family = time.Hour, model.FamilyV4
		stop := w.follow(t, c)
		expect(t, "first", w.pass(time.Second), endpoints("10.0.0.1:80"))
		stop()
		changed := *c
		changed.DNS.Family, changed.Endpoints = model.FamilyV6, endpoints("10.0.0.1:80")
		defer w.follow(t, &changed)()
		expect(t, "the other family", w.pass(time.Second), endpoints("[fd00::1]:80"))
	})
}

// A server that does not answer for one kind of addresses keeps nobody from those that are preferred.
func TestThePreferredAddressesDoNotWaitForOthers(t *testing.T) {
	for _, tt := range []struct {
		family model.Family
		silent string
		want   []model.Endpoint
	}{
		{model.FamilyV4Preferred, "ip6", endpoints("10.0.0.1:80")},
		{model.FamilyAuto, "ip4", endpoints("[fd00::1]:80")},
	} {
		t.Run(tt.family.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z := &zone{hosts: map[string]string{"a": "10.0.0.1 fd00::1"}, silent: tt.silent}
				c := cluster(model.Target{Host: "a", Port: 80, Weight: 1})
				c.DNS.Family = tt.family
				expect(t, "at once", run(t, z, c, nil)(0), tt.want)
			})
		})
	}
}

func TestRunEndsWithItsContextWhileLookingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := &Resolver{Lookup: &zone{hosts: map[string]string{"a": "hang"}}}
		start := time.Now()
		r.Run(ctx, []*model.Cluster{cluster(model.Target{Host: "a", Port: 80, Weight: 1})}, func(string, []model.Endpoint) {
			t.Error("reported an answer that never came")
		})
		if took := time.Since(start); took != time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

func TestMergeReplacesEndpointsInACopy(t *testing.T) {
	static := &model.Cluster{Name: "static", Endpoints: endpoints("10.0.0.1:1")}
	named := cluster(model.Target{Host: "a"})
	other := &model.Cluster{Name: "other", Discovery: model.StrictDNS, Endpoints: endpoints("10.0.0.7:7")}
	cfg := &model.Config{
		Listeners: []*model.Listener{{Name: "l"}},
		Clusters:  []*model.Cluster{static, named, other},
	}
	answer := endpoints("10.0.0.2:2")
	got := Merge(cfg, map[string][]model.Endpoint{"static": answer, "c": answer, "unknown": answer})
	answer[0].Weight = 99

	equal := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
	want := *named
	want.Endpoints = endpoints("10.0.0.2:2")
	if diff := cmp.Diff([]*model.Cluster{static, &want, other}, got.Clusters, equal); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	if named.Endpoints != nil || cfg.Clusters[1] != named {
		t.Error("the configuration itself was changed")
	}
	if len(got.Listeners) != 1 || got.Listeners[0] != cfg.Listeners[0] {
		t.Error("listeners are not shared")
	}
}
