// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/health"
	"github.com/xlb-project/xlb/internal/logging"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/mtls"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/xds"
	"github.com/xlb-project/xlb/internal/xds/sds"
)

// secrets keeps what connections to endpoints are secured with.
type secrets struct {
	n       *Node
	store   *mtls.Store
	ctx     context.Context
	stopAll context.CancelFunc
	// again has the next time at which clusters may be warm though no secret has come.
	again chan time.Time

	// asks is taken after other locks.
	asks sync.Mutex
	// inForce are what clusters in force have; awaiting are those of other clusters, or other forms of them, by name. Guarded by asks.
	inForce  []*model.UpstreamTLS
	awaiting map[string]*awaiting
	// moved is closed when a cluster is no longer awaited; another takes its place. Guarded by asks.
	moved chan struct{}
	// streams end the asking of servers of their own; aggregated asks the control plane, until stopADS, and is nil where it has nothing to be asked for.
	// Guarded by asks.
	streams    map[model.SecretSource]context.CancelFunc
	aggregated *sds.Client
	stopADS    context.CancelFunc

	mu sync.Mutex
	// faults are the last ones of endpoints, told what was logged last of secrets, and when. Guarded by mu.
	faults map[string]string
	told   map[model.SecretSource]logged
	// refused counts what servers have sent of secrets and was not taken.
	refused atomic.Uint64
}

// logged is what was logged of a secret, and when.
type logged struct {
	what string
	at   time.Time
}

func newSecrets(n *Node) *secrets {
	s := &secrets{
		n: n, store: mtls.NewStore(config.ReadSecret, n.log), awaiting: map[string]*awaiting{}, moved: make(chan struct{}), streams: map[model.SecretSource]context.CancelFunc{},
		again: make(chan time.Time, 1), faults: map[string]string{}, told: map[model.SecretSource]logged{},
	}
	s.ctx, s.stopAll = context.WithCancel(context.Background())
	return s
}

// follow asks for the secrets of another configuration, and of what is awaited.
func (s *secrets) follow(cfg *model.Config) {
	s.asks.Lock()
	defer s.asks.Unlock()
	s.inForce = nil
	for _, c := range cfg.Clusters {
		s.inForce = append(s.inForce, c.Sockets...)
		if a := s.awaiting[c.Name]; a != nil && a.isOf(c) {
			s.dropLocked(c.Name)
		}
	}
	s.askLocked()
}

// askLocked asks for what is needed and for nothing else.
func (s *secrets) askLocked() {
	contexts := slices.Clone(s.inForce)
	for _, a := range s.awaiting {
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
func (s *secrets) askServer(source model.SecretSource) context.CancelFunc {
	ctx, stop := context.WithCancel(s.ctx)
	client := sds.New(sds.Config{
		Node: s.n.asker, Delta: source.Delta, Logger: s.n.log,
		Servers: []xds.Server{{Address: "unix:" + source.Socket, Authority: source.Authority}},
		Update: func(_ string, body []byte, version string) error {
			return s.take([]model.SecretSource{source}, body, version)
		},
	})
	client.Want([]string{source.Name})
	s.n.goes(func() { client.Run(ctx) })
	return stop
}

// askControlPlaneLocked asks for these names, which may be none.
func (s *secrets) askControlPlaneLocked(names []string) {
	from := s.n.sources
	switch {
	case len(names) == 0 && s.aggregated != nil:
		s.stopADS()
		s.aggregated = nil
	case len(names) == 0 || from == nil:
	case s.aggregated != nil:
		s.aggregated.Want(names)
	default:
		s.aggregated = sds.New(sds.Config{
			Node: s.n.asker, Servers: serversOf(from), Aggregated: true, Delta: from.Delta, Logger: s.n.log,
			Update: func(name string, body []byte, version string) error {
				return s.take(s.store.Aggregated(name), body, version)
			},
		})
		s.aggregated.Want(names)
		ctx, stop := context.WithCancel(s.ctx)
		client := s.aggregated
		s.stopADS = stop
		s.n.goes(func() { client.Run(ctx) })
	}
}

// take puts a secret in force for the next connections.
func (s *secrets) take(sources []model.SecretSource, body []byte, version string) error {
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
		case err != nil && s.news(source, err.Error()):
			s.n.log.Error("secret refused; the one before stays in force", "secret", source.Name, "err", err)
		case err == nil && s.news(source, version):
			s.n.log.Info("secret is in force for new connections", "secret", source.Name, "version", logging.NonZero(version))
		}
	}
	return err
}

// newsPace is how often the log has something of one secret: servers may send as often as they like.
const newsPace = time.Second

// news reports whether that is to be logged of a secret.
func (s *secrets) news(of model.SecretSource, what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.told[of]
	if known && (before.what == what || time.Since(before.at) < newsPace) {
		return false
	}
	if len(s.told) >= maxFaults {
		clear(s.told)
	}
	s.told[of] = logged{what, time.Now()}
	return true
}

// maxFaults bounds the endpoints of which is remembered what was logged.
const maxFaults = 4096

// said logs why an endpoint cannot be spoken to by TLS, where that has changed: requests may be many.
func (s *secrets) said(endpoint string, err error) {
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
	s.n.log.Warn("connection to an endpoint could not be secured", "endpoint", endpoint, "err", err)
}

// secure implements slowpath.Config.Secure.
func (n *Node) secure(ctx context.Context, conn net.Conn, to slowpath.Target) (net.Conn, error) {
	endpoint := conn.RemoteAddr().String()
	out, err := n.secrets.store.Handshake(ctx, conn, &mtls.Peer{TLS: to.TLS, Hostname: to.Hostname, Host: to.Host, HTTP: to.HTTP})
	n.secrets.said(endpoint, err)
	return out, err
}

// dialCheck connects a health check to an endpoint.
func (n *Node) dialCheck(e model.Endpoint, http bool) health.Dial {
	return func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		conn, err := n.dialForCheck(ctx, to, e.Inner)
		if err != nil || e.TLS == nil {
			return conn, err
		}
		return n.secure(ctx, conn, slowpath.Target{TLS: e.TLS, Hostname: e.Hostname, HTTP: http})
	}
}
