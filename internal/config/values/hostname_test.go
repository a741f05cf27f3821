// SPDX-License-Identifier: Apache-2.0

package values

import (
	"errors"
	"os"
	"testing"
)

func TestTheHostHasANameAlways(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, got, want string }{
		{"this host", Hostname(), name},
		{"one with a name", hostnameOf(func() (string, error) { return "a.example", nil }), "a.example"},
		{"one whose name cannot be read", hostnameOf(func() (string, error) { return "", errors.New("uname: not allowed") }), "-"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s is called %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}
