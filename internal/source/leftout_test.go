// SPDX-License-Identifier: Apache-2.0

package source

import (
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

func TestEndpointsAreSaidToBeLeftOutOnce(t *testing.T) {
	out := func(reasons ...model.LeftOutReason) *model.Cluster {
		c := &model.Cluster{}
		for _, r := range reasons {
			c.LeftOut = append(c.LeftOut, model.LeftOut{Reason: r})
		}
		return c
	}
	for _, c := range []struct {
		name        string
		before, now *model.Cluster
		want        bool
	}{
		{"none", nil, out(), false},
		{"a new cluster", nil, out(model.LeftOutTLS), true},
		{"the first", out(), out(model.LeftOutTLS), true},
		{"one more", out(model.LeftOutTLS), out(model.LeftOutTLS, model.LeftOutTLS), false},
		{"one less", out(model.LeftOutTLS, model.LeftOutTLS), out(model.LeftOutTLS), false},
		{"another reason", out(model.LeftOutTLS), out(model.LeftOutHTTP2), true},
	} {
		if got := isNewlyLeftOut(c.before, c.now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
