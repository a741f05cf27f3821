// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"

	"github.com/xlb-project/xlb/bench/load"
)

// ledger follows changes from when they are made until the client has taken them.
type ledger struct {
	mu sync.Mutex
	// made holds, by service, changes that have not been sent yet; sent, by the response's nonce, those that have not been answered.
	made   map[string][]time.Time
	sent   map[string][]time.Time
	report Report
}

func newLedger() *ledger {
	return &ledger{made: map[string][]time.Time{}, sent: map[string][]time.Time{}, report: Report{Acknowledged: load.Histogram{}}}
}

func (l *ledger) changed(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Changes++
	l.made[name] = append(l.made[name], time.Now())
}

func (l *ledger) flipped(other bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Flips = append(l.report.Flips, Flip{At: time.Now(), Other: other})
}

func (l *ledger) callbacks() server.Callbacks {
	return server.CallbackFuncs{
		StreamDeltaResponseFunc: func(_ int64, _ *discoveryv3.DeltaDiscoveryRequest, r *discoveryv3.DeltaDiscoveryResponse) {
			l.respond(r)
		},
		StreamDeltaRequestFunc: func(_ int64, r *discoveryv3.DeltaDiscoveryRequest) error {
			l.answered(r)
			return nil
		},
	}
}

func (l *ledger) respond(r *discoveryv3.DeltaDiscoveryResponse) {
	if r.GetTypeUrl() != resource.EndpointType {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range r.GetResources() {
		if times := l.made[one.GetName()]; len(times) > 0 {
			l.sent[r.GetNonce()] = append(l.sent[r.GetNonce()], times...)
			delete(l.made, one.GetName())
		}
	}
}

func (l *ledger) answered(r *discoveryv3.DeltaDiscoveryRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.GetErrorDetail() != nil {
		l.report.Refused = r.GetErrorDetail().GetMessage()
		return
	}
	now := time.Now()
	for _, at := range l.sent[r.GetResponseNonce()] {
		l.report.Acknowledged[now.Sub(at).Microseconds()]++
	}
	delete(l.sent, r.GetResponseNonce())
}

func (l *ledger) take() Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.report
	l.report = Report{Acknowledged: load.Histogram{}}
	return r
}

// serveReport hands out the report since the last one.
func (p *plane) serveReport(w http.ResponseWriter, _ *http.Request) {
	// A client that has gone needs no answer.
	_ = json.NewEncoder(w).Encode(p.log.take())
}

// Fetch reads a report.
func Fetch(ctx context.Context, get func(ctx context.Context, url string) (string, error), o Options) (r Report, err error) {
	text, err := get(ctx, "http://"+o.Report.String()+"/")
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(text), &r)
}
