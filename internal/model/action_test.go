// SPDX-License-Identifier: Apache-2.0

package model

import "testing"

func TestHostOfACopy(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mirror Mirror
		host   string
		want   string
	}{
		{"name", Mirror{}, "a.test", "a.test-shadow"},
		{"name and port", Mirror{}, "a.test:81", "a.test-shadow:81"},
		{"IPv4", Mirror{}, "10.0.0.1:81", "10.0.0.1-shadow:81"},
		{"two colons", Mirror{}, "a:b:c", "a:b-shadow:c"}, // which a rewrite may leave
		{"IPv6", Mirror{}, "[::1]:81", "[::1]:81"},
		{"none", Mirror{}, "", ""},
		{"kept", Mirror{KeepHost: true}, "a.test:81", "a.test:81"},
		{"another", Mirror{Host: "b.test"}, "a.test:81", "b.test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.mirror.HostOf(tt.host); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
