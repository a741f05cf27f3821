// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"context"
	"testing"
	"time"
)

func TestPauseEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if !pause(ctx, time.Millisecond) {
		t.Error("a pause that ran to its end says that its context has ended")
	}
	cancel()
	if pause(ctx, time.Hour) {
		t.Error("a pause whose context has ended says that it ran to its end")
	}
}
