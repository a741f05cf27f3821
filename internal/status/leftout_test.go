// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

func TestEndpointsThatAreLeftOutAreCountedByReason(t *testing.T) {
	c := &model.Cluster{LeftOut: []model.LeftOut{{Reason: model.LeftOutTLS}, {Reason: model.LeftOutHTTP2}, {Reason: model.LeftOutTLS}}}
	if got := leftOutOf(c); got["tls"] != 2 || got["http2"] != 1 || len(got) != 2 {
		t.Errorf("counts: %v", got)
	}
}
