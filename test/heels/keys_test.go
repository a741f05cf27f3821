// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/suite"
)

// Keys as their file has them.
const (
	oldKey = "0001020304050607"
	newKey = "f0e1d2c3b4a59687"
)

// keys makes a file of keys and the configuration that names it; without keys, both are empty.
func keys(t testing.TB, all ...string) (option, file string) {
	t.Helper()
	if len(all) == 0 {
		return "", ""
	}
	file = filepath.Join(t.TempDir(), "key")
	setKeys(t, file, all...)
	return fmt.Sprintf("option: { key: { file: %q } }\n", file), file
}

func setKeys(t testing.TB, file string, all ...string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(strings.Join(all, "\n")+"\n"), 0o600))
}

// agentsWithKeys starts all agents, the client's with a configuration of its own for the option.
func (b *bed) agentsWithKeys(w way, client, servers string) []*agent {
	b.t.Helper()
	b.option = client
	all := []*agent{b.launch(b.Client, b.clientConfig(w))}
	b.option = servers
	for _, h := range b.Servers {
		all = append(all, b.launch(h, b.serverConfig(w, h)))
	}
	for _, a := range all {
		a.await()
	}
	return all
}

// counted adds up what agents have counted under a name with its labels.
func counted(t testing.TB, agents []*agent, name string) (n int64) {
	t.Helper()
	for _, a := range agents {
		for line := range strings.Lines(got2(a.get("/metrics"))(t)) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				var each float64
				got2(fmt.Sscan(rest, &each))(t)
				n += int64(each)
			}
		}
	}
	return n
}

// taggedWays are those in which a SYN can have a tag.
func taggedWays() []way {
	return []way{masquerading, encapsulating, preserving, encapsulating6, preserving6}
}

// Servers leave SYNs with a wrong tag to the balancer, and say why.
func TestAWrongTagLeavesTheBalancersPath(t *testing.T) {
	for _, tt := range []struct {
		name            string
		client, servers []string
	}{
		{"another key", []string{oldKey}, []string{newKey}},
		{"no key at the server", []string{oldKey}, nil},
		{"no key at the client", nil, []string{newKey}},
	} {
		if testing.Short() && tt.servers == nil {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			each(t, append(taggedWays(), confirmingPort), func(t *testing.T, b *bed, w way) {
				b.balance(w)
				b.serve(w.serverPort())
				client, _ := keys(t, tt.client...)
				servers, _ := keys(t, tt.servers...)
				agents := b.agentsWithKeys(w, client, servers)
				short := few(w.target(), 20)
				p := b.seen(b.LB, func() { complete(t, short, b.ask(short)) })
				if p.In < 20*6 {
					t.Errorf("%d packets came to the balancer, want whole connections", p.In)
				}
				// A server that gets more than eight within a second looks at no tags of the client any more.
				wrong, guessed := counted(t, agents, `xlb_heels_declined_total{reason="tag"}`), counted(t, agents, `xlb_heels_declined_total{reason="guessed"}`)
				if wrong+guessed != 20 || wrong == 0 {
					t.Errorf("SYNs declined: %d for their tag, %d as guesses, want 20", wrong, guessed)
				}
				for name, want := range map[string]int64{
					`xlb_heels_verdicts_total{verdict="confirm_taken"}`: 0,
					`xlb_heels_verdicts_total{verdict="committed"}`:     0,
					`xlb_heels_verdicts_total{verdict="answer_none"}`:   20,
					`xlb_heels_verdicts_total{verdict="direct"}`:        0,
					`xlb_heels_verdicts_total{verdict="offered"}`:       20,
					`xlb_heels_verdicts_total{verdict="answer_tag"}`:    0,
				} {
					if n := counted(t, agents, name); n != want {
						t.Errorf("%s is %d, want %d", name, n, want)
					}
				}
				b.allEnd(0)
				b.unhurt()
			})
		})
	}
}

// A server that signs with a key that the client does not have: the client believes no such answer, and backs off.
func TestAWrongTagOfAnAnswer(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, []way{encapsulating, masquerading}, func(t *testing.T, b *bed, w way) {
		b.balance(w)
		b.serve(w.serverPort())
		client, _ := keys(t, newKey)
		servers, _ := keys(t, oldKey, newKey)
		agents := b.agentsWithKeys(w, client, servers)
		o := few(w.target(), 20)
		o.Concurrency = 1
		r := b.ask(o)
		allowed := int64(backOffFailures)
		if w.rewriting == nil {
			allowed = 0
		}
		if r.Errors > allowed || r.Connections+r.Errors != 20 {
			t.Errorf("%d of 20 connections failed, want at most %d; errors %v", r.Errors, allowed, r.Kinds)
		}
		if n := counted(t, agents, `xlb_heels_verdicts_total{verdict="answer_tag"}`); n == 0 || n > backOffFailures {
			t.Errorf("%d answers had a wrong tag, want 1 to %d", n, backOffFailures)
		}
		if n := counted(t, agents, `xlb_heels_verdicts_total{verdict="direct"}`); n != 0 {
			t.Errorf("%d connections went directly, want none", n)
		}
	})
}

// reload has an agent read its configuration and keys again, and waits until it has.
func (a *agent) reload() {
	t := a.b.t
	t.Helper()
	const done = "configuration reloaded"
	before := strings.Count(a.p.Quote(), done)
	must(t, syscall.Kill(a.p.PID(), syscall.SIGHUP))
	harness.Eventually(t, patience, "the agent on "+a.host.Name+" has reloaded", func() bool { return strings.Count(a.p.Quote(), done) > before })
}

// The three steps of an exchange, host by host, each after a while under load: nobody declines, and nothing breaks.
func TestKeysAreExchangedUnderLoad(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, taggedWays(), func(t *testing.T, b *bed, w way) {
		b.balance(w)
		b.serve(w.serverPort())
		// A file for each host, as hosts are not told at once.
		var agents []*agent
		files := map[*agent]string{}
		for _, h := range b.ends() {
			option, file := keys(t, oldKey)
			b.option = option
			config := b.clientConfig(w)
			if h != b.Client {
				config = b.serverConfig(w, h)
			}
			a := b.agent(h, config)
			agents, files[a] = append(agents, a), file
		}
		loads := map[string]load{"long": b.start(stream(w.target(), 12, endless)), "short": b.start(churn(w.target()))}
		b.underWay(12)
		for _, step := range [][]string{{oldKey, newKey}, {newKey, oldKey}, {newKey}} {
			for _, a := range agents {
				setKeys(t, files[a], step...)
				a.reload()
				b.arrive(20)
			}
		}
		for name, l := range loads {
			if r := l.finish(); r.Errors != 0 || r.Requests == 0 {
				t.Errorf("%s connections: %d requests, errors %v", name, r.Requests, r.Kinds)
			}
		}
		for _, name := range []string{`xlb_heels_declined_total{reason="tag"}`, `xlb_heels_verdicts_total{verdict="answer_tag"}`} {
			if n := counted(t, agents, name); n != 0 {
				t.Errorf("%s is %d, want 0", name, n)
			}
		}
		b.unhurt()
		short := few(w.target(), 20)
		b.onlyHandshakes(short.Connections, func() { complete(t, short, b.ask(short)) })
	})
}
