// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/test/hostile/traffic"
)

// Topologies.
const (
	sameHost = "same host" // servers in the balanced cgroup
	apart    = "apart"     // servers on this host, in another cgroup
	twoHosts = "two hosts" // servers in another network namespace
	mixed    = "mixed"     // servers of the same cluster in both
)

var topologies = []string{sameHost, twoHosts, mixed, apart}

// Conditions under which a scene may be played.
const (
	clientMemory   = "client memory"   // little TCP memory for some clients
	serverMemory   = "server memory"   // and for the servers
	clientCPU      = "client CPU"      // a fifth of a processor for some clients
	serverCPU      = "server CPU"      // and for the servers
	daemonCPU      = "daemon CPU"      // and for the daemon
	notSentLowat   = "notsent_lowat"   // sockets take little that is not sent yet
	tinyBuffers    = "tiny buffers"    // sockets have small buffers
	tcpMemory      = "tcp_mem"         // TCP has little memory on the whole machine, for some moments
	fewPorts       = "few ports"       // for connections
	fewDescriptors = "few descriptors" // for servers and clients
	daemonReplaced = "daemon replaced" // it is killed, and another comes
	daemonStopped  = "daemon stopped"  // for some moments
	clientsKilled  = "clients killed"
	serversKilled  = "servers killed"
	reloads        = "reloads"    // of the configuration
	lossy          = "lossy"      // the wire loses packets
	retried        = "retried"    // routes have a retry policy
	idleClients    = "idle"       // some clients run when nobody else wants to
	locksHeld      = "locks held" // of sockets, by sends from memory that is not there
	paused         = "paused"     // clients and servers, for moments: by a signal, by a debugger, or with their cgroup
	traced         = "traced"
	frozen         = "frozen"
	stock          = "stock"         // Python's file server, and a client that posts and then gets
	blindCloses    = "blind closes"  // of connections that may have a request
	promptCloses   = "prompt closes" // of connections that the next request is about to take
	// daemonDescriptors leaves the daemon few more than it has.
	daemonDescriptors = "daemon descriptors"
)

var allConditions = []string{
	clientMemory, serverMemory, clientCPU, serverCPU, daemonCPU, notSentLowat, tinyBuffers, tcpMemory, fewPorts, fewDescriptors,
	daemonReplaced, daemonStopped, clientsKilled, serversKilled, reloads, lossy, retried, idleClients, daemonDescriptors,
	locksHeld, paused, traced, frozen, stock, blindCloses,
}

// severe conditions break requests of others visibly: then nobody counts how many were answered.
var severe = []string{
	serverMemory, serverCPU, daemonCPU, tcpMemory, fewPorts, fewDescriptors, daemonReplaced, daemonStopped, serversKilled, lossy,
	tinyBuffers, reloads, daemonDescriptors,
}

// Actors.
const (
	noActor   = "nobody"
	overtaker = "overtaker"
	cutter    = "cutter"
	filler    = "filler"
	hoarder   = "hoarder"
)

// Scene is a part of a run that has its own places, servers, daemon and clients.
type Scene struct {
	Number     int
	Seed       uint64
	Topology   string
	Fast       bool
	Conditions []string
	Actor      string
	Length     time.Duration
	Clients    []traffic.ClientSpec
}

func (s *Scene) String() string {
	path := "fast"
	if !s.Fast {
		path = "slow"
	}
	var kinds []string
	for _, c := range s.Clients {
		kinds = append(kinds, strings.Join(c.Kinds, "+"))
	}
	return fmt.Sprintf("scene %d, %s, %s path, %v, %s, clients %s", s.Number, s.Topology, path, s.Conditions, s.Actor, strings.Join(kinds, "; "))
}

// isSevere tells whether the scene's conditions break requests of others.
func (s *Scene) isSevere() bool { return slices.ContainsFunc(severe, s.has) }

func (s *Scene) has(condition string) bool { return slices.Contains(s.Conditions, condition) }

// Process numbers of a scene.
const (
	calmProcess  = 0x0001
	actorProcess = 0x0002
	firstWild    = 0x0010
	nginxProcess = 0x0003
)

// sceneLength is how long clients are at work.
const sceneLength = 3 * time.Second

