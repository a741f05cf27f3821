// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/xlb-project/xlb/internal/model"
)

// server answers over UDP and TCP at one address of its own.
type server struct {
	address netip.AddrPort
	// answer fills in what a question asks for.
	answer func(q dnsmessage.Question, transport string) (dnsmessage.RCode, []dnsmessage.Resource)
	// truncate answers over UDP with a request to use TCP.
	truncate bool
	udp, tcp atomic.Int32
}

// listenBoth listens over UDP and TCP at one port, which another process may have over TCP: then at another.
func listenBoth(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	var failed error
	for range 20 {
		packets, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { packets.Close() })
		streams, err := net.Listen("tcp", packets.LocalAddr().String())
		if err == nil {
			t.Cleanup(func() { streams.Close() })
			return packets, streams
		}
		failed = err
	}
	t.Fatal(failed)
	return nil, nil
}

func startServer(t *testing.T, s *server) *server {
	t.Helper()
	packets, streams := listenBoth(t)
	s.address = netip.MustParseAddrPort(packets.LocalAddr().String())
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			s.udp.Add(1)
			_, _ = packets.WriteTo(s.reply(buffer[:n], "udp"), from)
		}
	}()
	go func() {
		for {
			conn, err := streams.Accept()
			if err != nil {
				return
			}
			s.tcp.Add(1)
			s.stream(conn)
		}
	}()
	return s
}

func (s *server) stream(conn net.Conn) {
	defer conn.Close()
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return
	}
	question := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, question); err != nil {
		return
	}
	answer := s.reply(question, "tcp")
	_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
}

func (s *server) reply(question []byte, transport string) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if s.truncate && transport == "udp" {
		m.Truncated = true
	} else {
		m.RCode, m.Answers = s.answer(m.Questions[0], transport)
	}
	answer, _ := m.Pack()
	return answer
}

// records makes a server's answer of IPv4 addresses, each with its time to live in seconds.
func records(q dnsmessage.Question, ttl uint32, addrs ...string) []dnsmessage.Resource {
	var all []dnsmessage.Resource
	for _, a := range addrs {
		if q.Type == dnsmessage.TypeA {
			all = append(all, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: ttl},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
			})
		}
	}
	return all
}

func fixed(ttl uint32, addrs ...string) func(dnsmessage.Question, string) (dnsmessage.RCode, []dnsmessage.Resource) {
	return func(q dnsmessage.Question, _ string) (dnsmessage.RCode, []dnsmessage.Resource) {
		return dnsmessage.RCodeSuccess, records(q, ttl, addrs...)
	}
}

func fails(code dnsmessage.RCode) func(dnsmessage.Question, string) (dnsmessage.RCode, []dnsmessage.Resource) {
	return func(dnsmessage.Question, string) (dnsmessage.RCode, []dnsmessage.Resource) { return code, nil }
}

func TestClientTellsOrderAndTimeToLive(t *testing.T) {
	// Sorted for the host, 127.0.0.1 would be the first.
	order := []string{"203.0.113.9", "127.0.0.1", "198.51.100.7"}
	for name, s := range map[string]*server{
		"UDP":               {answer: fixed(7, order...)},
		"truncated, so TCP": {answer: fixed(7, order...), truncate: true},
	} {
		t.Run(name, func(t *testing.T) {
			startServer(t, s)
			c := &Client{Config: model.DNS{Servers: []netip.AddrPort{s.address}, NoSearch: true}}
			got, err := c.Lookup(t.Context(), "ip4", "name.test")
			if err != nil || got.TTL != 7*time.Second || !slices.Equal(got.Addrs, addresses(order...)) {
				t.Errorf("%v, %v", got, err)
			}
			if over := s.tcp.Load(); (over > 0) != s.truncate {
				t.Errorf("%d questions over TCP", over)
			}
			if got, err := c.Lookup(t.Context(), "ip6", "name.test"); err != nil || len(got.Addrs) != 0 || got.TTL != 0 {
				t.Errorf("IPv6: %v, %v", got, err)
			}
		})
	}
}

