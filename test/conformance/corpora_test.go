// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/fuzz/grammar"
)

// foreignCase is a request in the tests of another reader of HTTP, or a mutant of one.
type foreignCase struct {
	Corpus, Source string
	Bytes          []byte
}

// requests counts requests by what describe says of them.
type requests map[string]int

// foreignOutcome is what the endpoint got of one way to send the corpora.
type foreignOutcome struct {
	// byCorpus has an entry for each.
	byCorpus map[string]requests
	streams  [][]byte
}

// TestForeignCorpora sends what other readers of HTTP are tested with, and mutants of it, each case on a connection of its own, with a request
// behind it and without. The endpoint gets no request that the letter of RFC 9112 does not find in what was sent, nor one more often; servers
// that read less strictly find the same requests in what it got; and XLB forwards nothing that Envoy does not, but for what laxerForeign lists.
func TestForeignCorpora(t *testing.T) {
	harness.OnlyXLB(t, "it stands beside XLB")
	cases := foreignCases(t)
	letter := sentByLetter(cases)
	var xlb []foreignOutcome // for each mode
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		auditor, service := place.Auditor(t), harness.Service()
		b := harness.Start(t, mode, smugglingConfig(service, auditor.Address), place)
		followed := sendForeign(t, place, service, auditor, cases, lastForeign)
		alone := sendForeign(t, place, service, auditor, cases, "")
		for corpus, sent := range letter {
			for _, o := range []foreignOutcome{followed, alone} {
				if more := o.byCorpus[corpus].without(sent); len(more) > 0 {
					t.Errorf("%s: the endpoint got requests that nobody sent by the letter: %s", corpus, more)
				}
			}
		}
		if moved := b.Samples(t, "xlb_verdicts_total", "verdict")["request_leased"]; mode.Fast && moved < 20 {
			t.Errorf("the fast path has moved %v requests: this shows nothing about it", moved)
		}
		serversAgree(t, place, slices.Concat(followed.streams, alone.streams))
		xlb = append(xlb, followed)
	})
	if t.Failed() || testing.Short() || !harness.FastPath(t) {
		return
	}
	t.Run("Envoy", func(t *testing.T) {
		place := harness.SameHost(t)
		auditor, service := place.Auditor(t), harness.Service()
		harness.StartEnvoy(t, smugglingConfig(service, auditor.Address), place)
		envoy := sendForeign(t, place, service, auditor, cases, lastForeign)
		used := map[string]bool{}
		for corpus := range letter {
			for _, o := range xlb {
				judgeLaxer(t, o.byCorpus[corpus].without(envoy.byCorpus[corpus]), used)
			}
		}
		for _, l := range laxerForeign {
			if !used[l.reason] {
				t.Errorf("XLB forwards no more than Envoy of %q: take it out of the list", l.reason)
			}
		}
		compareForeign(t, cases, letter, xlb, envoy)
	})
}

// laxerForeign are the requests that XLB forwards and Envoy refuses, by what describe says of them, and why nobody can make something else of
// them.
var laxerForeign = []struct {
	request *regexp.Regexp
	reason  string
}{
	{regexp.MustCompile(`^(?:[^ ]*[^A-Z ][^ ]*|ET) `), "a method is any token (RFC 9110, section 9.1), and framed as others are"},
	{regexp.MustCompile(` /\?hail=all of hypnotoad\.org`), "an absolute target with a query and no path (RFC 9112, section 3.2.1)"},
}

func judgeLaxer(t *testing.T, more requests, used map[string]bool) {
	t.Helper()
	for request := range more {
		explained := false
		for _, l := range laxerForeign {
			if l.request.MatchString(request) {
				explained, used[l.reason] = true, true
			}
		}
		if !explained {
			t.Errorf("XLB forwards and Envoy does not: %s", request)
		}
	}
}

const foreignPage = "../../docs/internals/corpora.md"

const foreignPreamble = `# Corpora of other readers

<!-- Written by: go test ./test/conformance -run ForeignCorpora -update -->

Other readers of HTTP/1 have tests of their own. The requests in these tests are sent through XLB and
through Envoy: as they are; with a Host field, where they have none; and as a mutant, in which a byte
that readers disagree about is inserted or replaced, or a line occurs twice. Each is sent on a
connection of its own, with a request behind it and without. The archives come from PyPI and from the
Go toolchain at test time ([install-deps](../../scripts/install-deps)); this repository holds none of
them.

| corpus | cases | requests by the letter of RFC 9112 | XLB forwards, fast path on | off | Envoy forwards |
|---|---|---|---|---|---|
`

