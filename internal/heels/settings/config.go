// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/heels/kernel"
)

// maxSize bounds a configuration file, in bytes.
const maxSize = 1 << 20

// defaultExID is the experiment's number in the option: "HE". It is not registered with IANA.
const defaultExID = 0x4845

// fastOpenExID is taken by TCP Fast Open (RFC 7413).
const fastOpenExID = 0xf989

// Config is a file of kind heels.
type Config struct {
	// Cgroup is the cgroup v2 directory whose processes connect and listen; empty: all of this machine.
	Cgroup string
	// Interfaces carry the packets to and from balancers, servers and clients.
	Interfaces []string
	Option     Option
	// Client and Server are nil where the role is not played; one is there.
	Client *Client
	Server *Server
}

// Option is the TCP option, as RFC 6994 has it.
type Option struct {
	// Kind is 253 or 254.
	Kind uint8
	ExID uint16
	// KeyFile names the file with the keys of the tag; empty: no tag.
	KeyFile string
}

// Client is the role of a host that connects to VIPs.
type Client struct {
	VIPs []ClientVIP
}

// ClientVIP is a service address.
type ClientVIP struct {
	VIP netip.AddrPort
	// Backends are where its servers are: no answer that names another address is believed.
	Backends []netip.Prefix
}

// Server is the role of a host that balancers send connections to.
type Server struct {
	// Address and Address6 are what SYN-ACKs announce; not valid: the first of the interfaces.
	Address  netip.Addr
	Address6 netip.Addr
	VIPs     []ServerVIP
}

// Confirms reports whether a VIP is in confirm mode.
func (c *Config) Confirms() bool {
	return c.Server != nil && slices.ContainsFunc(c.Server.VIPs, func(v ServerVIP) bool { return v.Confirm })
}

// ServerVIP is a service address that this host is a server of.
type ServerVIP struct {
	VIP netip.AddrPort
	// Port is where its listener is.
	Port uint16
	Mode Mode
	// Confirm leaves the handshake to the balancer, which tracks connections.
	Confirm bool
	// Balancers are where SYNs with the option come from; none with Preserved.
	Balancers []netip.Prefix
	// Clients are whom those SYNs may be from.
	Clients []netip.Prefix
}

// Mode is how a balancer delivers SYNs.
type Mode string

// The modes: inside another packet; with the balancer's address as source; with the client's as source and the server's as destination.
const (
	Encapsulated Mode = "encapsulated"
	Rewritten    Mode = "rewritten"
	Preserved    Mode = "preserved"
)

// Load reads the file at path.
func Load(path string) (*Config, error) {
	data, err := files.Begin(path, maxSize+1)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w; name a readable file of kind heels", err)
	}
	return Parse(path, data)
}

// Parse reads a file of kind heels, YAML or JSON. The error joins all its problems, one line each with name in front; errors.As finds a
// *FieldError in it.
func Parse(name string, data []byte) (*Config, error) {
	r := &reader{}
	if len(data) > maxSize {
		r.add("", "longer than %d bytes", maxSize)
		return nil, r.err(name)
	}
	var tree any
	converted, err := yaml.YAMLToJSONStrict(data)
	if err == nil {
		err = json.Unmarshal(converted, &tree)
	}
	if err != nil {
		text := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ")
		r.add("", "not valid YAML: %s", strings.TrimPrefix(text, "unmarshal errors: "))
		return nil, r.err(name)
	}
	c := r.config(tree)
	if len(r.problems) > 0 {
		return nil, r.err(name)
	}
	return c, nil
}

func (r *reader) config(tree any) *Config {
	c := &Config{}
	f := r.mapping("", tree, "kind", "cgroup", "interfaces", "option", "client", "server")
	if f.require("kind", "kind: heels") && f.text("kind") != "heels" {
		f.add("kind", "want heels")
	}
	c.Cgroup = f.text("cgroup")
	if f.require("interfaces", "the interfaces towards balancers, servers and clients") {
		c.Interfaces = f.texts("interfaces")
		if len(c.Interfaces) == 0 && len(r.problems) == 0 {
			f.add("interfaces", "name one at least")
		}
	}
	c.Option = Option{Kind: 254, ExID: defaultExID}
	if f.has("option") {
		c.Option = r.option(r.mapping("option", f.m["option"], "kind", "exid", "key"))
	}
	if f.has("client") {
		c.Client = r.client(r.mapping("client", f.m["client"], "vips"))
	}
	if f.has("server") {
		c.Server = r.server(r.mapping("server", f.m["server"], "address", "vips"), c.Option.KeyFile != "")
	}
	if f.m != nil && c.Client == nil && c.Server == nil {
		r.add("", "name a role: client, server or both")
	}
	return c
}

func (r *reader) option(f fields) Option {
	o := Option{
		Kind: uint8(f.number("kind", 253, 254, 254)),
		ExID: uint16(f.number("exid", 1, 0xffff, defaultExID)),
	}
	if o.ExID == fastOpenExID {
		f.add("exid", "0xf989 is that of TCP Fast Open: choose another")
	}
	if f.has("key") {
		k := r.mapping(f.at("key"), f.m["key"], "file")
		k.require("file", "the file with the keys")
		o.KeyFile = k.text("file")
	}
	return o
}

