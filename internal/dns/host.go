// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// host is a name of one cluster, or an IP address, which is never due. One goroutine at a time owns it.
type host struct {
	name  string
	addrs []netip.Addr
	// found: there was an answer.
	found bool
	// failures of the last look-ups, in a row.
	failures int
	// due is the time of the next look-up. While one is under way, asking, there is no other.
	due    time.Time
	asking bool
}

func newHost(name string) *host {
	h := &host{name: name}
	if ip, err := netip.ParseAddr(name); err == nil {
		h.addrs, h.found = []netip.Addr{ip}, true
	}
	return h
}

// waits reports whether the host is a name of which no look-up is under way.
func (h *host) waits() bool {
	_, err := netip.ParseAddr(h.name)
	return err != nil && !h.asking
}

// wait is the time to the next look-up of a host of c, after an answer or an error.
func (h *host) wait(c *model.Cluster, answer Answer, err error) time.Duration {
	wait := c.DNSRefresh
	if wait <= 0 {
		wait = defaultRefresh
	}
	switch {
	case err != nil && c.DNS.FailureBase > 0:
		wait = max(rand.N(h.longestPause(&c.DNS)), time.Millisecond)
	case err == nil && c.DNS.RespectTTL && answer.TTL > 0 && answer.TTL <= highestTTL:
		wait = max(min(answer.TTL, longestTTL), c.DNS.MinRefresh)
	}
	if c.DNS.Jitter > 0 {
		wait += rand.N(c.DNS.Jitter)
	}
	return wait
}

// longestPause is the upper end of the pause behind a failure: it doubles with each failure in a row (Envoy's JitteredExponentialBackOffStrategy).
func (h *host) longestPause(c *model.DNS) time.Duration {
	longest := c.FailureBase
	for range h.failures {
		if longest *= 2; longest >= c.FailureMax {
			return max(c.FailureMax, c.FailureBase)
		}
	}
	return longest
}

const (
	// longestTTL bounds how long an answer is believed, whatever it says (RFC 8767 section 4: a bound of days is reasonable): one wrong answer must not
	// last until the daemon is started anew.
	longestTTL = 24 * time.Hour
	// highestTTL is the largest that there is; what is above is none (RFC 2181 section 8).
	highestTTL = math.MaxInt32 * time.Second
)
