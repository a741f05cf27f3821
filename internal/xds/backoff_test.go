// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"context"
	"testing"
	"time"
)

func TestSleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if !Sleep(ctx, time.Millisecond) {
		t.Error("a sleep that ran to its end says that its context has ended")
	}
	cancel()
	if Sleep(ctx, time.Hour) {
		t.Error("a sleep whose context has ended says that it ran to its end")
	}
}
