// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOriginsOfOneKindAndSourceAreOne(t *testing.T) {
	file, server := OriginKey{Kind: "bootstrap", Source: "file"}, OriginKey{Kind: "clusters", Source: "server"}
	early, late := time.Unix(1000, 0), time.Unix(2000, 0)
	got := JoinOrigins([]Origin{
		{OriginKey: file, Successful: true, Taken: late, Refused: 1},
		{OriginKey: server, Successful: true, Taken: early},
		{OriginKey: file, Taken: early, Refused: 2},
		{OriginKey: server, Successful: true, Taken: late},
	})
	want := []Origin{{OriginKey: file, Taken: late, Refused: 3}, {OriginKey: server, Successful: true, Taken: late}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
