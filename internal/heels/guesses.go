// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/internal/heels/kernel"
)

const (
	// guessesShown is how long tags that were tried are named as a problem.
	guessesShown = 10 * time.Minute
	// guessesLogged is the least time between two lines about one VIP.
	guessesLogged = time.Minute
	// watchEvery is how often a running agent looks for what it has to log.
	watchEvery = 5 * time.Second
)

// countGuesses fills in how often a VIP's SYNs were not believed because of wrong tags before them.
func (k *Kernel) countGuesses(v *VIP, index uint32, now uint64) error {
	var g kernel.Guessed
	if err := k.maps.HeelsGuesses.Lookup(index, &g); err != nil {
		return fmt.Errorf("read wrong tags: %w", err)
	}
	if g.Refused > 0 {
		v.Guessed, v.GuessedAgo = g.Refused, time.Duration(now-min(now, g.RefusedAt))
	}
	return nil
}

// problemsOf says what somebody should look at.
func problemsOf(vips []VIP) []string {
	problems := []string{}
	for _, v := range vips {
		if v.Guessed > 0 && v.GuessedAgo < guessesShown {
			problems = append(problems, fmt.Sprintf("VIP %s: %d SYNs were not believed because of wrong tags before them, the last one %s ago: somebody tries tags, or clients have another key",
				v.VIP, v.Guessed, v.GuessedAgo.Round(time.Second)))
		}
	}
	return problems
}

// guessLog is what was logged of a VIP's tags.
type guessLog struct {
	guessed uint64
	at      time.Time
}

// watcher logs what operators should hear of.
type watcher struct {
	log    *slog.Logger
	logged map[netip.AddrPort]guessLog
}

// Watch logs that tags are tried, once a minute at most for each VIP, until ctx is done.
func (k *Kernel) Watch(ctx context.Context, log *slog.Logger) {
	w := &watcher{log: log, logged: map[netip.AddrPort]guessLog{}}
	if vips, err := k.vips(); err == nil {
		w.begin(vips)
	}
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			// What cannot be read now is read the next time.
			if vips, err := k.vips(); err == nil {
				w.look(vips, now)
			}
		}
	}
}

// begin passes over what an agent before has logged.
func (w *watcher) begin(vips []VIP) {
	for _, v := range vips {
		if v.Role != ServerRole {
			continue
		}
		w.logged[v.VIP] = guessLog{guessed: v.Guessed}
	}
}

func (w *watcher) look(vips []VIP, now time.Time) {
	for _, v := range vips {
		was := w.logged[v.VIP]
		if v.Role != ServerRole || v.Guessed <= was.guessed || now.Sub(was.at) < guessesLogged {
			continue
		}
		w.log.Warn("wrong tags: somebody tries them, or clients have another key", "vip", v.VIP.String(), "not_believed", v.Guessed-was.guessed)
		w.logged[v.VIP] = guessLog{v.Guessed, now}
	}
}
