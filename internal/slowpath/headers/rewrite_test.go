// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/head"
)

func TestForwardedHostIsAppendedOnce(t *testing.T) {
	for _, c := range []struct {
		given []string
		want  string
	}{
		{nil, "a.test"},
		{[]string{"b.test"}, "b.test|a.test"},
		{[]string{"a.test"}, "a.test"},
		{[]string{"a.test,b.test"}, "a.test,b.test|a.test"},
		{[]string{"b.test,a.test"}, "b.test,a.test"},
		{[]string{"a.test", ""}, "a.test|"},
		{[]string{"a.test,,"}, "a.test,,"},
		{[]string{""}, "|a.test"},
		{[]string{","}, ",|a.test"},
	} {
		var fields []head.Field
		for _, v := range c.given {
			fields = append(fields, head.Field{Name: []byte("x-forwarded-host"), Value: []byte(v)})
		}
		if got := strings.Join(head.Values(appendForwardedHost(fields, "a.test"), "x-forwarded-host"), "|"); got != c.want {
			t.Errorf("%q: got %q, want %q", c.given, got, c.want)
		}
	}
}
