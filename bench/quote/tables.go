// SPDX-License-Identifier: Apache-2.0

package quote

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// tableOfRuns says of each run when it was made, of which code, and how.
const tableOfRuns = "runs"

// tables makes each table of a run.
var tables = map[string]func(*Run) ([][]string, error){
	"rates":   rates,
	"latency": latencies,
	"bodies":  bodies,
	"cost":    costs,
	"missed":  missed,
	"heels":   heels,
}

// table makes the table that words name, with the runs behind its name; was is what stands there.
func (p *Pages) table(words []string, was string) (string, error) {
	if len(words) < 2 {
		return "", fmt.Errorf("want the name of a table, and a run")
	}
	if words[0] == tableOfRuns {
		return p.tableOfRuns(words[1:], was)
	}
	rowsOf := tables[words[0]]
	if rowsOf == nil || len(words) != 2 {
		return "", fmt.Errorf("no table of one run is called %q", words[0])
	}
	r, err := p.run(words[1])
	if err != nil {
		return "", err
	}
	rows, err := rowsOf(r)
	if err != nil {
		return "", err
	}
	return markdown(rows), nil
}

// markdown is a table whose first row is the heading.
func markdown(rows [][]string) string {
	var b strings.Builder
	b.WriteString("\n\n")
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	b.WriteString("\n")
	// An empty cell is written without the space within.
	return strings.ReplaceAll(b.String(), "|  |", "| |")
}

func (p *Pages) tableOfRuns(names []string, was string) (string, error) {
	rows := [][]string{{"run", "made", "code", "congestion control", "rounds", "kernel, processors"}}
	for _, name := range names {
		r, err := p.run(name)
		if err != nil {
			return "", err
		}
		rows = append(rows, []string{
			fmt.Sprintf("[%s](results/%s)", name, page(name)),
			r.Started.Format("2006-01-02"),
			r.code(p.Age, lineWith(was, "["+name+"]")),
			strings.ToUpper(r.Machine.Sysctls["net.ipv4.tcp_congestion_control"]),
			rounds(r.settings()),
			strings.Split(r.Machine.Kernel, "-")[0] + ", " + fmt.Sprint(r.Machine.CPUs) + " x " + r.Machine.CPU,
		})
	}
	return markdown(rows), nil
}

// page of a run, from bench/results.
func page(name string) string {
	dir, file, found := strings.Cut(name, "/")
	if !found {
		file = "results"
	}
	return filepath.Join(dir, file+".md")
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}

// rounds says how many there were, and how long a turn's measurement was.
func rounds(settings []setting) string {
	count := each(settings, func(s setting) int { return s.Rounds })
	seconds := each(settings, func(s setting) int { return int(s.Duration / time.Second) })
	return span(count) + " of " + span(seconds) + " s"
}

func span(values []int) string {
	least, most := slices.Min(values), slices.Max(values)
	if least == most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%v to %v", least, most)
}

// named is a row, or a column, with what of a run it shows.
type named struct {
	name    string
	filters map[string]string
}

func kept(topology, n string) map[string]string {
	return map[string]string{"topology": topology, "case": "keepalive", "connections": n}
}

func short(n string) map[string]string {
	return map[string]string{"case": "short", "connections": n}
}

// loads are the rows of the tables of rates and latencies.
var loads = []named{
	{"same host, 1 kept-alive connection", kept("same", "1")},
	{"same host, 8", kept("same", "8")},
	{"same host, 32", kept("same", "32")},
	{"same host, 128", kept("same", "128")},
	{"same host, one connection per request, 1 client", short("1")},
	{"same host, one connection per request, 32 clients", short("32")},
	{"two hosts, 1 kept-alive connection", kept("cross", "1")},
	{"two hosts, 32", kept("cross", "32")},
	{"two hosts, 128", kept("cross", "128")},
}

// cell is a value of the one row that fits, in a format.
func (r *Run) cell(format string, filters map[string]string, peer, path string) (string, error) {
	with := map[string]string{"peer": peer}
	for key, value := range filters {
		with[key] = value
	}
	v, err := r.value(query{filters: with, path: path})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(format, v), nil
}

// column is one of a table: a peer's value in a format.
type column struct{ name, peer, path, format string }

