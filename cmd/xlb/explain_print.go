// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/plural"
)

func printAnswer(e *env, output format, a *explain.Answer) error {
	if output == formatJSON {
		return writeJSON(e.stdout, a)
	}
	if err := printSummary(e, a); err != nil {
		return err
	}
	if len(a.Routes) > 0 {
		fmt.Fprintln(e.stdout)
		if err := writeTable(e.stdout, []string{"ROUTE", "NAME", "MATCH", "RESULT"}, routeRows(a.Routes)); err != nil {
			return err
		}
	}
	if len(a.Endpoints) == 0 {
		return nil
	}
	fmt.Fprintln(e.stdout)
	header, rows := candidateRows(a)
	return writeTable(e.stdout, header, rows)
}

func printSummary(e *env, a *explain.Answer) error {
	t := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("request", "%s %s %s, draw %d", a.Request.Method, a.Request.Authority, pathText(&a.Request), a.Request.Draw)
	switch w := a.Workload; {
	case a.IsUnbalanced():
		line("workload", "%s: NOT BALANCED: %s", clientName(w), clientState(w))
	case w != nil:
		line("workload", "%s: %s", clientName(w), clientState(w))
	}
	if a.View != "" {
		line("view", "%s", a.View)
	}
	line("listener", "%s (%s)", a.Listener.Name, a.Listener.Address)
	switch {
	case a.IsAnswered():
		line("action", "%s", actionText(a.Action))
	case a.VirtualHost == nil:
		line("virtual host", "none: 404")
	default:
		line("virtual host", "%s, by domain %s", a.VirtualHost.Name, a.VirtualHost.Domain)
	}
	if a.Winner > 0 {
		r := &a.Routes[a.Winner-1]
		line("route", "%s", strings.Join(append([]string{routeName(r), r.Match}, r.Conditions...), ", "))
		line("action", "%s", actionText(a.Action))
	} else if a.VirtualHost != nil {
		line("route", "none: 404")
	}
	line("fast path", "%s", kernelText(&a.Kernel))
	for _, reason := range a.Kernel.Reasons {
		line("", "%s", reason)
	}
	for _, note := range a.Notes {
		line("note", "%s", note)
	}
	if a.Disagreement != "" {
		line("DISAGREEMENT", "%s", a.Disagreement)
	}
	return t.Flush()
}

// clientName names the client's network namespace.
func clientName(w *explain.Workload) string {
	if w.ID == nil {
		return fmt.Sprintf("network namespace %d", w.Netns)
	}
	return fmt.Sprintf("%d, %s", *w.ID, printable(w.Name))
}

// clientState says what the daemon does for it.
func clientState(w *explain.Workload) string {
	switch {
	case w.State == explain.WorkloadUnknown:
		return "the daemon does not serve it, or not yet"
	case w.Why != "":
		return printable(w.State) + ": " + printable(w.Why)
	}
	return printable(w.State)
}

// pathText is the path that routes compare, and the one that was sent if it is another.
func pathText(r *explain.Request) string {
	if r.Sent == "" {
		return r.Path
	}
	return fmt.Sprintf("%s (sent as %s)", r.Path, r.Sent)
}

func routeName(r *explain.Route) string {
	if r.Name == "" {
		return strconv.Itoa(r.Position)
	}
	return fmt.Sprintf("%d %q", r.Position, r.Name)
}

func actionText(a *explain.Action) string {
	words := []string{fmt.Sprintf("%s %d", a.Kind, a.Status)}
	if a.Kind == explain.Forward {
		words = []string{"forward to " + clusterText(a.Clusters), "timeout " + a.Timeout}
	}
	if a.NotFound != 0 {
		words = append(words, fmt.Sprintf("%d without a cluster", a.NotFound))
	}
	if a.Because != "" {
		words = append(words, a.Because)
	}
	words = append(words, a.Changes...)
	if a.Path != "" {
		words = append(words, "path "+a.Path)
	}
	words = append(words, a.Filters...)
	if len(a.Upgrades) > 0 {
		words = append(words, "upgrades "+strings.Join(a.Upgrades, " "))
	}
	return strings.Join(words, ", ")
}

