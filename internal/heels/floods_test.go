// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// flood is one kind of SYNs that somebody sends without number, each for another client's port.
type flood struct {
	name string
	// server is the role's configuration, cookies the sysctl, sizes those of maps.
	server  string
	cookies string
	sizes   map[string]uint32
	// key: connections are tagged, and those of the flood wrongly.
	key bool
	// verdict is what SYNs of the flood come to, fallback that genuine connections may take the balancer's path for it.
	verdict  string
	fallback bool
}

var floods = []flood{
	{name: "SYNs that are kept", server: serverText("rewritten", "80"), cookies: "0", verdict: "committed"},
	{name: "SYN cookies", server: serverText("rewritten", "80"), cookies: "2", sizes: map[string]uint32{"heels_cookies": 64}, verdict: "answered_cookie"},
	{name: "confirm", server: confirmText("80"), cookies: "0", sizes: map[string]uint32{"heels_confirm_other": 64}, verdict: "confirm_answered", fallback: true},
	{name: "confirm under SYN cookies", server: confirmText("80"), cookies: "2", verdict: "confirm_cookie", fallback: true},
	{name: "wrong tags", server: serverText("rewritten", "80"), cookies: "0", key: true, verdict: "decline_guessed", fallback: true},
}

const floodSYNs = 1500

// A flood that pushes everything out of maps that are far smaller than it ends no connection, old or new.
func TestFloodsLoseNoConnection(t *testing.T) {
	for _, f := range floods {
		t.Run(f.name, func(t *testing.T) {
			mapSizes = f.sizes
			defer func() { mapSizes = nil }()
			r := newRig(t, testServer1)
			r.nat("80", testServer1+":80", true)
			r.servers[0].Sysctl("ipv4/tcp_syncookies", f.cookies)
			r.servers[0].Sysctl("ipv4/tcp_max_syn_backlog", "4096")
			option := ""
			if f.key {
				file := filepath.Join(t.TempDir(), "key")
				if err := os.WriteFile(file, []byte("0001020304050607\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				option = "option: { key: { file: " + file + " } }\n"
			}
			server := r.servers[0].agent(option + f.server)
			r.servers[0].listen(":80", answerWhom)
			client := r.client.agent(option + clientText)
			old := make([]net.Conn, 10)
			for i := range old {
				if old[i] = r.asked(t); old[i] == nil {
					t.Fatal("no connection before the flood")
				}
			}
			before := r.direct(t, client)
			done := make(chan struct{})
			go func() {
				defer close(done)
				r.flood(&f)
			}()
			begun, lost := 0, 0
			for is := true; is; begun++ {
				if c := r.asked(t); c == nil {
					lost++
				} else {
					echo(t, c, 1<<12)
				}
				select {
				case <-done:
					is = false
				default:
				}
			}
			for _, c := range old {
				echo(t, c, 1<<16)
			}
			direct := r.direct(t, client) - before
			t.Logf("%d SYNs, %d of them %s; of %d connections meanwhile %d were lost, %d went around the balancer; %v", floodSYNs, server.count(t, f.verdict), f.verdict, begun, lost, direct, dump(t, server))
			if lost != 0 || !f.fallback && direct != uint64(begun) {
				t.Errorf("of %d connections %d were lost, %d went around the balancer", begun, lost, direct)
			}
			// Of tags some are tried in each second.
			if n := server.count(t, f.verdict) + server.count(t, "decline_tag"); n < floodSYNs/2 {
				t.Errorf("%d of %d SYNs came to %s: the test shows little; %v", n, floodSYNs, f.verdict, dump(t, server))
			}
		})
	}
}

// direct is how many connections have gone around the balancer.
func (r *rig) direct(t *testing.T, client *Agent) uint64 {
	return client.count(t, "direct") + client.count(t, "confirm_switched") - client.count(t, "confirm_returned")
}

// asked is a connection that has got an answer; nil: none.
func (r *rig) asked(t *testing.T) net.Conn {
	c, err := r.client.dial(testVIP + ":80")
	if err != nil {
		t.Log(err)
		return nil
	}
	t.Cleanup(func() { c.Close() })
	_, err = c.Write([]byte("?\n"))
	if err == nil {
		_, err = c.Read(make([]byte, 64))
	}
	if err != nil {
		t.Log(err)
		return nil
	}
	return c
}

// flood sends SYNs as a balancer delivers them.
func (r *rig) flood(f *flood) {
	for i := range floodSYNs {
		port := 1024 + i
		syn := fixture{client: fmt.Sprintf("10.77.3.77:%d", port), from: fmt.Sprintf("%s:%d", testBalancer, port), to: testServer1 + ":80", vip: testVIP + ":80", flags: 2, ours: true}
		if f.key {
			syn.key = &settings.Key{1, 2}
		}
		r.lb.post(syn.packet()[14:])
	}
}

// What is lost under SYN cookies, where the SYN is forgotten, is a handshake whose end comes after thousands of others have pushed out what was remembered of it; and
// nothing else is.
func TestAFloodOfCookiesLosesHandshakesThatItPushesOut(t *testing.T) {
	const held, size = 20, 64
	mapSizes = map[string]uint32{"heels_cookies": size}
	defer func() { mapSizes = nil }()
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	r.servers[0].Sysctl("ipv4/tcp_syncookies", "2")
	server := r.servers[0].agent(serverText("rewritten", "80"))
	r.servers[0].listen(":80", answerWhom)
	client := r.client.agent(clientText)
	r.client.Run("table ip d {\n chain o { type filter hook output priority 0; ip daddr "+testVIP+" tcp flags & (syn | ack) == ack drop; }\n}\n", "nft", "-f", "-")
	conns := make([]net.Conn, held)
	for i := range conns {
		c, err := r.client.dial(testVIP + ":80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
	}
	r.flood(&flood{})
	eventually(t, "the flood is over", func() bool { return server.count(t, "answered_cookie") >= floodSYNs })
	kept := 0
	for _, c := range conns {
		ends := kernel.Tuple{Local: kernel.EndOf(netip.MustParseAddrPort(testServer1 + ":80")), Remote: kernel.EndOf(netip.MustParseAddrPort(c.LocalAddr().String()))}
		if server.maps.HeelsCookies.Lookup(ends, &kernel.Cookie{}) == nil {
			kept++
		}
	}
	r.client.Run("", "nft", "delete", "table", "ip", "d")
	if kept == held {
		t.Errorf("all of %d handshakes were kept: the flood was none", held)
	}
	var served atomic.Int64
	for _, c := range conns {
		go func() {
			_, err := c.Write([]byte("?\n"))
			if err == nil {
				_, err = c.Read(make([]byte, 64))
			}
			if err == nil {
				served.Add(1)
			}
		}()
	}
	eventually(t, fmt.Sprintf("of %d handshakes %d were kept: these are served", held, kept), func() bool { return served.Load() >= int64(kept) })
	t.Logf("of %d handshakes that were held back %d were pushed out, and at most %d lost", held, held-kept, int64(held)-served.Load())
	// The client backs off, as after any failure.
	c := r.asked(t)
	if c == nil {
		t.Fatal("no connection after the flood")
	}
	echo(t, c, 1<<16)
	eventually(t, "the client has counted what failed", func() bool { return client.count(t, "direct_failed") == uint64(int64(held)-served.Load()) })
}
