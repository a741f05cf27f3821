// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestViewsOfARowAreFewInATable(t *testing.T) {
	for _, tt := range []struct {
		name, view string
		views      []string
		want       string
	}{
		{"the shared one", "", nil, "-"},
		{"another one", "shop", nil, "shop"},
		{"several", "", []string{"", "shop", "bank"}, "-, shop, bank"},
		{"many", "", []string{"", "shop", "bank", "cart", "mail"}, "-, shop, bank and 2 more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := viewsCell(tt.view, tt.views); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
