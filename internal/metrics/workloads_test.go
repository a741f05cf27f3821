// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

func TestSeriesOfWorkloadsAreBounded(t *testing.T) {
	tests := []struct {
		name             string
		there            int
		series, unlisted int
	}{
		{"none but the host", 1, 1, 0},
		{"as many as are listed", maxListedWorkloads, maxListedWorkloads, 0},
		{"some more", maxListedWorkloads + 7, maxListedWorkloads, 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source := &state{}
			for i := range tt.there {
				// The list has an order of its own.
				source.workloads = append(source.workloads, Workload{ID: uint32(tt.there - 1 - i), Name: fmt.Sprintf("shop/web-%d", i), State: "served", Uses: map[string]Use{"isocks": {Taken: 3, Refused: 1}}, Destinations: []Destination{{"web", 7, 70, 700, 0.5, 0.25}}})
			}
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(NewCollector(source, NewRecorder()))
			page := exposition(t, registry)
			for _, metric := range []string{"\nxlb_workload_info{", "\nxlb_workload_connections{", "\nxlb_workload_quota_taken{", "\nxlb_workload_quota_refused_total{", "\nxlb_workload_requests_total{", "\nxlb_workload_request_bytes_total{", "\nxlb_workload_response_bytes_total{"} {
				if n := strings.Count(page, metric); n != tt.series {
					t.Errorf("%d series of %s, want %d", n, strings.TrimSpace(metric), tt.series)
				}
			}
			if want := fmt.Sprintf("\nxlb_workloads_unlisted %d\n", tt.unlisted); !strings.Contains(page, want) {
				t.Errorf("the page lacks %q", want)
			}
			last := fmt.Sprintf("\nxlb_workload_connections{id=\"%d\",", tt.series-1)
			if !strings.Contains(page, last) || strings.Contains(page, fmt.Sprintf("{id=\"%d\",", tt.series)) {
				t.Errorf("those with the lowest numbers are not those that are listed")
			}
		})
	}
}

func TestNamesOfAnyBytesLeaveThePageWhole(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"not UTF-8", "a\xff\xfeb", "a\ufffdb"},
		{"a line's end", "a\nb", `a\nb`},
		{"a quote", `a"b\c`, `a\"b\\c`},
		{"NUL and an escape sequence", "a\x00\x1b[2Jb", "a\x00\x1b[2Jb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			source := &state{workloads: []Workload{
				{ID: 1, Name: tt.text, State: "served", View: tt.text, PodNamespace: tt.text, Pod: tt.text, PodUID: tt.text, Container: tt.text, Runtime: tt.text, Connections: 5},
			}}
			answer := httptest.NewRecorder()
			NewCollector(source, NewRecorder()).Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
			page := answer.Body.String()
			want := fmt.Sprintf("\nxlb_workload_connections{id=\"1\",workload=\"%s\"} 5\n", tt.want)
			if answer.Code != http.StatusOK || !utf8.ValidString(page) || !strings.Contains(page, want) {
				t.Errorf("answer %d lacks %q", answer.Code, want)
			}
			if n := strings.Count(page, `"`+tt.want+`"`); n != 7 {
				t.Errorf("the name stands in %d labels, want 7", n)
			}
		})
	}
}

func TestWithoutARuntimeThereAreNoSeriesOfOne(t *testing.T) {
	source := busy()
	source.nri = nil
	c := NewCollector(source, recorded())
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	if page := exposition(t, registry); strings.Contains(page, "xlb_nri_") {
		t.Errorf("the page has series of a runtime:\n%s", page)
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, stat := range s.Stats() {
		if strings.HasPrefix(stat.Name, "xlb.nri.") {
			t.Errorf("%s is listed", stat.Name)
		}
	}
}
