// SPDX-License-Identifier: Apache-2.0

// Package secrets keeps what connections to endpoints are secured with: it asks files, servers of secrets and the control plane for the secrets of the
// clusters in force and of those that are about to be (warming.go).
package secrets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/logging"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/mtls"
	"github.com/xlb-project/xlb/internal/xds"
	"github.com/xlb-project/xlb/internal/xds/sds"
)

// Config is what Secrets work with. All of it but ControlPlane is needed.
type Config struct {
	// Node is what servers learn of this daemon.
	Node *config.Asker
	// ControlPlane sends the secrets that configurations take from it (ADS); nil: there is no control plane.
	ControlPlane *ControlPlane
	Logger       *slog.Logger
	// Spawn calls f in a goroutine of its own.
	Spawn func(f func())
}

// ControlPlane is a control plane that sends secrets.
type ControlPlane struct {
	// Servers are tried in their order.
	Servers func() []xds.Server
	// Delta asks for changes in place of whole states.
	Delta bool
}

// Secrets keeps what connections to endpoints are secured with. It is safe for concurrent use.
type Secrets struct {
	cfg   Config
	store *mtls.Store
	ctx   context.Context
	stop  context.CancelFunc
	// again has the next time at which clusters may be warm though no secret has come.
	again chan time.Time

	// asks is taken after other locks.
	asks sync.Mutex
	// active are the contexts of clusters in force; warming are other clusters, or other forms of them, by name. Guarded by asks.
	active  []*model.UpstreamTLS
	warming map[string]*warmingCluster
	// moved is closed when a cluster warms no longer; another channel replaces it. Guarded by asks.
	moved chan struct{}
	// streams end the asking of servers of their own; aggregated asks the control plane, until stopADS, and is nil where it has nothing to be asked for.
	// Guarded by asks.
	streams    map[model.SecretSource]context.CancelFunc
	aggregated *sds.Client
	stopADS    context.CancelFunc

	mu sync.Mutex
	// faults are the last ones of endpoints, logged what was logged last of secrets, and when. Guarded by mu.
	faults map[string]string
	logged map[model.SecretSource]logLine
	// refused counts what servers have sent of secrets and was not taken.
	refused atomic.Uint64
}

// logLine is what was logged of a secret, and when.
type logLine struct {
	what string
	at   time.Time
}

