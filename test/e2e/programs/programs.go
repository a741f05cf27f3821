// SPDX-License-Identifier: Apache-2.0

// Package programs holds the clients and servers of the end-to-end tests. The
// test binary runs itself again as one of them, inside the cgroup that XLB
// balances, so that the test process stays outside and one static binary is
// all a virtual machine needs.
//
// A program reads its specification as JSON from the first line of standard
// input and commands from the lines after it, and writes one line of JSON per
// answer to standard output. It ends when standard input ends.
package programs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Variable names the environment variable that selects a program.
const Variable = "XLB_E2E_PROGRAM"

// Names of the programs.
const (
	OriginProgram   = "origin"
	LoadProgram     = "load"
	TransferProgram = "transfer"
	ExchangeProgram = "exchange"
	ParkedProgram   = "parked"
	PipelineProgram = "pipeline"
	CrowdProgram    = "crowd"
	RawProgram      = "raw"
	RecorderProgram = "recorder"
	PuppetProgram   = "puppet"
	JanitorProgram  = "janitor"
	MannersProgram  = "manners"
	HabitProgram    = "habit"
	AbuserProgram   = "abuser"
	ChurnProgram    = "churn"
	ImpostorProgram = "impostor"
	TunnelProgram   = "tunnel"
	GreeterProgram  = "greeter"
	CallerProgram   = "caller"
	MoodyProgram    = "moody"
	HastyProgram    = "hasty"
	PauserProgram   = "pauser"
	PacerProgram    = "pacer"
	TimelineProgram = "timeline"
	BrinkProgram    = "brink"
	WitnessProgram  = "witness"
	ScriptProgram   = "script"
	LiveProgram     = "live"
	PoisonerProgram = "poisoner"
	TasterProgram   = "taster"
	AuditorProgram  = "auditor"
	SquatterProgram = "squatter"
	MumblerProgram  = "mumbler"
	StormProgram    = "storm"
	PodsProgram     = "pods"

	TorrentProgram = "torrent"

	// heirProgram is a child of the program habit.
	heirProgram = "heir"

	ChaosClientProgram = "chaos-client"
	ChaosServerProgram = "chaos-server"
)

var registry = map[string]func(*stdio) error{
	OriginProgram:   runOrigin,
	LoadProgram:     runLoad,
	TransferProgram: runTransfer,
	ExchangeProgram: runExchange,
	ParkedProgram:   runParked,
	PipelineProgram: runPipeline,
	CrowdProgram:    runCrowd,
	RawProgram:      runRaw,
	RecorderProgram: runRecorder,
	PuppetProgram:   runPuppet,
	JanitorProgram:  runJanitor,
	MannersProgram:  runManners,
	HabitProgram:    runHabit,
	AbuserProgram:   runAbuser,
	ChurnProgram:    runChurn,
	ImpostorProgram: runImpostor,
	TunnelProgram:   runTunnel,
	GreeterProgram:  runGreeter,
	CallerProgram:   runCaller,
	MoodyProgram:    runMoody,
	HastyProgram:    runHasty,
	PauserProgram:   runPauser,
	PacerProgram:    runPacer,
	TimelineProgram: runTimeline,
	BrinkProgram:    runBrink,
	WitnessProgram:  runWitness,
	ScriptProgram:   runScript,
	LiveProgram:     runLive,
	PoisonerProgram: runPoisoner,
	TasterProgram:   runTaster,
	AuditorProgram:  runAuditor,
	SquatterProgram: runSquatter,
	MumblerProgram:  runMumbler,
	StormProgram:    runStorm,
	PodsProgram:     runPods,
	TorrentProgram:  runTorrent,
	heirProgram:     runHeir,

	ChaosClientProgram: runChaosClient,
	ChaosServerProgram: runChaosServer,
}

// Selected tells whether this process was started as a program.
func Selected() bool {
	return os.Getenv(Variable) != ""
}

// Main runs the selected program and returns the exit code of the process.
func Main() int {
	name := os.Getenv(Variable)
	run, ok := registry[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no program %q: %s must name one of package programs\n", name, Variable)
		return 2
	}
	if err := run(newStdio()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// stdio is a program's side of the conversation with the test.
type stdio struct {
	in *bufio.Reader

	mu  sync.Mutex // guards out
	out *json.Encoder
}

func newStdio() *stdio {
	return &stdio{in: bufio.NewReader(os.Stdin), out: json.NewEncoder(os.Stdout)}
}

// spec decodes the program's first line of input.
func (s *stdio) spec(into any) error {
	line, err := s.command()
	if err != nil {
		return fmt.Errorf("read the specification: %w", err)
	}
	if err := json.Unmarshal([]byte(line), into); err != nil {
		return fmt.Errorf("decode the specification: %w", err)
	}
	return nil
}

// command returns the next command, or io.EOF when the test wants the end.
func (s *stdio) command() (string, error) {
	line, err := s.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	return line[:len(line)-1], nil
}

// answer writes one line for the test to read.
func (s *stdio) answer(v any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(v); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// report answers each command with what it makes, until the test wants the end.
func (s *stdio) report(snapshot func() any) error {
	for {
		_, err := s.command()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		if err := s.answer(snapshot()); err != nil {
			return err
		}
	}
}

// waitForEnd blocks until the test closes standard input.
func (s *stdio) waitForEnd() {
	// Whatever ends the copy, nobody is left to talk to.
	_, _ = io.Copy(io.Discard, s.in)
}
