// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/health"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/mtls"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/xds"
	"github.com/xlb-project/xlb/internal/xds/sds"
)

// secrets keeps what connections to endpoints are secured with. Node.updates guards streams.
type secrets struct {
	n     *Node
	store *mtls.Store
	// streams end the asking for a secret.
	streams map[model.SecretSource]context.CancelFunc
	ctx     context.Context
	stopAll context.CancelFunc

	mu sync.Mutex
	// faults are the last ones of endpoints. Guarded by mu.
	faults map[string]string
}

func newSecrets(n *Node) *secrets {
	s := &secrets{n: n, store: mtls.NewStore(config.ReadSecret, n.log), streams: map[model.SecretSource]context.CancelFunc{}, faults: map[string]string{}}
	s.ctx, s.stopAll = context.WithCancel(context.Background())
	return s
}

// follow asks for the secrets of another configuration. Needs n.updates.
func (s *secrets) follow(cfg *model.Config) {
	var contexts []*model.UpstreamTLS
	for _, c := range cfg.Clusters {
		contexts = append(contexts, c.Sockets...)
	}
	if len(contexts) == 0 && len(s.streams) == 0 {
		return
	}
	wanted := map[model.SecretSource]bool{}
	for _, source := range s.store.Follow(contexts) {
		wanted[source] = true
		if s.streams[source] == nil {
			s.streams[source] = s.ask(source)
		}
	}
	for source, stop := range s.streams {
		if !wanted[source] {
			stop()
			delete(s.streams, source)
		}
	}
}

// ask begins to ask for one secret.
func (s *secrets) ask(source model.SecretSource) context.CancelFunc {
	ctx, stop := context.WithCancel(s.ctx)
	c := sds.Config{
		Node: s.n.bootstrap.Asker(), Name: source.Name, Aggregated: source.ADS, Delta: source.Delta, Logger: s.n.log,
		Servers: []xds.Server{{Address: "unix:" + source.Socket, Authority: source.Authority}},
		Update:  func(body []byte, version string) error { return s.take(source, body, version) },
	}
	if source.ADS && s.n.bootstrap.Dynamic != nil {
		c.Servers, c.Delta = serversOf(s.n.bootstrap.Dynamic), s.n.bootstrap.Dynamic.Delta
	}
	s.n.goes(func() { sds.Run(ctx, c) })
	return stop
}

// take puts a secret in force for the next connections.
func (s *secrets) take(source model.SecretSource, body []byte, version string) error {
	name, secret, err := config.DecodeSecret(body)
	if err == nil && name != source.Name {
		err = fmt.Errorf("has the name %q", name)
	}
	s.store.Put(source, secret, version, err)
	if err != nil {
		s.n.log.Error("secret refused; the one before stays in force", "secret", source.Name, "err", err)
		return err
	}
	s.n.log.Info("secret is in force for new connections", "secret", source.Name, "version", version)
	return nil
}

// await returns when all secrets have come, or the time for that is up, or ctx ends: as in Envoy nothing is served before.
func (s *secrets) await(ctx context.Context) {
	begun := time.Now()
	for ctx.Err() == nil {
		missing := s.store.Missing(time.Since(begun))
		if len(missing) == 0 {
			return
		}
		s.n.setReady(errors.New("starting: waiting for the secrets " + strings.Join(missing, ", ")))
		time.Sleep(10 * time.Millisecond)
	}
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
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", to.String())
		if err != nil || e.TLS == nil {
			return conn, err
		}
		return n.secure(ctx, conn, slowpath.Target{TLS: e.TLS, Hostname: e.Hostname, HTTP: http})
	}
}
