// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
)

// Answer is what is known about a name in one family of addresses.
type Answer struct {
	// Addrs in the order of the answer; none if the name has none.
	Addrs []netip.Addr
	// TTL is the shortest time to live of the addresses; 0 is unknown, too.
	TTL time.Duration
}

// Lookup finds the addresses of a name, in the network "ip4" or "ip6". A name without addresses is no error.
type Lookup interface {
	Lookup(ctx context.Context, network, host string) (Answer, error)
}

// Client is a Lookup by Go's resolver, which knows the host's configuration (/etc/resolv.conf, /etc/hosts, /etc/nsswitch.conf). That one sorts
// addresses and does not tell their time to live, so Client reads the answers, too.
type Client struct {
	// Config says whom to ask and how; its times are not looked at.
	Config model.DNS
}

// Lookup asks the servers of the configuration, each when the one before it has failed, or those of the host.
func (c *Client) Lookup(ctx context.Context, network, host string) (Answer, error) {
	if c.Config.NoSearch && !strings.HasSuffix(host, ".") {
		host += "."
	}
	if len(c.Config.Servers) == 0 {
		return c.ask(ctx, network, host, "")
	}
	patience := limits.DNS.Whole / time.Duration(len(c.Config.Servers))
	var failures []error
	for _, s := range c.Config.Servers {
		once, cancel := context.WithTimeout(ctx, patience)
		answer, err := c.ask(once, network, host, s.String())
		cancel()
		if err == nil {
			return answer, nil
		}
		failures = append(failures, err)
	}
	return Answer{}, errors.Join(failures...)
}

// ask looks a name up with one server in place of those of the host, unless it is empty.
func (c *Client) ask(ctx context.Context, network, host, server string) (Answer, error) {
	seen := &transcript{}
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, transport, address string) (net.Conn, error) {
		if server != "" {
			address = server
		}
		if c.Config.TCP {
			transport = "tcp"
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, transport, address)
		if err != nil {
			return nil, err
		}
		return seen.listen(conn), nil
	}}
	addrs, err := resolver.LookupNetIP(ctx, network, host)
	if err = failure(err); err != nil {
		return Answer{}, err
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return seen.arrange(addrs), nil
}

// failure is nil where the answer is that there is no such name, or no address of the family.
func failure(err error) error {
	var failed *net.DNSError
	if errors.As(err, &failed) && failed.IsNotFound {
		return nil
	}
	// The name is in /etc/hosts with addresses of the other family.
	var unsuitable *net.AddrError
	if errors.As(err, &unsuitable) {
		return nil
	}
	return err
}

// ofFamily looks a name up as a family wants it. Where one kind of address is preferred, the other counts as well if there is no answer
// about the first; where there is one, it does not wait for the other.
func ofFamily(ctx context.Context, l Lookup, family model.Family, host string) (Answer, error) {
	switch family {
	case model.FamilyV4:
		return l.Lookup(ctx, "ip4", host)
	case model.FamilyV6:
		return l.Lookup(ctx, "ip6", host)
	case model.FamilyAll:
		return all(ctx, l, host)
	case model.FamilyV4Preferred:
		return preferred(ctx, l, host, "ip4", "ip6")
	}
	return preferred(ctx, l, host, "ip6", "ip4")
}

// preferred returns the addresses of the first network or, if there are none, of the second.
func preferred(ctx context.Context, l Lookup, host, first, second string) (Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	other := begin(ctx, l, second, host)
	answer, err := l.Lookup(ctx, first, host)
	if len(answer.Addrs) > 0 {
		return answer, nil
	}
	o := <-other
	if len(o.Addrs) > 0 {
		return o.Answer, nil
	}
	return Answer{}, errors.Join(err, o.err)
}

// all returns the addresses of both networks.
func all(ctx context.Context, l Lookup, host string) (Answer, error) {
	other := begin(ctx, l, "ip4", host)
	v6, err := l.Lookup(ctx, "ip6", host)
	v4 := <-other
	switch {
	case len(v4.Addrs) == 0 && len(v6.Addrs) == 0:
		return Answer{}, errors.Join(err, v4.err)
	case len(v4.Addrs) == 0:
		return v6, nil
	case len(v6.Addrs) == 0:
		return v4.Answer, nil
	}
	return Answer{Addrs: slices.Concat(v4.Addrs, v6.Addrs), TTL: min(v4.TTL, v6.TTL)}, nil
}

// answered is what a look-up has come to.
type answered struct {
	Answer
	err error
}

// begin looks a name up while its caller does something else.
func begin(ctx context.Context, l Lookup, network, host string) <-chan answered {
	done := make(chan answered, 1)
	go func() {
		answer, err := l.Lookup(ctx, network, host)
		done <- answered{answer, err}
	}()
	return done
}