// clusterText gives the weights where there are several.
func clusterText(clusters []explain.Cluster) string {
	texts := make([]string, 0, len(clusters))
	for _, c := range clusters {
		text := c.Name
		if c.Header != "" {
			text = fmt.Sprintf("%s by header %s", cmp.Or(c.Name, "no cluster"), c.Header)
		}
		if c.Subset != nil {
			text += " (" + c.Subset.Text() + ")"
		}
		if len(clusters) > 1 {
			text += fmt.Sprintf(":%d", c.Weight)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " or ")
}

func kernelText(k *explain.Kernel) string {
	switch {
	case k.By == explain.ByNobody:
		return "no: the daemon runs with --fast-path=off, or on a kernel that cannot, and the slow path serves everything"
	case k.Verdict == "":
		return "no: the slow path refuses the request"
	case k.Fast:
		return fmt.Sprintf("yes: to %s, timeout %s", strings.TrimSpace(k.Cluster+" "+string(k.Criteria)), k.Timeout)
	default:
		return fmt.Sprintf("no: %s: %s", k.Verdict, k.Meaning)
	}
}

// mostRoutes are listed; of more, those that lose by their path are counted.
const mostRoutes = 20

func routeRows(routes []explain.Route) [][]string {
	var rows [][]string
	left := 0
	leave := func() {
		if left > 0 {
			rows = append(rows, []string{"...", "", "", fmt.Sprintf("%d more %s the path", left, plural.Verb(left, "lacks", "lack"))})
		}
		left = 0
	}
	for i := range routes {
		r := &routes[i]
		if r.Lost == "path" && len(rows) >= mostRoutes {
			left++
			continue
		}
		leave()
		result := "won"
		switch {
		case r.Lost == "path":
			result = "lacks the path"
		case r.Lost != "":
			result = "lacks " + r.Because
		}
		if r.Undecided != "" {
			result += "; not for the kernel: " + r.Undecided
		}
		rows = append(rows, []string{strconv.Itoa(r.Position), orDash(r.Name), r.Match, result})
	}
	leave()
	return rows
}

// candidateRows lists endpoints, with what a daemon knows of them if one was asked.
func candidateRows(a *explain.Answer) (header []string, rows [][]string) {
	header = []string{"CLUSTER", "WEIGHT", "POLICY", "ENDPOINT", "WEIGHT"}
	live := a.Kernel.By != explain.ByCompiler
	if live {
		header = append(header, "STATE", "SHARE", "IDLE")
	}
	type choice struct {
		cluster  string
		criteria model.Metadata
	}
	clusters := map[choice]explain.Cluster{}
	for _, c := range a.Action.Clusters {
		of := choice{cluster: c.Name}
		if c.Subset != nil {
			of.criteria = c.Subset.Criteria
		}
		clusters[of] = c
	}
	for _, p := range a.Endpoints {
		c := clusters[choice{p.Cluster, p.Criteria}]
		row := []string{strings.TrimSpace(p.Cluster + " " + string(p.Criteria)), number(uint64(c.Weight)), orDash(c.Policy), addressText(&p), number(uint64(p.Weight))}
		if live {
			share := percent(p.Share)
			if p.Criteria != "" {
				share = "-" // of all requests to the cluster, which tells nothing here
			}
			row = append(row, orDash(p.State), share, idleText(p.Idle))
		}
		rows = append(rows, row)
	}
	return header, rows
}

func addressText(e *explain.Endpoint) string {
	if e.TLS {
		return e.Address + " (TLS)"
	}
	return e.Address
}

func idleText(idle *uint64) string {
	if idle == nil {
		return "-"
	}
	return number(*idle)
}