// tableOf has a row for each load and a cell for each column.
func (r *Run) tableOf(loads []named, columns []column) ([][]string, error) {
	rows := [][]string{append([]string{""}, each(columns, func(c column) string { return c.name })...)}
	for _, load := range loads {
		row := []string{load.name}
		for _, c := range columns {
			text, err := r.cell(c.format, load.filters, c.peer, c.path)
			if err != nil {
				return nil, err
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func rates(r *Run) ([][]string, error) {
	const path = "rate_to_direct"
	return r.tableOf(loads, []column{
		{"direct", "direct", path, "%.2f"},
		{"direct, spread", "spread", path, "%.2f"},
		{"XLB", "xlb", path, "**%.2f**"},
		{"nginx", "nginx", path, "%.2f"},
		{"HAProxy", "haproxy", path, "%.2f"},
		{"Envoy", "envoy", path, "%.2f"},
		{"Envoy twice, as sidecars", "envoy2", path, "%.2f"},
	})
}

func latencies(r *Run) ([][]string, error) {
	return r.tableOf(loads, []column{
		{"p50, us: direct", "direct", "p50_us", "%.0f"},
		{"XLB", "xlb", "p50_us", "%.0f"},
		{"p50 x direct: spread", "spread", "p50_to_direct", "%.2f"},
		{"XLB", "xlb", "p50_to_direct", "**%.2f**"},
		{"Envoy", "envoy", "p50_to_direct", "%.2f"},
		{"p99, us: direct", "direct", "p99_us", "%.0f"},
		{"XLB", "xlb", "p99_us", "%.0f"},
		{"p99 x direct: spread", "spread", "p99_to_direct", "%.2f"},
		{"XLB", "xlb", "p99_to_direct", "**%.2f**"},
		{"Envoy", "envoy", "p99_to_direct", "%.2f"},
	})
}

// costs are processor time per request, in microseconds, of clients, endpoints and balancer together.
func costs(r *Run) ([][]string, error) {
	at := func(topology, share string) map[string]string {
		return map[string]string{"topology": topology, "case": "rate", "connections": "32", "share_percent": share}
	}
	const path = "scale.cpu_us_per_request_over_direct"
	return r.tableOf([]named{
		{"same host, 10 %", at("same", "10")},
		{"same host, 30 %", at("same", "30")},
		{"two hosts, 10 %", at("cross", "10")},
		{"two hosts, 30 %", at("cross", "30")},
	}, []column{
		{"direct, in all", "direct", "cpu_us_per_request.lab", "%.1f"},
		{"XLB: more", "xlb", path, "**%+.1f**"},
		{"least", "xlb", path + ".min", "%+.1f"},
		{"most", "xlb", path + ".max", "%+.1f"},
		{"Envoy: more", "envoy", path, "%+.1f"},
	})
}

// bodies has rates as multiples of direct ones: XLB's, and in brackets those of direct connections to both endpoints and Envoy's.
func bodies(r *Run) ([][]string, error) {
	sizes := []string{"16384", "65536", "1048576"}
	rows := [][]string{{"", "16 KiB", "64 KiB", "1 MiB"}}
	for _, place := range []named{{"same host", map[string]string{"topology": "same"}}, {"two hosts", map[string]string{"topology": "cross"}}} {
		for _, way := range []string{"response", "request"} {
			row := []string{fmt.Sprintf("%s, %ss", place.name, way)}
			for _, size := range sizes {
				with := map[string]string{"topology": place.filters["topology"], "case": "sizes", "way": way, "size_bytes": size}
				var cell [3]string
				for i, peer := range []string{"xlb", "spread", "envoy"} {
					var err error
					if cell[i], err = r.cell("%.2f", with, peer, "rate_to_direct"); err != nil {
						return nil, err
					}
				}
				row = append(row, fmt.Sprintf("%s (%s; %s)", cell[0], cell[1], cell[2]))
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// missed are the targets that the run has measured and not met.
func missed(r *Run) ([][]string, error) {
	rows := [][]string{{"target", "measured"}}
	for _, t := range r.Targets {
		if measured, is := median(t.Measured); is && !t.Met {
			rows = append(rows, []string{t.Target, fmt.Sprintf("%.2f", measured)})
		}
	}
	return rows, nil
}