func (r *reader) client(f fields) *Client {
	c := &Client{}
	seen := map[netip.AddrPort]bool{}
	f.require("vips", "the service addresses to go around the balancer of")
	f.list("vips", func(path string, v any) {
		e := r.mapping(path, v, "vip", "backends")
		vip := ClientVIP{VIP: r.vip(e, seen)}
		if e.require("backends", "the prefixes that servers are in") {
			vip.Backends = e.prefixes("backends", vip.VIP.Addr())
		}
		c.VIPs = append(c.VIPs, vip)
	})
	r.bound(f, len(c.VIPs), kernel.MaxClientVIPs)
	prefixes := 0
	for _, vip := range c.VIPs {
		prefixes += len(vip.Backends)
	}
	r.boundPrefixes(f, prefixes)
	return c
}

func (r *reader) server(f fields, tagged bool) *Server {
	s := &Server{}
	s.Address, s.Address6 = f.addrs("address")
	seen := map[netip.AddrPort]bool{}
	f.require("vips", "the service addresses that this host is a server of")
	f.list("vips", func(path string, v any) {
		e := r.mapping(path, v, "vip", "port", "mode", "confirm", "balancers", "clients")
		vip := ServerVIP{VIP: r.vip(e, seen)}
		vip.Port = uint16(e.number("port", 1, 0xffff, int64(vip.VIP.Port())))
		r.mode(e, &vip)
		r.confirm(e, &vip)
		if e.require("clients", "the prefixes that clients are in") {
			vip.Clients = e.prefixes("clients", vip.VIP.Addr())
		}
		if vip.VIP.Addr().Is6() {
			r.refuseIPv6(path, &vip, tagged)
		}
		s.VIPs = append(s.VIPs, vip)
	})
	r.bound(f, len(s.VIPs), kernel.MaxServerVIPs)
	prefixes := 0
	for _, vip := range s.VIPs {
		prefixes += len(vip.Balancers) + len(vip.Clients)
	}
	r.boundPrefixes(f, prefixes)
	r.refuseAmbiguous(f.at("vips"), s.VIPs)
	return s
}

// mode reads how SYNs come, and from where.
func (r *reader) mode(e fields, vip *ServerVIP) {
	if !e.require("mode", "encapsulated, rewritten or preserved: how the balancer delivers SYNs") {
		return
	}
	vip.Mode = Mode(e.text("mode"))
	switch vip.Mode {
	case Encapsulated, Rewritten:
		if e.require("balancers", "the prefixes that its SYNs come from, for an encapsulating balancer those of the outer header") {
			like := vip.VIP.Addr()
			if vip.Mode == Encapsulated {
				// One family may be inside the other.
				like = netip.Addr{}
			}
			vip.Balancers = e.prefixes("balancers", like)
			r.refuseAnyBalancer(e.at("balancers"), vip.Balancers)
		}
	case Preserved:
		if e.has("balancers") {
			e.add("balancers", "a balancer that keeps the client's address cannot be seen: remove the field")
		}
	default:
		e.add("mode", "want encapsulated, rewritten or preserved")
	}
}

// refuseAnyBalancer refuses a prefix that holds everybody: what any host wraps, or whomever it names, would be believed.
func (r *reader) refuseAnyBalancer(path string, balancers []netip.Prefix) {
	for _, p := range balancers {
		if p.Bits() == 0 {
			r.add(path, "%s makes every host a balancer, whose packets are unwrapped and whose clients are believed: name the sources of the balancers, for an encapsulating one those of the outer header", p)
		}
	}
}

// confirm reads whether the balancer keeps its view of connections.
func (r *reader) confirm(e fields, vip *ServerVIP) {
	vip.Confirm = e.flag("confirm")
	switch {
	case !vip.Confirm:
	case vip.Mode == Encapsulated:
		e.add("confirm", "a balancer that encapsulates sees no answers anyway, and needs none: remove the field")
	case vip.Mode == Preserved:
		e.add("confirm", "not supported where the client's address is kept: its direct packets look like the balancer's; remove the field, or let the balancer masquerade and use rewritten")
	case vip.VIP.Addr().Is6():
		e.add("confirm", "not supported with IPv6, whose SYNs have no room for the server's mark beside the client's address: remove the field")
	}
}

// vip reads a service address that must be named once.
func (r *reader) vip(e fields, seen map[netip.AddrPort]bool) netip.AddrPort {
	if !e.require("vip", "the service address, as 10.0.0.100:80") {
		return netip.AddrPort{}
	}
	a := e.addrPort("vip")
	if seen[a] {
		e.add("vip", "%s is named twice", a)
	}
	seen[a] = a.IsValid()
	return a
}

// boundPrefixes is about those of one role.
func (r *reader) boundPrefixes(f fields, n int) {
	if n > kernel.MaxPrefixes {
		f.add("vips", "%d prefixes are named, %d is the most: name shorter ones that hold several", n, kernel.MaxPrefixes)
	}
}

func (r *reader) bound(f fields, n, limit int) {
	if n > limit {
		f.add("vips", "%d are named, %d is the most", n, limit)
	}
	if n == 0 && f.has("vips") {
		f.add("vips", "name one at least")
	}
}