// New returns Secrets that need nothing yet. Stop is to be called.
func New(cfg Config) *Secrets {
	s := &Secrets{
		cfg: cfg, store: mtls.NewStore(config.ReadSecret, cfg.Logger), warming: map[string]*warmingCluster{}, moved: make(chan struct{}),
		streams: map[model.SecretSource]context.CancelFunc{}, again: make(chan time.Time, 1), faults: map[string]string{}, logged: map[model.SecretSource]logLine{},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Stop ends all streams. What has come stays.
func (s *Secrets) Stop() { s.stop() }

// Store is where the secrets are, to be shown.
func (s *Secrets) Store() *mtls.Store { return s.store }

// Refused is how often a server has sent a secret that was not taken.
func (s *Secrets) Refused() uint64 { return s.refused.Load() }

// Apply asks for the secrets of another configuration, and of the clusters that warm.
func (s *Secrets) Apply(cfg *model.Config) {
	s.asks.Lock()
	defer s.asks.Unlock()
	s.active = nil
	for _, c := range cfg.Clusters {
		s.active = append(s.active, c.Sockets...)
		if a := s.warming[c.Name]; a != nil && a.isOf(c) {
			s.dropLocked(c.Name)
		}
	}
	s.askLocked()
}

// askLocked asks for what is needed and for nothing else.
func (s *Secrets) askLocked() {
	contexts := slices.Clone(s.active)
	for _, a := range s.warming {
		contexts = append(contexts, a.contexts...)
	}
	if len(contexts) == 0 && len(s.streams) == 0 && s.aggregated == nil {
		return
	}
	wanted, aggregated := map[model.SecretSource]bool{}, []string(nil)
	for _, source := range s.store.Follow(contexts) {
		if source.ADS {
			aggregated = append(aggregated, source.Name)
			continue
		}
		wanted[source] = true
		if s.streams[source] == nil {
			s.streams[source] = s.askServer(source)
		}
	}
	for source, stop := range s.streams {
		if !wanted[source] {
			stop()
			delete(s.streams, source)
		}
	}
	s.askControlPlaneLocked(slices.Compact(aggregated))
}

// askServer begins to ask a server for one secret.
func (s *Secrets) askServer(source model.SecretSource) context.CancelFunc {
	ctx, stop := context.WithCancel(s.ctx)
	client := sds.New(sds.Config{
		Node: s.cfg.Node, Delta: source.Delta, Logger: s.cfg.Logger,
		Servers: []xds.Server{{Address: "unix:" + source.Socket, Authority: source.Authority}},
		Update: func(_ string, body []byte, version string) error {
			return s.take([]model.SecretSource{source}, body, version)
		},
	})
	client.Want([]string{source.Name})
	s.cfg.Spawn(func() { client.Run(ctx) })
	return stop
}

// askControlPlaneLocked asks for these names, which may be none.
func (s *Secrets) askControlPlaneLocked(names []string) {
	from := s.cfg.ControlPlane
	switch {
	case len(names) == 0 && s.aggregated != nil:
		s.stopADS()
		s.aggregated = nil
	case len(names) == 0 || from == nil:
	case s.aggregated != nil:
		s.aggregated.Want(names)
	default:
		s.aggregated = sds.New(sds.Config{
			Node: s.cfg.Node, Servers: from.Servers(), Aggregated: true, Delta: from.Delta, Logger: s.cfg.Logger,
			Update: func(name string, body []byte, version string) error {
				return s.take(s.store.Aggregated(name), body, version)
			},
		})
		s.aggregated.Want(names)
		ctx, stop := context.WithCancel(s.ctx)
		client := s.aggregated
		s.stopADS = stop
		s.cfg.Spawn(func() { client.Run(ctx) })
	}
}

// take puts a secret in force for the next connections.
func (s *Secrets) take(sources []model.SecretSource, body []byte, version string) error {
	name, secret, err := config.DecodeSecret(body)
	for _, source := range sources {
		if err == nil && name != source.Name {
			err = fmt.Errorf("its body has another name than %q", source.Name)
		}
		s.store.Put(source, secret, version, err)
		if err != nil {
			s.refused.Add(1)
		}
		switch {
		case err != nil && s.isNew(source, err.Error()):
			s.cfg.Logger.Error("secret refused; the one before stays in force", "secret", source.Name, "err", err)
		case err == nil && s.isNew(source, version):
			s.cfg.Logger.Info("secret is in force for new connections", "secret", source.Name, "version", logging.NonZero(version))
		}
	}
	return err
}

// logPace is how often the log has something of one secret: servers may send as often as they like.
const logPace = time.Second

// isNew reports whether that is to be logged of a secret.
func (s *Secrets) isNew(of model.SecretSource, what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.logged[of]
	if known && (before.what == what || time.Since(before.at) < logPace) {
		return false
	}
	if len(s.logged) >= maxFaults {
		clear(s.logged)
	}
	s.logged[of] = logLine{what, time.Now()}
	return true
}

// maxFaults bounds the endpoints of which is remembered what was logged.
const maxFaults = 4096

// Handshake secures a connection to an endpoint, and logs why it could not where that has changed: requests may be many.
func (s *Secrets) Handshake(ctx context.Context, conn net.Conn, p *mtls.Peer) (net.Conn, error) {
	endpoint := conn.RemoteAddr().String()
	out, err := s.store.Handshake(ctx, conn, p)
	s.logFault(endpoint, err)
	return out, err
}

// logFault logs why a connection to an endpoint could not be secured, where that has changed.
func (s *Secrets) logFault(endpoint string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.faults, endpoint)
		return
	}
	if s.faults[endpoint] == err.Error() || errors.Is(err, context.Canceled) || len(s.faults) >= maxFaults {
		return
	}
	s.faults[endpoint] = err.Error()
	s.cfg.Logger.Warn("connection to an endpoint could not be secured", "endpoint", endpoint, "err", err)
}