const foreignClosing = `
Requests are counted that reach the endpoint, the one behind each case included. No request reached it
that the letter does not find in what was sent. nginx, Node and Python's ` + "`http.server`" + ` find in
the bytes that XLB sent on the same requests, or refuse them. Envoy refuses, and XLB forwards:

`

// compareForeign compares the page with what was seen, or writes it. Go's own tests change with the toolchain: their row is compared
// for the version that it names.
func compareForeign(t *testing.T, cases []foreignCase, letter map[string]requests, xlb []foreignOutcome, envoy foreignOutcome) {
	t.Helper()
	var page strings.Builder
	page.WriteString(foreignPreamble)
	for _, corpus := range slices.Sorted(maps.Keys(letter)) {
		n := 0
		for _, c := range cases {
			if c.Corpus == corpus {
				n++
			}
		}
		cells := []string{corpusName(corpus), fmt.Sprint(n), fmt.Sprint(letter[corpus].total())}
		for _, o := range append(slices.Clone(xlb), envoy) {
			cells = append(cells, fmt.Sprint(o.byCorpus[corpus].total()))
		}
		page.WriteString(row(cells))
	}
	page.WriteString(foreignClosing)
	for _, l := range laxerForeign {
		page.WriteString("- " + l.reason + "\n")
	}
	if *update {
		if err := os.WriteFile(foreignPage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(foreignPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ofThisGo(string(want)), ofThisGo(page.String())); diff != "" {
		t.Errorf("docs/internals/corpora.md is out of date (-page +seen); if that is meant, run: go test ./test/conformance -run ForeignCorpora -update\n%s", diff)
	}
}

func corpusName(corpus string) string {
	if corpus == "go" {
		return runtime.Version() + ", net/http"
	}
	return corpus
}

// ofThisGo returns the lines of a page, without the row of a Go toolchain unless this one is the page's.
func ofThisGo(page string) []string {
	return slices.DeleteFunc(strings.Split(page, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "| go1") && runtime.Version() != testedGo
	})
}

// testedGo is the toolchain of the page's row.
const testedGo = "go1.26.8"

// lastForeign is the request behind each case. Nothing that is hidden in a case names its host.
const lastForeign = "GET /last HTTP/1.1\r\nHost: last.test\r\nConnection: close\r\n\r\n"

// foreignCases are those of the archives that scripts/install-deps has fetched and of Go's own tests, their form with a Host where
// they have none, and mutants of both. They are the same in each run.
func foreignCases(t *testing.T) []foreignCase {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	toolchain, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env GOROOT: %v", err)
	}
	command := exec.Command("python3", "corpora/collect.py", filepath.Join(root, ".tools/corpora"), strings.TrimSpace(string(toolchain)))
	var complaints bytes.Buffer
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil {
		t.Fatalf("corpora/collect.py: %v\n%s", err, complaints.String())
	}
	var cases []foreignCase
	if err := json.Unmarshal(out, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Clone(cases) {
		if line, rest, ok := bytes.Cut(c.Bytes, []byte("\r\n")); ok && !bytes.Contains(bytes.ToLower(c.Bytes), []byte("\nhost:")) {
			c.Bytes = slices.Concat(line, []byte("\r\nHost: foreign.test\r\n"), rest)
			cases = append(cases, c)
		}
	}
	// By the bytes of the case: another version of one corpus changes nothing in the others.
	for _, c := range slices.Clone(cases) {
		random := rand.New(rand.NewPCG(uint64(len(c.Bytes)), uint64(crc32.ChecksumIEEE(c.Bytes))))
		c.Bytes = mutant(random, c.Bytes)
		cases = append(cases, c)
	}
	return cases
}

// mutations are what readers are known to disagree about.
var mutations = []string{" ", "\t", "\r", "\n", "\r\n", "\r\n ", "\x00", "\x0b", "\x0c", "\x7f", "\x80", "\xa0", "\xff", ":", ",", ";", "\"", "+", "-", "0", "_"}

// mutant inserts one of the mutations, puts it in place of a byte, or repeats a line.
func mutant(random *rand.Rand, b []byte) []byte {
	at, m := random.IntN(len(b)), []byte(mutations[random.IntN(len(mutations))])
	switch random.IntN(3) {
	case 0:
		return slices.Concat(b[:at], m, b[at:])
	case 1:
		return slices.Concat(b[:at], m, b[at+1:])
	}
	lines := bytes.SplitAfter(b, []byte("\n"))
	i := random.IntN(len(lines))
	return bytes.Join(slices.Insert(lines, i, bytes.Clone(lines[i])), nil)
}

// sentByLetter counts the requests that the letter finds in cases, with the last request behind them or without.
func sentByLetter(cases []foreignCase) map[string]requests {
	all := map[string]requests{}
	for _, c := range cases {
		sent := all[c.Corpus]
		if sent == nil {
			sent = requests{}
			all[c.Corpus] = sent
		}
		// The last request's bytes may end a body of the case's.
		alone, followed := letterOf(c.Bytes), letterOf(slices.Concat(c.Bytes, []byte(lastForeign)))
		for d, n := range alone {
			sent[d] += n
		}
		for d, n := range followed.without(alone) {
			sent[d] += n
		}
	}
	return all
}

func letterOf(b []byte) requests {
	found := requests{}
	all, _ := grammar.Messages(b)
	for _, m := range all {
		m.Body = string([]rune(m.Body)) // as in the auditor's report: JSON has U+FFFD for each byte outside UTF-8
		found[describe(m)]++
	}
	return found
}

// sendForeign sends each case, with last behind it, on a connection of its own, one corpus after the other.
func sendForeign(t *testing.T, place *harness.Place, service netip.AddrPort, auditor *harness.Auditor, cases []foreignCase, last string) foreignOutcome {
	t.Helper()
	byCorpus := map[string][]foreignCase{}
	for _, c := range cases {
		byCorpus[c.Corpus] = append(byCorpus[c.Corpus], c)
	}
	outcome := foreignOutcome{byCorpus: map[string]requests{}}
	for corpus, its := range byCorpus {
		audited := sendEach(t, place, service, auditor, its, last)
		got := requests{}
		for _, m := range audited.Requests {
			got[describe(m)]++
		}
		for _, rest := range audited.Rest {
			if _, end := grammar.ReadRequest(rest); end == grammar.Refused {
				got[fmt.Sprintf("%s: %q", noRequest, rest)]++
			}
		}
		outcome.byCorpus[corpus] = got
		outcome.streams = append(outcome.streams, audited.Streams...)
	}
	return outcome
}

func sendEach(t *testing.T, place *harness.Place, service netip.AddrPort, auditor *harness.Auditor, cases []foreignCase, last string) programs.Audited {
	t.Helper()
	var sends []programs.RawSend
	for _, c := range cases {
		sends = append(sends, programs.RawSend{Address: service.String(), Bytes: slices.Concat(c.Bytes, []byte(last))})
	}
	var report programs.RawReport
	first := time.Second / 2
	if last != "" {
		first = patience // how much is forwarded is compared
	}
	place.Program(t, programs.RawProgram, programs.RawSpec{Sends: sends, Patience: first, Quiet: time.Second / 2, Concurrency: 192}).Next(t, &report)
	for i, a := range report.Answers {
		if a.Error != "" {
			t.Fatalf("%s, %q: %s", cases[i].Source, cases[i].Bytes, a.Error)
		}
	}
	return auditor.Take(t)
}

// without returns what r has more of than other.
func (r requests) without(other requests) requests {
	more := requests{}
	for d, n := range r {
		if n > other[d] {
			more[d] = n - other[d]
		}
	}
	return more
}

func (r requests) total() int {
	n := 0
	for _, count := range r {
		n += count
	}
	return n
}

// String lists requests, one a line.
func (r requests) String() string {
	var lines []string
	for _, d := range slices.Sorted(maps.Keys(r)) {
		lines = append(lines, fmt.Sprintf("\n%d x %s", r[d], d))
	}
	return strings.Join(lines, "")
}
