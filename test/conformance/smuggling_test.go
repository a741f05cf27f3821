// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/fuzz/grammar"
)

// laxer are the cases of which XLB forwards more than Envoy, and why nobody can make something else of that.
var laxer = map[string]string{
	`TE: long`:                             "TE is not passed on, but for trailers",
	`method: "!#$%&'*+-.^_` + "`|~\"":      "a method is any token (RFC 9110, section 9.1), and framed as others are",
	`target: "http://b-NNN.test?case-NNN"`: "an empty path is `/` (RFC 9112, section 3.2.1)",
	`upgrade: websocket with a body`:       "framed as others are; the endpoint's connection is not used again unless it switches",
}

// forwarded is what came of the corpus: by case, the requests that the endpoint had.
type forwarded struct {
	cases [][]string
	// answers are the beginnings of what each client got.
	answers []string
	// streams are the bytes of the connections to the endpoint.
	streams [][]byte
}

// TestNothingIsForwardedButWhatWasSent sends requests on which readers of HTTP disagree. The endpoint gets, in their order, requests that the client
// has sent by the letter of RFC 9112, and none that Envoy does not forward.
func TestNothingIsForwardedButWhatWasSent(t *testing.T) {
	harness.OnlyXLB(t, "it stands beside XLB")
	corpus := grammar.Corpus()
	var byMode []forwarded
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.SameHost(t)
		auditor, service := place.Auditor(t), harness.Service()
		b := harness.Start(t, mode, smugglingConfig(service, auditor.Address), place)
		f := sendCorpus(t, place, service, auditor, together, patience)
		for i, c := range corpus {
			checkForwarded(t, c, i, f.cases[i])
		}
		// Only a request that comes alone is one for the fast path.
		single := sendCorpus(t, place, service, auditor, alone, time.Second/2)
		for i, c := range corpus {
			checkForwarded(t, c, i, single.cases[i])
		}
		if moved := b.Samples(t, "xlb_verdicts_total", "verdict")["request_leased"]; mode.Fast && moved < 20 {
			t.Errorf("the fast path has moved %v requests: this shows nothing about it", moved)
		}
		serversAgree(t, place, slices.Concat(f.streams, single.streams))
		byMode = append(byMode, f)
	})
	if t.Failed() || testing.Short() || !harness.FastPath(t) {
		return
	}
	var envoy forwarded
	t.Run("Envoy", func(t *testing.T) {
		place := harness.SameHost(t)
		auditor, service := place.Auditor(t), harness.Service()
		harness.StartEnvoy(t, smugglingConfig(service, auditor.Address), place)
		envoy = sendCorpus(t, place, service, auditor, together, patience)
	})
	if envoy.cases == nil {
		return
	}
	for _, f := range byMode {
		for i, c := range corpus {
			more := len(f.cases[i]) > len(envoy.cases[i]) || !slices.Equal(f.cases[i], envoy.cases[i][:len(f.cases[i])])
			if reason := laxer[c.Name]; more && reason == "" {
				t.Errorf("%s: XLB forwards %q, Envoy %q and answers %q", c.Name, f.cases[i], envoy.cases[i], envoy.answers[i])
			} else if !more && reason != "" {
				t.Errorf("%s: XLB forwards no more than Envoy: take it out of the list", c.Name)
			}
		}
	}
	compareSmuggling(t, byMode[0], envoy)
}

func smugglingConfig(service, endpoint netip.AddrPort) harness.Config {
	config := harness.OneCluster(service, endpoint)
	config.Listeners[0].Upgrades = []harness.Upgrade{{Type: "websocket"}}
	return config
}

// caseNumber is what grammar.Case.Numbered leaves in a request.
var caseNumber = regexp.MustCompile(`-(\d\d\d)`)

// together is a case with all that is in it, and behind that a request that ends the connection.
func together(c grammar.Case, n int) string {
	c.Bytes += "GET " + lastPath + grammar.Mark + " HTTP/1.1\r\nHost: last-" + grammar.Mark + ".test\r\nConnection: close\r\n\r\n"
	return c.Numbered(n)
}

const lastPath = "/last-"

// alone is a case without what is hidden behind it.
func alone(c grammar.Case, n int) string {
	c.Bytes = strings.TrimSuffix(c.Bytes, grammar.Hidden)
	return c.Numbered(n)
}

