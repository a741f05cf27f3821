// SPDX-License-Identifier: Apache-2.0

package quote

import (
	"fmt"
	"slices"
)

// heelsLoads are the rows of the table of HEELS, each with the value whose ratio it shows.
var heelsLoads = []struct {
	named
	value string
}{
	{turns("goodput, 100 connections, 1 kB", "RR", "connections", "100", "processors", "all", "answer_bytes", "1000"), "goodput"},
	{turns("32 kB", "RR", "connections", "100", "processors", "all", "answer_bytes", "32000"), "goodput"},
	{turns("260 kB", "RR", "connections", "100", "processors", "all", "answer_bytes", "260000"), "goodput"},
	{turns("the same on one processor, 1 kB", "RR", "connections", "100", "processors", "one", "answer_bytes", "1000"), "goodput"},
	{turns("32 kB", "RR", "connections", "100", "processors", "one", "answer_bytes", "32000"), "goodput"},
	{turns("260 kB", "RR", "connections", "100", "processors", "one", "answer_bytes", "260000"), "goodput"},
	{turns("260 kB, p50", "RR", "connections", "100", "processors", "one", "answer_bytes", "260000"), "p50_us"},
	{turns("260 kB, p99", "RR", "connections", "100", "processors", "one", "answer_bytes", "260000"), "p99_us"},
	{turns("p50, one connection, 1 kB", "RR", "connections", "1", "answer_bytes", "1000"), "p50_us"},
	{turns("100 kB", "RR", "connections", "1", "answer_bytes", "100000"), "p50_us"},
	{turns("goodput, one connection, 100 MB from the server", "stream", "answer_bytes", "100000000"), "goodput"},
	{turns("to the server", "stream", "request_bytes", "100000000"), "goodput"},
	{turns("wrk and nginx, 100 kept connections", "wrk", "connections", "100"), "requests_per_second"},
	{turns("wrk and nginx, 32 connections of one request each", "wrk", "connections", "32"), "requests_per_second"},
	{turns("p50, one connection for each request, 1 kB", "CRR", "answer_bytes", "1000"), "p50_us"},
	{turns("100 kB", "CRR", "answer_bytes", "100000"), "p50_us"},
	{turns("connect", "set-up"), "setup_us"},
}

// turns names a row of HEELS' table: a load, then pairs of a setting and its value.
func turns(name, load string, settings ...string) named {
	n := named{name, map[string]string{"load": load}}
	for i := 0; i+1 < len(settings); i += 2 {
		n.filters[settings[i]] = settings[i+1]
	}
	return n
}

// heels has ratios to a direct connection: those of HEELS, and in brackets those of the balancer's own path.
func heels(r *Run) ([][]string, error) {
	balancers := []struct{ name, key string }{{"nftables", "masquerade"}, {"IPIP", "IPIP"}, {"Katran", "Katran"}}
	rows := [][]string{{""}}
	for _, b := range balancers {
		rows[0] = append(rows[0], b.name)
	}
	for _, load := range heelsLoads {
		row := []string{load.name}
		for _, b := range balancers {
			own, found := r.ratioToDirect(load.filters, b.key, "heels", load.value)
			balanced, measured := r.ratioToDirect(load.filters, b.key, "balancer", load.value)
			cell := ""
			if found && measured {
				cell = fmt.Sprintf("%.2f (%.2f)", own, balanced)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	if !slices.ContainsFunc(rows[1:], func(row []string) bool { return row[1] != "" }) {
		return nil, fmt.Errorf("the run has no turns of HEELS")
	}
	return rows, nil
}

// ratioToDirect is the median, over the rounds, of a path's value to that of a direct connection in the same round.
func (r *Run) ratioToDirect(filters map[string]string, balancer, path, value string) (float64, bool) {
	own, direct := r.byRound(filters, balancer, path, value), r.byRound(filters, balancer, "direct", value)
	var ratios []float64
	for round, v := range own {
		if base := direct[round]; base > 0 {
			ratios = append(ratios, v/base)
		}
	}
	if len(ratios) == 0 {
		return 0, false
	}
	slices.Sort(ratios)
	middle := len(ratios) / 2
	if len(ratios)%2 == 0 {
		return (ratios[middle-1] + ratios[middle]) / 2, true
	}
	return ratios[middle], true
}

func (r *Run) byRound(filters map[string]string, balancer, path, value string) map[float64]float64 {
	want := map[string]string{"balancer": balancer, "path": path}
	for key, v := range filters {
		want[key] = v
	}
	values := map[float64]float64{}
	for _, turn := range r.Turns {
		round, numbered := turn["round"].(float64)
		v, measured := turn[value].(float64)
		if numbered && measured && fits(turn, want) {
			values[round] = v
		}
	}
	return values
}
