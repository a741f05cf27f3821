// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

var (
	verdictsTotal = prometheus.NewDesc("xlb_heels_verdicts_total",
		"Decisions of the kernel programs, by verdict.", []string{"verdict"}, nil)
	offeredTotal = prometheus.NewDesc("xlb_heels_offered_total",
		"SYNs that the client sent with the option.", nil, nil)
	declinedTotal = prometheus.NewDesc("xlb_heels_declined_total",
		"SYNs with the option that the server left to the balancer's own path, by reason.", []string{"reason"}, nil)
	connections = prometheus.NewDesc("xlb_heels_connections",
		"Connections that go around the balancer now.", []string{"role", "vip", "server"}, nil)
	openedTotal = prometheus.NewDesc("xlb_heels_connections_total",
		"Connections that went around the balancer.", []string{"role", "vip", "server"}, nil)
	bytesTotal = prometheus.NewDesc("xlb_heels_bytes_total",
		"Bytes of payload that went around the balancer, by direction as the host sees it.", []string{"role", "vip", "server", "direction"}, nil)
	backingOff = prometheus.NewDesc("xlb_heels_backing_off",
		"1 while the client sends no option to a VIP because connections have failed.", []string{"vip"}, nil)
	guessedTotal = prometheus.NewDesc("xlb_heels_guessed_total",
		"SYNs that the server did not believe because of wrong tags before them.", []string{"vip"}, nil)
	draining = prometheus.NewDesc("xlb_heels_draining",
		"1 while a role takes no new connections.", []string{"role"}, nil)
)

// Describe implements prometheus.Collector.
func (k *Kernel) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{verdictsTotal, offeredTotal, declinedTotal, connections, openedTotal, bytesTotal, backingOff, guessedTotal, draining} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (k *Kernel) Collect(ch chan<- prometheus.Metric) {
	s, err := k.Status()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(verdictsTotal, err)
		return
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for verdict, n := range s.Verdicts {
		counter(verdictsTotal, n, verdict)
		if reason, ok := strings.CutPrefix(verdict, "decline_"); ok {
			counter(declinedTotal, n, reason)
		}
	}
	counter(offeredTotal, s.Verdicts["offered"])
	for _, b := range s.Backends {
		labels := []string{string(b.Role), b.VIP.String(), b.Server.String()}
		gauge(connections, float64(b.Live), labels...)
		counter(openedTotal, b.Opened, labels...)
		counter(bytesTotal, b.Sent, append(labels, "sent")...)
		counter(bytesTotal, b.Received, append(labels, "received")...)
	}
	for _, v := range s.VIPs {
		if v.Role == ClientRole {
			gauge(backingOff, oneIf(v.BackOff > 0), v.VIP.String())
		} else {
			counter(guessedTotal, v.Guessed, v.VIP.String())
		}
	}
	for _, r := range []Role{ClientRole, ServerRole} {
		drains := 0.0
		for _, d := range s.Draining {
			drains = max(drains, oneIf(d == r))
		}
		gauge(draining, drains, string(r))
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Handler serves /metrics, /ready, /heels/status and /heels/conns.
func (k *Kernel) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(k, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 8}))
	// The handler is there when programs are attached and maps are written.
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("LIVE\n")) })
	mux.HandleFunc("GET /heels/status", func(w http.ResponseWriter, _ *http.Request) { answer(w, k.Status) })
	mux.HandleFunc("GET /heels/conns", func(w http.ResponseWriter, _ *http.Request) { answer(w, k.Connections) })
	return mux
}

func answer[T any](w http.ResponseWriter, ask func() (T, error)) {
	v, err := ask()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}
