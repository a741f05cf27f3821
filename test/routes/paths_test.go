// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"bufio"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/test/envoytest"
)

var paths = flag.Int("paths", 300, "paths for each way to change them")

// TestPathsAreChangedAsByEnvoy sends random paths to Envoy, which tells what it has made of them, for each combination of
// the fields that change them.
func TestPathsAreChangedAsByEnvoy(t *testing.T) {
	envoytest.Binary(t)
	var managers []Object
	for _, normalize := range []bool{false, true} {
		for _, merge := range []bool{false, true} {
			for _, slashes := range []string{"KEEP_UNCHANGED", "REJECT_REQUEST", "UNESCAPE_AND_REDIRECT", "UNESCAPE_AND_FORWARD"} {
				managers = append(managers, Object{"normalize_path": normalize, "merge_slashes": merge, "path_with_escaped_slashes_action": slashes})
			}
		}
	}
	p, rules := startMirrors(t, managers)
	w := NewWorld(*seed)
	outcomes := map[rewrite.PathOutcome]int{}
	for range *paths {
		target := "/" + w.PathOf()
		if w.oneIn(4) {
			target += "?" + w.PathOf()
		}
		for i, rule := range rules {
			path, outcome := rule.Apply(target)
			outcomes[outcome]++
			want := p.path(t, i, target)
			if want.outcome == rewrite.PathRedirected {
				want.path = rewrite.OnThisHost(want.path) // where Envoy sends clients to other hosts
			}
			if got := (changed{path, outcome}); outcome == rewrite.PathRefused && want.outcome != outcome || outcome != rewrite.PathRefused && got != want {
				t.Errorf("%v: Envoy makes %q %+v, XLB %+v", managers[i], target, want, got)
			}
		}
	}
	t.Logf("seed %d: %v", *seed, outcomes)
	for _, outcome := range []rewrite.PathOutcome{rewrite.PathTaken, rewrite.PathRefused, rewrite.PathRedirected} {
		if outcomes[outcome] == 0 {
			t.Errorf("no outcome %d: another seed, or more paths", outcome)
		}
	}
}

// changed is what has become of a target.
type changed struct {
	path    string
	outcome rewrite.PathOutcome
}

// startMirrors runs an Envoy that answers with the path that it sees, and returns the rules that XLB reads from the same file.
func startMirrors(t *testing.T, managers []Object) (*peer, []rewrite.PathRule) {
	t.Helper()
	addresses := freeAddresses(t, len(managers))
	tell := func(int) Object {
		return Object{
			"direct_response":         Object{"status": 200},
			"response_headers_to_add": []any{Object{"header": Object{"key": "x-path", "value": "%REQ(:path)%"}}},
		}
	}
	var listeners []any
	for i, manager := range managers {
		table := tableOf(Object{"prefix": ""})
		table.Manager = manager
		listeners = append(listeners, table.Listener(addresses[i].String(), addresses[i], tell))
	}
	static := Object{"listeners": listeners}
	bootstrap, err := json.Marshal(Object{"static_resources": static})
	if err != nil {
		t.Fatal(err)
	}
	e := launchEnvoy(t, bootstrap, addresses)
	for i := range managers {
		e.conns[i] = e.process.Dial(t, e.addresses[i])
	}
	var rules []rewrite.PathRule
	for _, l := range parse(t, static).Listeners {
		rules = append(rules, l.Routes.Path)
	}
	return &peer{addresses: e.addresses, conns: e.conns}, rules
}

// path asks what becomes of a target. A redirect and an answer tell the path, a refusal does not.
func (p *peer) path(t *testing.T, listener int, target string) changed {
	t.Helper()
	c := p.conns[listener]
	if c == nil {
		opened, err := net.Dial("tcp", p.addresses[listener].String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = opened.Close() })
		c = &envoytest.Conn{Conn: opened, Reader: bufio.NewReader(opened)}
		p.conns[listener] = c
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	r := Request{Method: "GET", Host: "a", Target: target}
	if _, err := c.Write(r.Bytes()); err != nil {
		t.Fatalf("%q: %v", target, err)
	}
	response, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		t.Fatalf("%q: %v", target, err)
	}
	_, _ = io.Copy(io.Discard, response.Body) // of no length
	if response.Close {
		_ = c.Close()
		p.conns[listener] = nil
	}
	switch response.StatusCode {
	case http.StatusBadRequest:
		return changed{outcome: rewrite.PathRefused}
	case http.StatusTemporaryRedirect:
		return changed{response.Header.Get("Location"), rewrite.PathRedirected}
	default:
		return changed{path: response.Header.Get("X-Path")}
	}
}
