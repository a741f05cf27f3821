// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"
	"os"
	"os/exec"

	"github.com/xlb-project/xlb/test/hostile/traffic"
)

// Names of the hostile machine's programs.
const (
	HostileClientsProgram   = "hostile-clients"
	HostileServerProgram    = "hostile-server"
	HostileOvertakerProgram = "hostile-overtaker"
	HostileCutterProgram    = "hostile-cutter"
	HostileFillerProgram    = "hostile-filler"
	HostileHoarderProgram   = "hostile-hoarder"
	HostileTracerProgram    = "hostile-tracer"
	// HostileReconnectorProgram and HostileDepartureProgram are the e2e tests' alone.
	HostileReconnectorProgram = "hostile-reconnector"
	HostileDepartureProgram   = "hostile-departure"

	// hostileHeirProgram is a child of hostile clients.
	hostileHeirProgram = "hostile-heir"
)

func init() {
	registry[HostileClientsProgram] = runHostileClients
	registry[HostileServerProgram] = runHostileServer
	registry[HostileOvertakerProgram] = runHostileOvertaker
	registry[HostileCutterProgram] = runHostileCutter
	registry[HostileFillerProgram] = runHostileFiller
	registry[HostileHoarderProgram] = runHostileHoarder
	registry[HostileTracerProgram] = runHostileTracer
	registry[HostileReconnectorProgram] = runHostileReconnector
	registry[HostileDepartureProgram] = runHostileDeparture
	registry[hostileHeirProgram] = runHostileHeir
}

// runHostileClients makes requests until standard input ends, or as many as its specification says, and then reports. A command asks for a
// report meanwhile.
func runHostileClients(s *stdio) error {
	var spec traffic.ClientSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	clients, err := traffic.NewClients(spec, heirCommand())
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if spec.Requests == 0 {
		go func() {
			_ = s.report(func() any { return clients.Report() })
			stop()
		}()
	}
	clients.Run(ctx)
	return s.answer(clients.Report())
}

// heirCommand runs one.
func heirCommand() *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), Variable+"="+hostileHeirProgram)
	cmd.Stderr = os.Stderr
	return cmd
}

func runHostileHeir(*stdio) error { return traffic.RunHeir() }

// HostileServerReady is the server's first answer.
type HostileServerReady struct{ Address string }

// runHostileServer reports when it is asked to.
func runHostileServer(s *stdio) error {
	var spec traffic.ServerSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	server, err := traffic.Listen(spec)
	if err != nil {
		return err
	}
	if err := s.answer(HostileServerReady{Address: server.Address()}); err != nil {
		return err
	}
	go func() {
		_ = s.report(func() any { return server.Report() })
		server.Close()
	}()
	return server.Serve()
}

// runHostileOvertaker plays its rounds, and reports.
func runHostileOvertaker(s *stdio) error {
	var spec traffic.OvertakeSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	clients, err := traffic.NewClients(spec.Clients, nil)
	if err != nil {
		return err
	}
	if err := clients.Overtake(spec); err != nil {
		return err
	}
	return s.answer(clients.Report())
}

// runHostileFiller plays its rounds, and reports.
func runHostileFiller(s *stdio) error {
	var spec traffic.FillSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	clients, err := traffic.NewClients(spec.Clients, nil)
	if err != nil {
		return err
	}
	if err := clients.Fill(spec); err != nil {
		return err
	}
	return s.answer(clients.Report())
}

// runHostileHoarder reports when it has sent what it could, and holds its connection until the test wants the end.
func runHostileHoarder(s *stdio) error {
	var spec traffic.HoardSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	clients, err := traffic.NewClients(spec.Clients, nil)
	if err != nil {
		return err
	}
	drop, err := clients.Hoard(spec)
	if err != nil {
		return err
	}
	defer drop()
	if err := s.answer(clients.Report()); err != nil {
		return err
	}
	s.waitForEnd()
	return nil
}

// runHostileCutter plays its rounds, and reports.
func runHostileCutter(s *stdio) error {
	var spec traffic.CutSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	clients, err := traffic.NewClients(spec.Clients, nil)
	if err != nil {
		return err
	}
	if err := clients.Cut(spec); err != nil {
		return err
	}
	return s.answer(clients.Report())
}

// runHostileTracer traces a process once.
func runHostileTracer(s *stdio) error {
	var spec traffic.TraceSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	if err := traffic.Trace(spec); err != nil {
		return err
	}
	return s.answer(struct{}{})
}

// runHostileReconnector plays its rounds, and reports.
func runHostileReconnector(s *stdio) error {
	var spec traffic.ReconnectSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	clients, err := traffic.NewClients(spec.Clients, nil)
	if err != nil {
		return err
	}
	if err := clients.Reconnect(spec); err != nil {
		return err
	}
	return s.answer(clients.Report())
}

// runHostileDeparture plays its rounds, and reports.
func runHostileDeparture(s *stdio) error {
	var spec traffic.DepartSpec
	if err := s.spec(&spec); err != nil {
		return err
	}
	clients, err := traffic.NewClients(spec.Clients, nil)
	if err != nil {
		return err
	}
	if err := clients.Depart(spec); err != nil {
		return err
	}
	return s.answer(clients.Report())
}
