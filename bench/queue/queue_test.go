// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/tcptest"
)

func TestAccountsWeightByTime(t *testing.T) {
	var now time.Duration
	l := newLedger(func() time.Duration { return now })
	l.begin()
	now += 3 * time.Second
	l.begin()
	l.begin()
	now += time.Second
	l.end()
	// 1 for three seconds, 3 for one.
	if diff := cmp.Diff(l.take(), Account{Requests: 1, Mean: 1.5, Deviation: 0.8660254037844386, Max: 3}); diff != "" {
		t.Errorf("account (-got +want):\n%s", diff)
	}
	now += time.Second
	if diff := cmp.Diff(l.take(), Account{Mean: 2, Max: 2}); diff != "" {
		t.Errorf("the next account (-got +want):\n%s", diff)
	}
}

func serve(t *testing.T, o StationOptions) {
	t.Helper()
	stopped := make(chan error)
	go func() { stopped <- Serve(t.Context(), o) }()
	t.Cleanup(func() {
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); ; {
		conn, err := net.Dial("tcp", o.Listen.String())
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func accountOf(t *testing.T, station netip.AddrPort) (a Account) {
	t.Helper()
	response, err := http.Get("http://" + station.String() + AccountPath)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestClientsAskAtTheirRateAndStationsTakeTheirTime(t *testing.T) {
	const service = 5 * time.Millisecond
	o := StationOptions{Listen: tcptest.FreeAddress(t), Service: service, Workers: 8}
	serve(t, o)
	report, err := Run(t.Context(), Options{Targets: []netip.AddrPort{o.Listen}, Rate: 200, Connections: 16, Duration: 2 * time.Second, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	// Ten standard deviations of 400.
	if report.Errors > 0 || report.Requests < 200 || report.Requests > 600 {
		t.Errorf("%d requests and %d errors, want some 400 and none", report.Requests, report.Errors)
	}
	if least := report.Latency.Quantile(0); least < service.Microseconds() {
		t.Errorf("an answer after %d us, want none before %s", least, service)
	}
	account := accountOf(t, o.Listen)
	if account.Requests != report.Requests || account.Mean <= 0 {
		t.Errorf("the account of the station is %+v, clients have %d answers", account, report.Requests)
	}
}

func TestRequestsBeyondTheWorkersWait(t *testing.T) {
	const service, connections = 20 * time.Millisecond, 8
	o := StationOptions{Listen: tcptest.FreeAddress(t), Service: service, Workers: 1}
	serve(t, o)
	report, err := Run(t.Context(), Options{Targets: []netip.AddrPort{o.Listen}, Rate: 300, Connections: connections, Duration: 300 * time.Millisecond, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if most := report.Latency.Quantile(1); most < connections*service.Microseconds() {
		t.Errorf("the longest latency is %d us, want that of a queue", most)
	}
	if got := accountOf(t, o.Listen).Max; got != connections {
		t.Errorf("at most %d requests were under way, want %d", got, connections)
	}
}

func TestClosedLoopAsksAgainWhenItIsAnswered(t *testing.T) {
	const service, connections = 5 * time.Millisecond, 3
	o := StationOptions{Listen: tcptest.FreeAddress(t), Service: service, Workers: connections}
	serve(t, o)
	report, err := Run(t.Context(), Options{Targets: []netip.AddrPort{o.Listen}, Connections: connections, Duration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(connections * time.Second / service); report.Errors > 0 || report.Requests < most/4 || report.Requests > most+connections {
		t.Errorf("%d requests and %d errors, want at most %d and none", report.Requests, report.Errors, most)
	}
}

func TestOptionsWithoutSenseAreRefused(t *testing.T) {
	if _, err := Run(t.Context(), Options{}); err == nil {
		t.Error("clients without a target run")
	}
	if err := Serve(t.Context(), StationOptions{}); err == nil {
		t.Error("a station without workers serves")
	}
}