// promptLength is how long a known scene of prompt closes is. What it looks for takes a program and the daemon within a fraction of a
// microsecond: once in some 15,000 closes.
const promptLength = time.Minute

// draw makes a scene: the first ones of a run show what has been found before, others what nobody has thought of.
func draw(seed uint64, number int, options *Options) *Scene {
	sceneSeed := seed + uint64(number)*0x9e3779b97f4a7c15
	r := rand.New(rand.NewPCG(sceneSeed, 2))
	s := &Scene{Number: number, Seed: sceneSeed, Length: sceneLength, Actor: noActor}
	s.Topology = topologies[r.IntN(len(topologies))]
	s.Fast = r.IntN(5) > 0
	for range r.IntN(3) {
		s.add(allConditions[r.IntN(len(allConditions))])
	}
	s.Actor = []string{noActor, noActor, overtaker, cutter, filler, hoarder}[r.IntN(6)]
	if number < len(known) {
		known[number](s)
	}
	s.repair(options)
	for i := range 3 {
		s.Clients = append(s.Clients, s.wild(r, number*3+i))
	}
	if number == lowatScene {
		// Only what is large is cut.
		for i := range s.Clients {
			s.Clients[i].Body = [2]int{100_000, 250_000}
		}
		s.Clients[0].Kinds = []string{traffic.KindNonblocking, traffic.KindChanger}
	}
	// Last: what else a seed draws stays as it was.
	if number >= len(known) && r.IntN(promptScenes) == 0 {
		s.add(promptCloses)
	}
	if s.has(promptCloses) {
		s.Actor, s.Clients = noActor, []traffic.ClientSpec{hurried(firstWild)}
	}
	return s
}

// promptScenes is of how many scenes one has prompt closes.
const promptScenes = 15

// hurried are clients that ask again at once, for what nothing excuses from an answer. In a scene of prompt closes there are no others: they
// would take the processors, and the slots that are about to be closed.
func hurried(process uint32) traffic.ClientSpec {
	return traffic.ClientSpec{
		Process: process, Workers: 4, Kinds: []string{traffic.KindWhole}, Acts: []string{traffic.ActAnswers},
		Pieces: []string{traffic.PiecesOne}, Body: [2]int{-1, -1}, Reply: [2]int{0, 100},
	}
}

// fitsSmall is the size of a response that small buffers take in little time.
const fitsSmall = 5000

// lowatScene is the one of the known scenes in which little is taken that is not sent yet.
const lowatScene = 3

// known are scenes in which something was found.
var known = []func(*Scene){
	func(s *Scene) { s.be(sameHost, overtaker) },
	func(s *Scene) { s.be(twoHosts, overtaker) },
	func(s *Scene) { s.be(sameHost, cutter, clientMemory) },
	func(s *Scene) { s.be(twoHosts, filler, notSentLowat) },
	func(s *Scene) { s.be(sameHost, hoarder, serverMemory) },
	func(s *Scene) { s.be(mixed, noActor, daemonReplaced) },
	func(s *Scene) { s.be(sameHost, noActor, idleClients, clientsKilled) },
	func(s *Scene) { s.be(apart, noActor, tinyBuffers, clientCPU); s.Fast = false },
	func(s *Scene) { s.be(twoHosts, noActor, stock, clientsKilled) },
	func(s *Scene) { s.be(sameHost, noActor, locksHeld, paused) },
	func(s *Scene) { s.be(sameHost, noActor, traced, frozen, stock) },
	func(s *Scene) { s.be(twoHosts, noActor, blindCloses) },
	func(s *Scene) { s.be(sameHost, noActor, blindCloses) },
	func(s *Scene) { s.be(sameHost, noActor, blindCloses, locksHeld) },
	func(s *Scene) { s.be(twoHosts, noActor, blindCloses, locksHeld) },
	func(s *Scene) { s.be(twoHosts, noActor, promptCloses); s.Length = promptLength },
}

func (s *Scene) be(topology, actor string, conditions ...string) {
	s.Topology, s.Actor, s.Conditions, s.Fast = topology, actor, conditions, true
}

func (s *Scene) add(condition string) {
	if !s.has(condition) {
		s.Conditions = append(s.Conditions, condition)
	}
}