// sendCorpus sends every case, in the form that is asked for, on a connection of its own.
func sendCorpus(t *testing.T, place *harness.Place, service netip.AddrPort, auditor *harness.Auditor, form func(c grammar.Case, n int) string, quiet time.Duration) forwarded {
	t.Helper()
	corpus := grammar.Corpus()
	var sends []programs.RawSend
	for i, c := range corpus {
		sends = append(sends, programs.RawSend{Address: service.String(), Bytes: []byte(form(c, i))})
	}
	var report programs.RawReport
	place.Program(t, programs.RawProgram, programs.RawSpec{Sends: sends, Quiet: quiet, Concurrency: 128}).Next(t, &report)
	for i, a := range report.Answers {
		if a.Error != "" {
			t.Fatalf("%s: %s", corpus[i].Name, a.Error)
		}
	}
	audited := auditor.Take(t)
	f := forwarded{cases: make([][]string, len(corpus)), streams: audited.Streams}
	for _, a := range report.Answers {
		line, _, _ := strings.Cut(string(a.Bytes), "\r\n")
		f.answers = append(f.answers, line)
	}
	for _, m := range audited.Requests {
		number := caseNumber.FindStringSubmatch(m.Target + m.Host + m.Body)
		if number == nil {
			t.Errorf("a request of no case: %s", describe(m))
			continue
		}
		n, _ := strconv.Atoi(number[1]) // three digits
		if !strings.HasPrefix(m.Path, lastPath) {
			f.cases[n] = append(f.cases[n], describe(m))
		}
	}
	for _, rest := range audited.Rest {
		if _, outcome := grammar.ReadRequest(rest); outcome != grammar.Refused {
			continue // cut off
		}
		number := caseNumber.FindSubmatch(rest)
		if number == nil {
			t.Errorf("bytes of no case: %q", rest)
			continue
		}
		n, _ := strconv.Atoi(string(number[1])) // three digits
		f.cases[n] = slices.Insert(f.cases[n], 0, fmt.Sprintf("%s: %q", noRequest, rest))
	}
	return f
}

// noRequest begins what is said of bytes that the endpoint refuses.
const noRequest = "no request"

// describe says what a request asks of whom.
func describe(m grammar.Message) string {
	s := fmt.Sprintf("%s %s of %s", m.Method, m.Path, m.Host)
	if m.Body != "" {
		s += fmt.Sprintf(", with %q", m.Body)
	}
	return s
}

// checkForwarded requires that all that came is, in its order, among what was sent.
func checkForwarded(t *testing.T, c grammar.Case, n int, got []string) {
	t.Helper()
	var sent []string
	all, _ := grammar.Messages([]byte(c.Numbered(n)))
	for _, m := range all {
		sent = append(sent, describe(m))
	}
	left := sent
	for _, g := range got {
		at := slices.IndexFunc(left, func(s string) bool {
			// Without a host, XLB names the endpoint.
			return s == g || strings.HasSuffix(s, " of ") && strings.HasPrefix(g, s)
		})
		if at < 0 {
			t.Errorf("%s: the endpoint got %q; sent were %q", c.Name, got, sent)
			return
		}
		left = left[at+1:]
	}
}

const smugglingPage = "../../docs/smuggling.md"

const smugglingPreamble = `# Request smuggling

<!-- Written by: go test ./test/conformance -run Forwarded -update -->

Where two readers of HTTP disagree about where a request ends, or whom it is for, a client can hide one request in another: the balancer lets
pass what it would have refused, or the next client gets the answer. XLB has two readers, the kernel's and the daemon's. Tests draw requests and
responses that are odd in many ways and hold the two to each other, to Go's ` + "`net/http`" + ` and to a third reader that goes by the letter of RFC 9112
(` + "`make fuzz-check`" + `); what the daemon sends on is read again by the latter two.

Beyond that, a fixed corpus of %d odd requests is sent through XLB and through Envoy with its defaults, each with a second request behind or inside it. With
XLB the endpoint gets, in their order, requests that the client has sent by the letter, and nothing else; nginx, Node and Python's
` + "`http.server`" + `, given the bytes that XLB has sent on, find the same requests in them. %d cases have the same outcome with Envoy.
Requests from the tests of other readers, and mutants of them: [corpora](internals/corpora.md).

The following have not. *1* is the first request, *2* the one behind or inside it.

| case | XLB forwards | Envoy forwards | |
|---|---|---|---|
`

// compareSmuggling compares the page with what was seen, or writes it.
func compareSmuggling(t *testing.T, xlb, envoy forwarded) {
	t.Helper()
	var rows strings.Builder
	same := 0
	for i, c := range grammar.Corpus() {
		if slices.Equal(xlb.cases[i], envoy.cases[i]) {
			same++
			continue
		}
		name := "`" + strings.ReplaceAll(strings.ReplaceAll(c.Name, "-"+grammar.Mark, ""), "|", `\|`) + "`"
		rows.WriteString(row([]string{name, brief(xlb.cases[i]), brief(envoy.cases[i]), laxer[c.Name]}))
	}
	got := fmt.Sprintf(smugglingPreamble, len(grammar.Corpus()), same) + rows.String()
	if *update {
		if err := os.WriteFile(smugglingPage, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(smugglingPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("docs/smuggling.md is out of date (-page +seen); if that is meant, run: go test ./test/conformance -run Forwarded -update\n%s", diff)
	}
}

// brief says which requests were forwarded, and what is odd about them.
func brief(all []string) string {
	var words []string
	for _, s := range all {
		which := "1"
		if strings.HasPrefix(s, noRequest) {
			which = "1 (malformed)"
		} else if strings.Contains(s, " /hidden-") {
			which = "2"
		}
		words = append(words, which)
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}
