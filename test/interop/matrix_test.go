// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Outcomes of a case.
const (
	outcomeOK     = "ok"
	outcomeFailed = "failed"
	outcomeCannot = "-"
)

// result is one case of a cell.
type result struct {
	Case    string `json:"case"`
	Outcome string `json:"outcome"`
	// Reason of a case that cannot be done, error of one that failed.
	Reason string `json:"reason,omitempty"`
	// WithoutXLB tells what came of a failed case when client and server spoke
	// directly: "ok", or the error.
	WithoutXLB string `json:"without_xlb,omitempty"`
	counters
}

// counters are what XLB has counted, or their growth.
type counters struct {
	// Fast and Slow are requests by the path that served them.
	Fast int `json:"fast"`
	Slow int `json:"slow"`
	// Connections of clients to service addresses.
	Connections int `json:"connections"`
}

func (c counters) since(before counters) counters {
	return counters{Fast: c.Fast - before.Fast, Slow: c.Slow - before.Slow, Connections: c.Connections - before.Connections}
}

// cell is one client and one server in one topology.
type cell struct {
	Topology string   `json:"topology"`
	Client   string   `json:"client"`
	Server   string   `json:"server"`
	Results  []result `json:"results"`
	// Share of the requests that the kernel served, 0 to 1.
	Share float64 `json:"fast_share"`
	fast  int
	slow  int
}

// matrix is the outcome of a run.
type matrix struct {
	Cells []*cell `json:"cells"`
}

func (c *cell) add(r result) {
	c.Results = append(c.Results, r)
	c.fast += r.Fast
	c.slow += r.Slow
	if c.fast+c.slow > 0 {
		c.Share = float64(c.fast) / float64(c.fast+c.slow)
	}
}

// failed names the cases that failed.
func (c *cell) failed() (names []string) {
	for _, r := range c.Results {
		if r.Outcome == outcomeFailed {
			names = append(names, r.Case)
		}
	}
	return names
}

// String is how the cell looks in the matrix.
func (c *cell) String() string {
	verdict := outcomeOK
	if names := c.failed(); names != nil {
		verdict = strings.Join(names, ",")
	}
	return verdict + " " + percent(c.fast, c.slow)
}

// percent is the fast path's share. It rounds down: 100 % means all.
func percent(fast, slow int) string {
	if fast+slow == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%%", 100*fast/(fast+slow))
}

func (m *matrix) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(m)
}

func (m *matrix) writeText(w io.Writer) error {
	for _, topology := range topologies {
		if err := m.writeTopology(w, topology.name); err != nil {
			return err
		}
	}
	if err := m.writeCases(w); err != nil {
		return err
	}
	return m.writeFailures(w)
}

// writeTopology prints clients as rows and servers as columns.
func (m *matrix) writeTopology(w io.Writer, topology string) error {
	rows := map[string]map[string]*cell{}
	for _, c := range m.Cells {
		if c.Topology != topology {
			continue
		}
		if rows[c.Client] == nil {
			rows[c.Client] = map[string]*cell{}
		}
		rows[c.Client][c.Server] = c
	}
	if len(rows) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, topology)
	for _, server := range servers {
		fmt.Fprint(table, "\t", server.name)
	}
	fmt.Fprintln(table)
	for _, client := range clients {
		if rows[client.name] == nil {
			continue
		}
		fmt.Fprint(table, client.name)
		for _, server := range servers {
			text := ""
			if c := rows[client.name][server.name]; c != nil {
				text = c.String()
			}
			fmt.Fprint(table, "\t", text)
		}
		fmt.Fprintln(table)
	}
	fmt.Fprintln(table)
	return table.Flush()
}

// tally sums a case over the cells of a topology.
type tally struct{ ok, failed, cannot, fast, slow int }

func (m *matrix) tally(topology, name string) (sum tally) {
	for _, c := range m.Cells {
		if c.Topology != topology {
			continue
		}
		for _, r := range c.Results {
			if r.Case == name {
				sum.add(r)
			}
		}
	}
	return sum
}

func (t *tally) add(r result) {
	t.fast += r.Fast
	t.slow += r.Slow
	switch r.Outcome {
	case outcomeOK:
		t.ok++
	case outcomeFailed:
		t.failed++
	default:
		t.cannot++
	}
}

// writeCases prints how each case fared in all pairs together.
func (m *matrix) writeCases(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "topology\tcase\t\tok\tfailed\tcannot\tfast path")
	for _, topology := range topologies {
		for _, c := range testCases {
			sum := m.tally(topology.name, c.name)
			if sum == (tally{}) {
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", topology.name, c.name, c.what, sum.ok, sum.failed, sum.cannot, percent(sum.fast, sum.slow))
		}
	}
	return table.Flush()
}

// writeFailures prints each failure with what came of it without XLB.
func (m *matrix) writeFailures(w io.Writer) error {
	for _, c := range m.Cells {
		for _, r := range c.Results {
			if r.Outcome != outcomeFailed {
				continue
			}
			_, err := fmt.Fprintf(w, "\nFAILED %s: %s to %s: %s\n  %s\n  without XLB: %s\n", c.Topology, c.Client, c.Server, r.Case, r.Reason, r.WithoutXLB)
			if err != nil {
				return err
			}
		}
	}
	return nil
}