// An address is believed no longer than the aliases that lead to it.
func TestClientTellsTheTimeToLiveOfAliases(t *testing.T) {
	for name, tt := range map[string]struct {
		aliases []uint32
		address uint32
		want    time.Duration
	}{
		"the alias moves sooner":     {[]uint32{2}, 3600, 2 * time.Second},
		"the address moves sooner":   {[]uint32{3600}, 2, 2 * time.Second},
		"one in a chain moves first": {[]uint32{60, 3, 60}, 3600, 3 * time.Second},
		"an alias of no time":        {[]uint32{0}, 3600, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, &server{answer: func(q dnsmessage.Question, _ string) (dnsmessage.RCode, []dnsmessage.Resource) {
				return dnsmessage.RCodeSuccess, aliased(q, tt.aliases, tt.address)
			}})
			c := &Client{Config: model.DNS{Servers: []netip.AddrPort{s.address}, NoSearch: true}}
			got, err := c.Lookup(t.Context(), "ip4", "name.test")
			if err != nil || got.TTL != tt.want || !slices.Equal(got.Addrs, addresses("127.0.0.9")) {
				t.Errorf("%v, %v, want %v", got, err, tt.want)
			}
			if got, err := c.Lookup(t.Context(), "ip6", "name.test"); err != nil || got.TTL != 0 || len(got.Addrs) != 0 {
				t.Errorf("aliases without an address: %v, %v", got, err)
			}
		})
	}
}

// aliased makes an answer of aliases, each leading to the next and the last to an address.
func aliased(q dnsmessage.Question, aliases []uint32, address uint32) (all []dnsmessage.Resource) {
	name := q.Name
	for i, ttl := range aliases {
		next := dnsmessage.MustNewName(fmt.Sprintf("alias%d.test.", i))
		all = append(all, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: name, Class: q.Class, TTL: ttl},
			Body:   &dnsmessage.CNAMEResource{CNAME: next},
		})
		name = next
	}
	q.Name = name
	return append(all, records(q, address, "127.0.0.9")...)
}

func TestClientAsksOverTCP(t *testing.T) {
	s := startServer(t, &server{answer: fixed(7, "127.0.0.9")})
	c := &Client{Config: model.DNS{Servers: []netip.AddrPort{s.address}, NoSearch: true, TCP: true}}
	got, err := c.Lookup(t.Context(), "ip4", "name.test")
	if err != nil || len(got.Addrs) != 1 || got.TTL != 7*time.Second || s.udp.Load() != 0 {
		t.Errorf("%v, %v, %d questions over UDP", got, err, s.udp.Load())
	}
}

func TestClientAsksTheNextServerAfterAFailure(t *testing.T) {
	bad := startServer(t, &server{answer: fails(dnsmessage.RCodeServerFailure)})
	good := startServer(t, &server{answer: fixed(1, "127.0.0.9")})
	c := &Client{Config: model.DNS{Servers: []netip.AddrPort{bad.address, good.address}, NoSearch: true}}
	got, err := c.Lookup(t.Context(), "ip4", "name.test")
	if err != nil || len(got.Addrs) != 1 || bad.udp.Load() == 0 {
		t.Errorf("%v, %v", got, err)
	}
	c.Config.Servers = []netip.AddrPort{bad.address}
	if got, err := c.Lookup(t.Context(), "ip4", "name.test"); err == nil {
		t.Errorf("no error of a server that fails: %v", got)
	}
}

func TestANameThatDoesNotExistIsAnAnswer(t *testing.T) {
	s := startServer(t, &server{answer: fails(dnsmessage.RCodeNameError)})
	c := &Client{Config: model.DNS{Servers: []netip.AddrPort{s.address}, NoSearch: true}}
	if got, err := c.Lookup(t.Context(), "ip4", "name.test"); err != nil || len(got.Addrs) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestClientReadsTheHostsFile(t *testing.T) {
	got, err := ofFamily(t.Context(), &Client{}, model.FamilyV4, "localhost")
	if err != nil || !slices.Equal(got.Addrs, addresses("127.0.0.1")) || got.TTL != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func addresses(all ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range all {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}
