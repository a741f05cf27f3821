// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// hostIndex finds virtual hosts by domain: wildcards without their "*".
type hostIndex struct {
	exact, suffix, prefix map[string]uint32
	any                   uint32
}

// addHosts fills the host trie.
//
// The kernel looks a host up backward, with a 0 byte behind it, then forward, then
// takes the default. A wildcard's entry also matches the host that equals its text,
// for which Envoy wants one character more. Each such host therefore gets an exact
// entry of its own, with the virtual host that Envoy would choose. If that is none,
// the entry names a virtual host without routes: 0 would mean "look forward", where
// a prefix wildcard of the same text would be found.
func (b *tableBuilder) addHosts(rt *model.RouteTable) {
	for _, vh := range rt.VirtualHosts {
		b.table.VHosts = append(b.table.VHosts, vh.Name)
	}
	index := b.indexHosts(rt)
	b.table.Default = index.any
	for domain, vhost := range index.exact {
		b.addHost(maps.HostBackward, tables.Reversed(domain)+tables.Terminator, vhost)
	}
	for text, vhost := range index.suffix {
		b.addHost(maps.HostBackward, tables.Reversed(text), vhost)
	}
	for text, vhost := range index.prefix {
		b.addHost(maps.HostForward, text, vhost)
	}
	b.addBareTexts(index)
	b.table.Flags |= hostFlags(rt)
	slices.SortFunc(b.table.Hosts, func(x, y tables.Host) int {
		return cmp.Or(cmp.Compare(x.Direction, y.Direction), strings.Compare(x.Key, y.Key))
	})
	if len(b.table.Hosts) > 0 {
		b.table.Flags |= maps.TableHosts
	}
	if len(index.prefix) > 0 {
		b.table.Flags |= maps.TableHostPrefixes
	}
}

// hostFlags say how hosts are looked up, and which the slow path must have because it changes them: whatever port a host has, for
// the kernel does not compare it with the one to cut off.
func hostFlags(rt *model.RouteTable) (flags maps.TableFlags) {
	if rt.IgnorePort {
		flags |= maps.TableIgnoresPorts
	}
	if rt.Host.AnyPort || rt.Host.Port != 0 {
		flags |= maps.TableCutsPorts
	}
	if rt.Host.TrailingDot {
		flags |= maps.TableCutsDots
	}
	return flags
}

// addBareTexts adds the hosts that equal a wildcard's text.
func (b *tableBuilder) addBareTexts(index *hostIndex) {
	bare := map[string]bool{}
	for text := range index.suffix {
		bare[text] = true
	}
	for text := range index.prefix {
		bare[text] = true
	}
	var nobody uint32
	for text := range bare {
		if _, taken := index.exact[text]; taken {
			continue
		}
		vhost := index.find(text)
		if vhost == 0 && nobody == 0 {
			b.table.VHosts = append(b.table.VHosts, "")
			nobody = uint32(len(b.table.VHosts))
		}
		if vhost == 0 {
			vhost = nobody
		}
		b.addHost(maps.HostBackward, tables.Reversed(text)+tables.Terminator, vhost)
	}
}

func (b *tableBuilder) addHost(d maps.HostDirection, key string, vhost uint32) {
	b.table.Hosts = append(b.table.Hosts, tables.Host{Direction: d, Key: key, VHost: vhost})
}

// indexHosts leaves out what no host on the fast path can match: a host longer
// than MaxHost is handed over, and one with a 0 byte as well.
func (b *tableBuilder) indexHosts(rt *model.RouteTable) *hostIndex {
	index := &hostIndex{exact: map[string]uint32{}, suffix: map[string]uint32{}, prefix: map[string]uint32{}}
	for i, vh := range rt.VirtualHosts {
		vhost := uint32(i) + 1
		for _, d := range vh.Domains {
			if strings.Contains(d, tables.Terminator) {
				continue
			}
			// For a wildcard, too, d is as long as the shortest host it matches.
			if len(d) > int(maps.MaxHost) {
				b.notes = append(b.notes, note.Note{
					Where:  fmt.Sprintf("%s: virtual host %q", b.where, vh.Name),
					Reason: fmt.Sprintf("domain of %d bytes, more than %d; the slow path serves the hosts it matches", len(d), maps.MaxHost),
				})
				continue
			}
			index.add(d, vhost)
		}
	}
	return index
}

func (x *hostIndex) add(domain string, vhost uint32) {
	if domain == "*" {
		if x.any == 0 {
			x.any = vhost
		}
		return
	}
	into, text := x.exact, domain
	if t, wild := strings.CutPrefix(domain, "*"); wild {
		into, text = x.suffix, t
	} else if t, wild := strings.CutSuffix(domain, "*"); wild {
		into, text = x.prefix, t
	}
	if _, taken := into[text]; !taken {
		into[text] = vhost
	}
}

// find chooses by Envoy's precedence: exact, longest suffix wildcard, longest
// prefix wildcard, "*". It is model.RouteTable.VirtualHost in time that does not
// depend on the number of domains.
func (x *hostIndex) find(host string) uint32 {
	if vhost, ok := x.exact[host]; ok {
		return vhost
	}
	for from := 1; from < len(host); from++ {
		if vhost, ok := x.suffix[host[from:]]; ok {
			return vhost
		}
	}
	for to := len(host) - 1; to > 0; to-- {
		if vhost, ok := x.prefix[host[:to]]; ok {
			return vhost
		}
	}
	return x.any
}
