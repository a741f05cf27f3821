// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// A start and a health check that wait for secrets go on the moment that there is nothing to wait for any more.
func TestWaitsForSecretsEndAtOnce(t *testing.T) {
	const after = 123 * time.Millisecond
	for _, tt := range []struct {
		name string
		// patience is Envoy's initial_fetch_timeout; 0: none.
		patience time.Duration
		event    func(s *Secrets, from model.SecretSource, cancel context.CancelFunc)
		// awaited: the secret is that of a cluster that is not in force.
		awaited bool
	}{
		{name: "it has come", event: func(s *Secrets, from model.SecretSource, _ context.CancelFunc) {
			s.store.Put(from, &model.Secret{}, "1", nil)
		}},
		{name: "it was refused", event: func(s *Secrets, from model.SecretSource, _ context.CancelFunc) {
			s.store.Put(from, nil, "", errors.New("not so"))
		}},
		{name: "its time is up", patience: after},
		{name: "the caller gives up", event: func(_ *Secrets, _ model.SecretSource, cancel context.CancelFunc) { cancel() }},
		{name: "its cluster is given up", awaited: true, event: func(s *Secrets, _ model.SecretSource, _ context.CancelFunc) { s.Abandon("a") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{Logger: slog.New(slog.DiscardHandler)})
				defer s.Stop()
				from := model.SecretSource{Name: "default", Socket: "/nowhere", Patience: tt.patience}
				contexts := []*model.UpstreamTLS{{CertificateSecret: &from}}
				s.store.Follow(contexts)
				if tt.awaited {
					s.warming["a"] = &warmingCluster{contexts: contexts}
				} else {
					s.active = contexts
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				begun := time.Now()
				if tt.event != nil {
					time.AfterFunc(after, func() { tt.event(s, from, cancel) })
				}
				check := make(chan time.Duration, 1)
				if !tt.awaited {
					go func() {
						s.Await(ctx, contexts[0])
						check <- time.Since(begun)
					}()
				} else {
					check <- after
				}
				s.AwaitAll(ctx, func(error) {})
				if took := time.Since(begun); took != after {
					t.Errorf("the start goes on after %v, want %v", took, after)
				}
				if took := <-check; took != after {
					t.Errorf("health checks go on after %v, want %v", took, after)
				}
			})
		})
	}
}
