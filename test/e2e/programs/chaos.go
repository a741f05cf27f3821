// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"

	"github.com/xlb-project/xlb/test/chaos/traffic"
)

// runChaosClient makes requests until standard input ends, or as many as its
// specification says. All that is to be known of them is in the ledger.
func runChaosClient(s *stdio) error {
	var spec traffic.ClientSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		s.waitForEnd()
		if spec.Conns == 0 {
			stop()
		}
	}()
	return traffic.RunClients(ctx, spec)
}

// ChaosServerReady is the server's only answer.
type ChaosServerReady struct{ Address string }

func runChaosServer(s *stdio) error {
	var spec traffic.ServerSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	server, err := traffic.Listen(spec)
	if err != nil {
		return err
	}
	if err := s.answer(ChaosServerReady{Address: server.Address()}); err != nil {
		return err
	}
	go func() {
		s.waitForEnd()
		_ = server.Close()
	}()
	return server.Serve()
}
