// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"slices"
	"testing"
)

func TestListenersAreFoundInTheirViewAlone(t *testing.T) {
	shop, bank := View{Number: 1, Name: "shop"}, View{Number: 2, Name: "bank"}
	at := netip.MustParseAddrPort("10.96.0.1:80")
	catchAll := netip.MustParsePrefix("0.0.0.0/0")
	c := &Config{
		Listeners: []*Listener{
			{Name: "web", Address: at}, {View: shop, Name: "web of shop", Address: at},
			{View: shop, Name: "all of shop", Address: netip.AddrPortFrom(catchAll.Addr(), 15001), Many: catchAll},
		},
		Clusters: []*Cluster{{Name: "a"}, {View: bank, Name: "a"}},
	}
	other := netip.MustParseAddrPort("10.96.0.2:15001")
	for _, tt := range []struct {
		name string
		view View
		to   netip.AddrPort
		want string
	}{
		{"shared", View{}, at, "web"},
		{"own", shop, at, "web of shop"},
		{"another's", bank, at, ""},
		{"one for all addresses", shop, other, "all of shop"},
		{"another's for all addresses", View{}, other, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if l := c.ListenerOf(tt.view, tt.to); l != nil {
				got = l.Name
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := c.Views(); !slices.Equal(got, []string{"bank", "shop"}) {
		t.Errorf("views: %q", got)
	}
}
