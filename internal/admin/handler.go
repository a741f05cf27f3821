// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/metrics"
)

// Bounds of what one request may ask for.
const (
	maxFilter          = 1024
	maxConnectionsRows = 10000
)

// api answers requests from a source.
type api struct {
	source  Source
	metrics http.HandlerFunc
	// large makes all that are large, other than those of metrics: these are never refused for what others ask.
	large *press
	// workloads makes the answers of what releases and joins workloads.
	workloads *press
}

// page is one path of the API.
type page struct {
	path, help string
	serve      http.HandlerFunc
}

// NewHandler returns the admin API. The metrics handler answers in Prometheus's format.
func NewHandler(source Source, metricsHandler http.Handler) http.Handler {
	a := &api{source: source, metrics: newPress(metrics.FormOf).of(metricsHandler.ServeHTTP), large: newPress(target), workloads: newPress(target)}
	mux := http.NewServeMux()
	pages := a.pages()
	for _, p := range pages {
		mux.HandleFunc("GET "+p.path, p.serve)
	}
	for _, p := range a.changes() {
		mux.HandleFunc("POST "+p.path, p.serve)
		pages = append(pages, p)
	}
	mux.HandleFunc("GET /{$}", asked(func(w http.ResponseWriter, _ *http.Request) { writeIndex(w, pages) }))
	return mux
}

func (a *api) pages() []page {
	return []page{
		{"/ready", "200 LIVE when requests are served, what is off the fast path, what was refused of the configuration, and what is wrong with the delegate; else 503 and the reason", asked(a.ready)},
		// Endpoints are always in it.
		{"/config_dump", "the configuration in force (JSON; ?view=NAME; ?include_eds is understood)", asked(a.large.of(a.ofView(a.configDump)), parameter{name: "include_eds"}, parameter{name: viewParameter})},
		{"/clusters", "endpoints and their statistics (?format=text|json, ?view=NAME)", asked(a.large.of(a.ofView(a.clusters)), formats("text", "json"), parameter{name: viewParameter})},
		{"/listeners", "service addresses (?format=text|json, ?view=NAME)", asked(a.large.of(a.ofView(a.listeners)), formats("text", "json"), parameter{name: viewParameter})},
		{"/stats", "statistics (?format=text|json|prometheus, ?filter=regex)", asked(a.stats, formats("text", "json", "prometheus"), parameter{name: "filter"})},
		{"/stats/prometheus", "statistics for Prometheus", asked(a.metrics)},
		{"/metrics", "statistics for Prometheus", asked(a.metrics)},
		{"/xlb/listeners", "rows of \"xlb get listeners\" (JSON)", rows(a, a.listenerRows)},
		{"/xlb/routes", "rows of \"xlb get routes\" (JSON)", rows(a, a.routeRows)},
		{"/xlb/clusters", "rows of \"xlb get clusters\" (JSON)", rows(a, a.clusterRows)},
		{"/xlb/endpoints", "rows of \"xlb get endpoints\" (JSON)", rows(a, a.endpointRows)},
		{"/xlb/pools", "rows of \"xlb get pools\" (JSON)", rows(a, a.poolRows)},
		{"/xlb/connections", "rows of \"xlb get connections\" (JSON)", rows(a, a.connectionRows)},
		{WorkloadsPath, "rows of \"xlb get workloads\" (JSON)", rows(a, func() ([]Workload, error) { return append([]Workload{}, a.source.Workloads()...), nil })},
		{QuotasPath, "rows of \"xlb get quotas\" (JSON)", rows(a, func() ([]Quota, error) { return append([]Quota{}, a.source.Quotas()...), nil })},
		{"/xlb/guards", "rows of \"xlb get guards\" (JSON)", rows(a, func() ([]Guarded, error) { return append([]Guarded{}, a.source.Guarded()...), nil })},
		{CapabilitiesPath, "capabilities that the daemon keeps and lacks, and what there is not without them (JSON)", rows(a, a.capabilityRows)},
		{DelegatePath, "rows of \"xlb get delegate\" (JSON)", rows(a, func() ([]Delegate, error) { return append([]Delegate{}, a.source.Delegate()...), nil })},
		{"/xlb/config", "rows of \"xlb get config\" (JSON)", rows(a, a.originRows)},
		{"/xlb/notes", "rows of \"xlb get notes\" (JSON)", rows(a, func() ([]Note, error) { return append([]Note{}, a.source.Notes()...), nil })},
		{"/xlb/stats", "everything that is counted (JSON)", rows(a, a.source.Snapshot)},
		{explain.Path, "\"xlb explain\": ?url=http://host/path, &method=, &header=name: value, &listener=, &draw=, &netns= of the client, or its &view= (JSON)", a.large.of(a.explain)},
	}
}

