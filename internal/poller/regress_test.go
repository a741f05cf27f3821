// SPDX-License-Identifier: Apache-2.0

package poller

import (
	"testing"
	"time"
)

func TestLazyPollerTellsOfWhatItFoundFirst(t *testing.T) {
	p, s, r := newPoller(t, time.Millisecond), newPair(t), newRecorder()
	must(t, p.Watch(s.near, r))
	s.send(t)
	r.await(t, "event of a watch that tells once")
}
