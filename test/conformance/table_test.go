// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// results are what the page is made of.
type results struct {
	// fast is XLB on one host, remote with the endpoint on another, slow without the fast path.
	fast, remote, slow observations
	envoy, nginx       peer
}

// peer is what somebody else in the place of XLB made of all cases; without a name it did not run.
type peer struct {
	name string
	all  observations
}

func (r *results) peers() []peer { return []peer{r.envoy, r.nginx} }

const preamble = `# HTTP/1.1, case by case

<!-- Written by: go test ./test/conformance -update -->

What a client and an endpoint see of each other through XLB, and through Envoy and nginx in its place. Each case is played byte by byte by a
test, [test/conformance](../test/conformance), which holds XLB to a rule for each and fails when this page is out of date.

- **case**: what the client sends, or in the tables on responses what the endpoint answers to a GET. **RFC**: the section that says what is right,
  of RFC 9112 where no other is named.
- **same host**, **other host**: who served it with the endpoint there. *fast* is the kernel alone; *handed over* and *spilled* name
  the reason ([verdicts.md](verdicts.md)) why the daemon took over.
- **XLB**: the client's answers with their framing, and whether its connection was *kept*, *closed*, or *hangs* for %v; behind the arrow what the
  endpoint got. *Out of step* is a connection on which the next request gets another one's answer; *tunnel* is one that has switched
  protocols. Where the daemon alone
  (` + "`--fast-path=off`" + `) or another host makes a difference, that stands below.
- **Envoy**, **nginx**: the same, or *same* where it is the same. Envoy and XLB run with their defaults but ` + "`accept_http_10` and upgrades to websocket" + `, nginx
  with its defaults but kept-alive connections to the endpoint, no buffering, and ` + "`Upgrade`" + ` passed on.

Of requests by which one client tries to hide another there are some hundreds more, beside Envoy, in [smuggling.md](smuggling.md).
`

// render writes the page.
func (r *results) render() string {
	var b strings.Builder
	fmt.Fprintf(&b, preamble, patience)
	for i, g := range groups() {
		fmt.Fprintf(&b, "\n## %s\n\n", g.title)
		header := []string{"case", "RFC", "same host", "other host", "XLB", r.envoy.name, r.nginx.name}
		b.WriteString(row(header) + "|" + strings.Repeat("---|", len(header)) + "\n")
		for j := range g.cases {
			b.WriteString(row(r.cells(g, i, j)))
		}
	}
	return b.String()
}

func (r *results) cells(g group, i, j int) []string {
	c := g.cases[j]
	fast := g.cell(c, r.fast[i][j])
	all := fast
	if slow := g.cell(c, r.slow[i][j]); slow != fast {
		all += "<br>daemon alone: " + slow
	}
	if remote := g.cell(c, r.remote[i][j]); remote != fast {
		all += "<br>other host: " + remote
	}
	if c.pending != "" {
		all += "<br>**wrong:** " + c.pending
	}
	cells := []string{c.name, c.rfc, r.fast[i][j].path, r.remote[i][j].path, all}
	for _, p := range r.peers() {
		cells = append(cells, p.cell(g, i, j, fast))
	}
	return cells
}

func (p peer) cell(g group, i, j int, xlb string) string {
	if p.name == "" {
		return ""
	}
	if cell := g.cell(g.cases[j], p.all[i][j]); cell != xlb {
		return cell
	}
	return "same"
}

const between = " | "

func row(cells []string) string { return "| " + strings.Join(cells, between) + " |\n" }

// without leaves a column out of all tables of a page, and returns its name.
func without(page string, column int) (rest, name string) {
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		cells := strings.Split(line, between)
		if !strings.HasPrefix(line, "| ") || column >= len(cells) {
			continue
		}
		if name == "" {
			name = strings.TrimSuffix(cells[column], " |")
		}
		lines[i] = strings.Join(slices.Delete(cells, column, column+1), between)
	}
	return strings.Join(lines, "\n"), name
}

// cell says what came of a case.
func (g group) cell(c exchange, o observation) string {
	words := append(summary(o.answers), string(o.client))
	cell := strings.Join(words, ", ")
	if o.lingers {
		cell += ", endpoint's connection kept"
	}
	requests := strings.Join(summary(o.requests), ", ")
	switch {
	case c.rule.reached == reachedPart && count(o.requests, whole) == 0:
		// How much comes before the refusal is a matter of time.
		requests = "nothing whole"
	case requests == "":
		requests = "nothing"
	case !g.forwarded:
		return cell
	}
	if c.hop != "" {
		requests += fmt.Sprintf(", %s passed on: %t", c.hop, c.hopPassed(o))
	}
	return cell + " → " + requests
}

// summary is a list of messages in which equal neighbours stand once.
func summary(all []message) []string {
	var words []string
	for i := 0; i < len(all); {
		n := 1
		for i+n < len(all) && all[i+n].String() == all[i].String() {
			n++
		}
		word := all[i].String()
		if n > 1 {
			word = fmt.Sprintf("%d × %s", n, word)
		}
		words = append(words, word)
		i += n
	}
	return words
}