func writeIndex(w http.ResponseWriter, pages []page) {
	var b strings.Builder
	for _, p := range pages {
		fmt.Fprintf(&b, "%-24s%s\n", p.path, p.help)
	}
	writeText(w, http.StatusOK, b.String())
}

// ready answers as Envoy's /ready does, with the reason in place of Envoy's state. What is off the
// fast path, or was refused of the configuration, follows behind Envoy's line: requests are served all the same.
func (a *api) ready(w http.ResponseWriter, _ *http.Request) {
	if err := a.source.Ready(); err != nil {
		writeText(w, http.StatusServiceUnavailable, err.Error()+"\n")
		return
	}
	writeText(w, http.StatusOK, readyText(a.source.Guarded())+refusedText(a.source.Origins())+delegateText(a.source.Delegate()))
}

func (a *api) configDump(w http.ResponseWriter, _ *http.Request, c Config) {
	var health knownHealth
	// Without what is counted the rest is shown all the same.
	if s, err := a.source.Snapshot(); err == nil {
		health = healthOf(c.clustersOf(s))
	}
	all := dump(c, health)
	if c.view == "" {
		a.addRemarks(all)
	}
	writeJSON(w, all)
}

// addRemarks adds what is beside Envoy's dump.
func (a *api) addRemarks(all object) {
	if notes := a.source.Notes(); len(notes) > 0 {
		all["xlb_notes"] = notes
	}
	if refused := notInErrorState(a.source.Origins()); len(refused) > 0 {
		all["xlb_refused"] = refused
	}
}

func (a *api) clusters(w http.ResponseWriter, r *http.Request, c Config) {
	s, err := a.source.Snapshot()
	if err != nil {
		writeError(w, err)
		return
	}
	if wantsJSON(r) {
		writeJSON(w, clusterStatuses(c.clustersOf(s)))
		return
	}
	writeText(w, http.StatusOK, clusterText(c.clustersOf(s)))
}

func (a *api) listeners(w http.ResponseWriter, r *http.Request, c Config) {
	listeners := c.listeners()
	if wantsJSON(r) {
		writeJSON(w, listenerStatuses(listeners))
		return
	}
	var b strings.Builder
	for _, l := range listeners {
		fmt.Fprintf(&b, "%s::%s\n", l.Name, l.Address)
	}
	writeText(w, http.StatusOK, b.String())
}

func (a *api) stats(w http.ResponseWriter, r *http.Request) {
	prometheus := r.URL.Query().Get("format") == "prometheus"
	filter, err := filterOf(r)
	if prometheus && filter != nil {
		err = errors.New(`parameter "filter": not with format=prometheus, which has all statistics; use format=text or json`)
	}
	if err != nil {
		writeText(w, http.StatusBadRequest, err.Error()+"\n")
		return
	}
	if prometheus {
		a.metrics(w, r)
		return
	}
	a.large.of(func(w http.ResponseWriter, r *http.Request) { a.counted(w, r, filter) })(w, r)
}

// counted is the page of statistics whose names contain filter.
func (a *api) counted(w http.ResponseWriter, r *http.Request, filter *regexp.Regexp) {
	s, err := a.source.Snapshot()
	if err != nil {
		writeError(w, err)
		return
	}
	stats := filtered(s.Stats(), filter)
	if wantsJSON(r) {
		writeJSON(w, map[string]any{"stats": stats})
		return
	}
	var b strings.Builder
	for _, stat := range stats {
		fmt.Fprintf(&b, "%s: %d\n", stat.Name, stat.Value)
	}
	writeText(w, http.StatusOK, b.String())
}

// filterOf is the regular expression that names must contain; nil for all.
func filterOf(r *http.Request) (*regexp.Regexp, error) {
	text := r.URL.Query().Get("filter")
	if text == "" {
		return nil, nil
	}
	if len(text) > maxFilter {
		return nil, fmt.Errorf("parameter \"filter\": %d bytes, the limit is %d", len(text), maxFilter)
	}
	filter, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("parameter \"filter\": %w; want a regular expression of RE2", err)
	}
	return filter, nil
}

func filtered(stats []metrics.Stat, filter *regexp.Regexp) []metrics.Stat {
	chosen := make([]metrics.Stat, 0, len(stats))
	for _, s := range stats {
		if filter == nil || filter.MatchString(s.Name) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

func wantsJSON(r *http.Request) bool { return r.URL.Query().Get("format") == "json" }

// rows serves what list returns.
func rows[T any](a *api, list func() (T, error)) http.HandlerFunc {
	return asked(a.large.of(func(w http.ResponseWriter, _ *http.Request) {
		v, err := list()
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, v)
	}))
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// A client that has gone needs no answer.
	_, _ = w.Write(b)
	_, _ = io.WriteString(w, "\n")
}

func writeError(w http.ResponseWriter, err error) {
	writeText(w, http.StatusInternalServerError, err.Error()+"\n")
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// A client that has gone needs no answer.
	_, _ = io.WriteString(w, text)
}
