// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/heels/stand"
	"github.com/xlb-project/xlb/test/suite"
)

// verb runs a verb of "xlb heels" on a host, as one of its applications would, and returns what it prints.
func (a *agent) verb(args ...string) (string, error) {
	a.b.t.Helper()
	p, err := a.host.Start("verb", os.Getenv("XLB_BIN"), append([]string{"heels"}, args...)...)
	must(a.b.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return p.Wait(ctx)
}

func TestVerbsShowIPv6(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, []way{masquerading6, encapsulating6}, func(t *testing.T, b *bed, w way) {
		b.balance(w)
		b.serve(w.serverPort())
		agents := b.agents(w)
		client := agents[b.Client]
		if out := got2(client.verb("check", "--config", client.config))(t); !strings.Contains(out, "IPv6 eth0") {
			t.Errorf("check does not look for IPv6:\n%s", out)
		}
		var probe struct {
			State, Server string
			Confirmed     bool
		}
		out := got2(client.verb("probe", w.target().String(), "--pin", client.pins(), "-o", "json"))(t)
		must(t, json.Unmarshal([]byte(out), &probe))
		if probe.State != "direct" || !probe.Confirmed || !strings.HasPrefix(probe.Server, "[fd00:0:0:2::") {
			t.Errorf("probe tells\n%s", out)
		}
		l := b.start(stream(w.target(), 12, 3*time.Second))
		b.underWay(12)
		for _, h := range []*stand.Host{b.Client, b.Servers[0]} {
			a, own := agents[h], fmt.Sprintf("[%s]:80", b.Servers[0].Address6())
			for what, want := range map[string]string{
				"/heels/status": `"` + w.target().String() + `"`,
				"/heels/conns":  `"server":"` + own + `"`,
				"/metrics":      fmt.Sprintf(`server="%s",vip="%s"} `, own, w.target()),
			} {
				if text := got2(a.get(what))(t); !strings.Contains(text, want) {
					t.Errorf("%s of %s does not show %s:\n%s", what, h.Name, want, text)
				}
			}
			conns := got2(a.verb("conns", "--pin", a.pins()))(t)
			if !strings.Contains(conns, "["+b.Client.Address6().String()+"]:") || !strings.Contains(conns, own) {
				t.Errorf("conns of %s:\n%s", h.Name, conns)
			}
		}
		if r := l.report(); r.Errors != 0 {
			t.Errorf("errors %v", r.Kinds)
		}
		for _, h := range b.Servers {
			got2(agents[h].verb("drain", "server", "--pin", agents[h].pins()))(t)
		}
		short := few(w.target(), 20)
		p := b.seen(b.LB, func() { complete(t, short, b.ask(short)) })
		if p.In < 20*6 {
			t.Errorf("%d packets came to the balancer while servers drain, want whole connections", p.In)
		}
	})
}

// With a key, SYNs over IPv6 have a tag in the place of the client's address.
func TestTaggedSYNsOverIPv6(t *testing.T) {
	suite.Long(t, suite.Slow)
	each(t, []way{encapsulating6, preserving6}, func(t *testing.T, b *bed, w way) {
		key := filepath.Join(t.TempDir(), "key")
		must(t, os.WriteFile(key, []byte("0001020304050607\n"), 0o600))
		b.option = fmt.Sprintf("option: { key: { file: %q } }\n", key)
		b.balance(w)
		b.serve(w.serverPort())
		b.agents(w)
		short := few(w.target(), 40)
		b.onlyHandshakes(short.Connections, func() { complete(t, short, b.ask(short)) })
	})
}