// repair leaves out what makes no sense together.
func (s *Scene) repair(options *Options) {
	drop := func(condition string) {
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c string) bool { return c == condition })
	}
	if !options.Alone {
		drop(tcpMemory)
	}
	if s.Topology != twoHosts {
		drop(lossy)
	}
	if s.isSevere() {
		// Its client waits for each answer, and would outlast the scene.
		drop(stock)
	}
	if !options.FastPath {
		s.Fast = false
	}
	// Actors look into the daemon, or the kernel's memory for it.
	if !s.Fast || s.has(daemonReplaced) || s.has(serversKilled) {
		s.Actor = noActor
	}
	if s.Actor == filler {
		s.Topology = twoHosts
		// It sends much, and waits for it.
		for _, slow := range []string{serverMemory, serverCPU, tinyBuffers, lossy, tcpMemory} {
			drop(slow)
		}
	}
	if s.Actor == cutter && s.Topology != sameHost {
		s.Topology = sameHost
	}
	if s.Actor == overtaker && s.Topology == mixed {
		s.Topology = sameHost
	}
}

// sizes of bodies and responses; -1 is none.
var (
	bodySizes  = [][2]int{{-1, -1}, {-1, 300}, {0, 300}, {0, 5000}, {1000, 300_000}, {200_000, 900_000}}
	replySizes = [][2]int{{0, 300}, {0, 5000}, {1000, 300_000}, {200_000, 900_000}}
)

// wild draws clients. Each kind has its turn.
func (s *Scene) wild(r *rand.Rand, turn int) traffic.ClientSpec {
	kinds := traffic.AllKinds()
	const each = 3
	c := traffic.ClientSpec{
		Process: firstWild + uint32(len(s.Clients)), Workers: 1 + r.IntN(5), PerConnection: []int{0, 3, 40}[r.IntN(3)],
		Acts: traffic.HonestActs, Pieces: traffic.AllPieces,
		Body: bodySizes[r.IntN(len(bodySizes))], Reply: replySizes[r.IntN(len(replySizes))],
		ChunkedBodies: 30, ChunkedReplies: 30, Gap: time.Duration(r.IntN(500)+1) * time.Microsecond,
	}
	if s.has(tinyBuffers) {
		c.Body[1], c.Reply[1] = min(c.Body[1], 5000), min(c.Reply[1], 5000)
		c.Body[0], c.Reply[0] = min(c.Body[0], 5000), min(c.Reply[0], 5000)
	}
	for i := range each {
		c.Kinds = append(c.Kinds, kinds[(turn*each+i)%len(kinds)])
	}
	if r.IntN(2) == 0 {
		c.Acts = traffic.AllActs
	}
	if r.IntN(4) == 0 {
		c.SendBuffer, c.ReceiveBuffer = 1<<(10+r.IntN(8)), 1<<(10+r.IntN(8))
	}
	if r.IntN(4) == 0 || s.has(notSentLowat) {
		c.NotSentLowat = 1 << (10 + r.IntN(5))
	}
	if c.ReceiveBuffer > 0 {
		// On the slow path a small window takes a piece each time that TCP probes it.
		c.Reply[0], c.Reply[1] = min(c.Reply[0], fitsSmall), min(c.Reply[1], max(fitsSmall, 4*c.ReceiveBuffer))
	}
	if slices.Contains(c.Kinds, traffic.KindThreads) {
		// Its requests must go in one piece each, or they would be in each other.
		c.SendBuffer, c.NotSentLowat = 0, 0
		if s.has(tinyBuffers) || s.has(notSentLowat) {
			c.Kinds = slices.DeleteFunc(c.Kinds, func(k string) bool { return k == traffic.KindThreads })
		}
	}
	if r.IntN(6) == 0 {
		c.Sip = 100 + r.IntN(3000)
	}
	if s.has(blindCloses) {
		// What is long seldom meets a close.
		c.Body[0], c.Body[1] = min(c.Body[0], 0), min(c.Body[1], 1000)
		c.Reply[0], c.Reply[1], c.Sip = 0, min(c.Reply[1], 1000), 0
	}
	if r.IntN(3) == 0 {
		c.Path = rewrittenPrefixes[r.IntN(len(rewrittenPrefixes))]
	}
	return c
}

// rewrittenPrefixes lead to the only one that endpoints serve.
var rewrittenPrefixes = []string{"/p/", "/public-by-a-name-that-is-longer/"}
