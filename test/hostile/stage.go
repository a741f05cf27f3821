// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/chaos"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
)

// scene is a Scene that is played.
type scene struct {
	testing.TB
	*Scene
	directory string
	random    *rand.Rand

	near, far *harness.Place
	// beside is where servers are that are on this host and not balanced.
	beside *harness.Place
	// service, and those whose endpoints lie, are slow to read, and nginx, of which there may be none.
	service, liars, slow, nginx netip.AddrPort
	nginxes                     []netip.AddrPort
	// The server of the stock pair, its service, and its client, if the scene has them.
	stock        *harness.StockServer
	stockService netip.AddrPort
	stockClient  *harness.Process
	endpoints    []*server
	running      []*harness.Process
	balancer     *harness.Balancer
	// confines are the cgroups of the daemon's limits.
	confines []string

	clients, servers map[string]int64
	calm             traffic.Report
	// Of wild clients' exchanges.
	honest, honestRight int64
	// goroutines of the daemon before it had a client.
	goroutines float64
	// most is the memory of the kernel's small objects at its height.
	most int64
	left []string
	// poor is what other work on the machine can bring about, too: few exchanges that are right, much memory of the kernel.
	poor []string
}

// server is an endpoint through all its lives.
type server struct {
	spec    traffic.ServerSpec
	place   *harness.Place
	address netip.AddrPort
	process *harness.Process
	cluster string
}

// Clusters of a scene.
const (
	honestCluster = "honest"
	liarsCluster  = "liars"
	slowCluster   = "slow"
	nginxCluster  = "nginx"
)

// Times of a scene.
const (
	routeTimeout  = 2 * time.Second
	serverWaits   = await.Patience - time.Second
	clientWaits   = await.Patience
	settles       = 40 * time.Second
	gone          = 90 * time.Second
	nginxAnswers  = "what nginx always says"
	memoryOfTCP   = 64 << 10
	memoryBeside  = 32 << 20
	hundredths    = 20
	descriptors   = 40
	calmestShare  = 0.98
	honestShare   = 0.95
	longestBlind  = 2 * time.Millisecond
	longestPrompt = 60 * time.Microsecond
	messagesBound = 24 << 20
	// moreGoroutines are for what the daemon does only since there was a client.
	moreGoroutines = 20
)

func (s *scene) play() {
	s.random = rand.New(rand.NewPCG(s.Seed, 3))
	s.build()
	s.startDaemon()
	before := harness.Kilobytes(s)
	s.start()
	s.act()
	s.storm()
	s.end()
	s.settle(before)
}

// build makes places and servers.
func (s *scene) build() {
	s.near, s.far = harness.TwoHosts(s)
	s.beside = s.near.Neighbour(s)
	s.service, s.liars, s.slow, s.nginx = harness.Service(), harness.Service(), harness.Service(), harness.Service()
	s.settings()
	if s.has(daemonCPU) {
		// Before the daemon, which ends before this is removed.
		s.confines = append(s.confines, s.near.CPULimit(s, hundredths))
	}
	places := map[string][]*harness.Place{
		sameHost: {s.near, s.near}, apart: {s.beside, s.beside}, twoHosts: {s.far, s.far}, mixed: {s.near, s.far},
	}[s.Topology]
	clusters := []string{honestCluster, honestCluster, liarsCluster, slowCluster}
	for i, place := range append(slices.Clone(places), places[0], places[0]) {
		spec := traffic.ServerSpec{
			Name: fmt.Sprintf("server-%d", i), Seed: s.Seed, Directory: s.directory, Phase: s.String(), Patience: serverWaits,
		}
		if s.has(tinyBuffers) {
			spec.ReceiveBuffer, spec.SendBuffer = 4<<10, 4<<10
		}
		if s.has(serverMemory) {
			spec.Confine.Cgroups = append(spec.Confine.Cgroups, place.TCPMemoryLimit(s, memoryOfTCP, memoryBeside))
		}
		if s.has(serverCPU) {
			spec.Confine.Cgroups = append(spec.Confine.Cgroups, place.CPULimit(s, hundredths))
		}
		if s.has(fewDescriptors) {
			spec.Confine.Descriptors = descriptors
		}
		if s.has(blindCloses) {
			spec.Blind = longestBlind
		}
		if s.has(promptCloses) && clusters[i] == honestCluster {
			spec.Prompt = longestPrompt
		}
		if clusters[i] == slowCluster {
			spec.Stingy, spec.Pause, spec.ReceiveBuffer = 1, time.Second, 64<<10
		}
		one := &server{spec: spec, place: place, cluster: clusters[i]}
		s.startServer(one)
		s.endpoints = append(s.endpoints, one)
	}
	s.startNginx(places[0])
	if s.has(stock) {
		s.stock, s.stockService = places[0].StockServer(s), harness.Service()
	}
}

// startNginx has one answer to whatever begins as a request.
func (s *scene) startNginx(place *harness.Place) {
	if _, err := exec.LookPath("nginx"); err == nil {
		s.nginxes = append(s.nginxes, place.Nginx(s, harness.Nginx{Identity: nginxAnswers}).Address)
	}
}

// settings are those of the network namespaces.
func (s *scene) settings() {
	for _, place := range []*harness.Place{s.near, s.far} {
		if s.has(notSentLowat) {
			place.Sysctl(s, "ipv4/tcp_notsent_lowat", strconv.Itoa(1<<(12+s.random.IntN(5))))
		}
		if s.has(tinyBuffers) {
			place.Sysctl(s, "ipv4/tcp_rmem", "2048 4096 8192")
			place.Sysctl(s, "ipv4/tcp_wmem", "2048 4096 8192")
		}
		if s.has(fewPorts) {
			place.Sysctl(s, "ipv4/ip_local_port_range", "40000 40299")
		}
	}
	if s.has(lossy) {
		s.near.LoseData(s, 100)
	}
}

func (s *scene) startServer(one *server) {
	if one.address.IsValid() {
		one.spec.Address = one.address.String()
	}
	one.process, one.address = one.place.HostileServer(s, one.spec)
}

// config routes what is public, by each of its names.
func (s *scene) config() harness.Config {
	c := harness.Config{}
	add := func(service netip.AddrPort, cluster string, timeout time.Duration) {
		routes := []harness.Route{{Prefix: traffic.Prefix, Clusters: harness.To(cluster), Timeout: timeout}}
		for _, name := range rewrittenPrefixes {
			routes = append(routes, harness.Route{Prefix: name, Rewrite: traffic.Prefix, Clusters: harness.To(cluster), Timeout: timeout})
		}
		if s.has(retried) {
			for i := range routes {
				routes[i].Retry = map[string]any{"retry_on": "5xx,reset", "num_retries": 2}
			}
		}
		c.Listeners = append(c.Listeners, harness.Listener{Address: service, Hosts: []harness.VirtualHost{{Routes: routes}}})
		policy := []string{"ROUND_ROBIN", "LEAST_REQUEST", "RANDOM"}[s.random.IntN(3)]
		c.Clusters = append(c.Clusters, harness.Cluster{Name: cluster, Endpoints: s.addresses(cluster), Policy: policy})
	}
	add(s.service, honestCluster, routeTimeout)
	add(s.liars, liarsCluster, routeTimeout)
	add(s.slow, slowCluster, -1)
	if len(s.nginxes) > 0 {
		add(s.nginx, nginxCluster, routeTimeout)
	}
	if s.stock != nil {
		c.Add(harness.OneCluster(s.stockService, s.stock.Address))
	}
	for i := range c.Listeners {
		c.Listeners[i].Upgrades = []harness.Upgrade{{Type: "websocket"}}
	}
	return c
}

func (s *scene) addresses(cluster string) (all []netip.AddrPort) {
	if cluster == nginxCluster {
		return s.nginxes
	}
	for _, one := range s.endpoints {
		if one.cluster == cluster {
			all = append(all, one.address)
		}
	}
	return all
}

// client is what all clients have in common.
func (s *scene) client() traffic.ClientSpec {
	return traffic.ClientSpec{
		Address: s.service.String(), Seed: s.Seed, Directory: s.directory, Phase: s.String(), Patience: clientWaits,
		// Who cannot be accepted waits.
		MayHang: s.has(daemonDescriptors), MayBreak: s.isSevere(),
	}
}

// wildClient is one of the scene's.
func (s *scene) wildClient(i int) traffic.ClientSpec { return s.inScene(s.Clients[i]) }

// inScene adds what all clients have in common.
func (s *scene) inScene(c traffic.ClientSpec) traffic.ClientSpec {
	common := s.client()
	c.Address, c.Seed, c.Directory, c.Phase, c.Patience = common.Address, common.Seed, common.Directory, common.Phase, common.Patience
	c.MayHang, c.MayBreak = common.MayHang, common.MayBreak
	return c
}

// start starts the clients.
func (s *scene) start() {
	s.startClients(s.calmClient())
	for i := range s.Clients {
		c := s.wildClient(i)
		s.confine(&c, i)
		s.startClients(c)
	}
	if s.stock != nil {
		s.stockClient = s.near.StockClient(s, s.stockService, stockPairs)
	}
	if !s.has(promptCloses) {
		s.startOthers()
	}
}

// calmClient asks for what any balancer manages.
func (s *scene) calmClient() traffic.ClientSpec {
	if s.has(promptCloses) {
		return s.inScene(hurried(calmProcess))
	}
	return s.inScene(traffic.ClientSpec{
		Process: calmProcess, Workers: 4, Kinds: []string{traffic.KindWhole, traffic.KindHeadBody},
		Acts: []string{traffic.ActAnswers, traffic.ActEarly}, Pieces: traffic.AllPieces, Body: [2]int{-1, 400}, Reply: [2]int{0, 400},
	})
}

// startOthers starts those who meet no honest server.
func (s *scene) startOthers() {
	base := s.client()
	if len(s.nginxes) > 0 {
		asking := base
		asking.Address, asking.Process, asking.Workers, asking.Fixed = s.nginx.String(), nginxProcess, 3, nginxAnswers
		asking.Kinds = []string{traffic.KindWhole, traffic.KindHeadBody, traffic.KindPieces}
		asking.Acts, asking.Pieces, asking.Body = []string{traffic.ActEarly}, []string{traffic.PiecesOne}, [2]int{-1, 3000}
		asking.Gap = 200 * time.Microsecond
		defer s.startClients(asking)
	}
	lying := base
	lying.Address, lying.Process, lying.Workers = s.liars.String(), traffic.FirstLiar, 2
	lying.Kinds, lying.Acts = []string{traffic.KindWhole, traffic.KindPieces}, append([]string{traffic.ActTwice, traffic.ActTwice}, traffic.AllActs...)
	lying.Pieces, lying.Body, lying.Reply = append([]string{traffic.PiecesUrgent}, traffic.AllPieces...), [2]int{-1, 2000}, [2]int{0, 2000}
	s.startClients(lying)
}

func (s *scene) startDaemon() {
	s.balancer = harness.Start(s, modeOf(s.Scene), s.config(), s.near)
	s.goroutines = s.balancer.Metric(s, "go_goroutines")
	if s.has(daemonDescriptors) {
		few := uint64(s.balancer.Descriptors(s) + descriptors)
		if err := unix.Prlimit(s.balancer.PID(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: few, Max: few}, nil); err != nil {
			s.Fatal(err)
		}
	}
	for _, cgroup := range s.confines {
		harness.Join(s, cgroup, s.balancer.PID())
	}
}

// confine puts every other process of clients under what the scene says.
func (s *scene) confine(c *traffic.ClientSpec, i int) {
	if i%2 > 0 {
		return
	}
	if s.has(clientMemory) {
		c.Confine.Cgroups = append(c.Confine.Cgroups, s.near.TCPMemoryLimit(s, memoryOfTCP, memoryBeside))
	}
	if s.has(clientCPU) {
		c.Confine.Cgroups = append(c.Confine.Cgroups, s.near.CPULimit(s, hundredths))
	}
	if s.has(idleClients) {
		c.Confine.CPU, c.Confine.Idle = 1, true
	}
	if s.has(fewDescriptors) {
		c.Confine.Descriptors = descriptors
	}
}

func (s *scene) startClients(c traffic.ClientSpec) {
	s.running = append(s.running, s.near.HostileClients(s, c))
}

// act lets the actor play; the others go on meanwhile.
func (s *scene) act() {
	spec := s.client()
	spec.Process, spec.Reply = actorProcess, [2]int{0, 300}
	spec.Kinds, spec.Acts, spec.Pieces = []string{traffic.KindWhole}, []string{traffic.ActEarly}, []string{traffic.PiecesOne}
	one := s.endpoints[0]
	pid := one.process.PID()
	if one.place != s.near {
		pid = s.balancer.PID()
	}
	var program string
	var play any
	switch s.Actor {
	case overtaker:
		program, play = programs.HostileOvertakerProgram, traffic.OvertakeSpec{Clients: spec, Rounds: 20, PID: pid, Port: one.address.Port()}
	case cutter:
		spec.Acts, spec.Reply, spec.Patience = []string{traffic.ActAnswers}, [2]int{100_000, 100_000}, 4*time.Second
		program, play = programs.HostileCutterProgram, traffic.CutSpec{
			Clients: spec, Rounds: 3, PID: pid, Cgroup: s.near.TCPMemoryLimit(s, memoryOfTCP/2, memoryBeside),
		}
	case filler:
		spec.Address = s.slow.String()
		spec.Acts, spec.Kinds, spec.Body = []string{traffic.ActAnswers}, []string{traffic.KindNonblocking}, [2]int{6 << 20, 6 << 20}
		program, play = programs.HostileFillerProgram, traffic.FillSpec{
			Clients: spec, Rounds: 2, PID: s.balancer.PID(), Port: s.addresses(slowCluster)[0].Port(),
		}
	case hoarder:
		spec.Address = s.slow.String()
		spec.Acts, spec.Body = []string{traffic.ActAnswers}, [2]int{100_000, 100_000}
		program, play = programs.HostileHoarderProgram, traffic.HoardSpec{Clients: spec, Exchanges: 1}
	default:
		return
	}
	process := s.near.Program(s, program, play)
	s.running = append(s.running, process)
}

// storm is the time in which things happen.
func (s *scene) storm() {
	// All strikes but one come early enough to see what comes of them.
	end := time.Now().Add(s.Length)
	strikes := s.strikes()
	next := time.Now().Add(s.peace())
	for time.Now().Before(end) {
		time.Sleep(50 * time.Millisecond)
		s.most = max(s.most, harness.Kilobytes(s))
		if len(strikes) > 0 && time.Now().After(next) {
			strikes[s.random.IntN(len(strikes))]()
			next = time.Now().Add(s.peace())
		}
	}
}

// peace is between two strikes.
func (s *scene) peace() time.Duration {
	return 200*time.Millisecond + time.Duration(s.random.IntN(600))*time.Millisecond
}

// strikes are what may happen in the scene.
func (s *scene) strikes() (all []func()) {
	for condition, strike := range map[string]func(){
		daemonReplaced: s.replaceDaemon, daemonStopped: s.stopDaemon, clientsKilled: s.killClients, serversKilled: s.killServer,
		reloads: func() { s.balancer.Reload(s, s.config()) }, tcpMemory: s.squeezeTCP,
		locksHeld: s.holdLocks, paused: s.pause, traced: s.trace, frozen: s.freeze,
	} {
		if s.has(condition) {
			all = append(all, strike)
		}
	}
	return all
}

func (s *scene) replaceDaemon() {
	s.balancer.Slay(s)
	s.startDaemon()
}

func (s *scene) stopDaemon() {
	s.balancer.Signal(s, syscall.SIGSTOP)
	time.Sleep(time.Duration(s.random.IntN(300)) * time.Millisecond)
	s.balancer.Signal(s, syscall.SIGCONT)
}

// killClients kills wild ones, and starts them anew under a number of their own.
func (s *scene) killClients() {
	i := s.random.IntN(len(s.Clients))
	s.running[1+i].Kill(s)
	s.Clients[i].Process += 0x100
	s.running[1+i] = s.near.HostileClients(s, s.wildClient(i))
}

func (s *scene) killServer() {
	one := s.endpoints[s.random.IntN(len(s.endpoints))]
	one.process.Kill(s)
	time.Sleep(time.Duration(s.random.IntN(300)) * time.Millisecond)
	s.startServer(one)
}

// squeezeTCP has all of TCP under pressure, for a moment: with little more than it has, with half as much more, or with as much as it likes.
func (s *scene) squeezeTCP() {
	used := harness.TCPMemory(s) / int64(os.Getpagesize())
	// Other network namespaces do not have that setting.
	limits := [...]string{
		fmt.Sprintf("%d %d %d", used, used+16, used+64),
		fmt.Sprintf("1 2 %d", used+used/2+64),
		fmt.Sprintf("1 2 %d", 4*used+1<<16),
	}
	setting := harness.SameHost(s).Program(s, programs.SettingProgram, programs.SettingSpec{
		Path: "/proc/sys/net/ipv4/tcp_mem", Value: limits[s.random.IntN(len(limits))],
	})
	var in programs.SettingSpec
	setting.Next(s, &in)
	time.Sleep(300 * time.Millisecond)
	setting.Output(s, 10*time.Second)
}

// end ends the clients, and then asks the servers.
func (s *scene) end() {
	for i, c := range s.running {
		var r traffic.Report
		if err := c.TryFinish(gone, &r); err != nil {
			s.Errorf("seed %d: %s: clients: %v", s.Seed, s.Scene, err)
			continue
		}
		add(s.clients, r.Counts)
		switch {
		case i == 0:
			s.calm = r
		case i <= len(s.Clients):
			s.honest += r.Counts[traffic.Honest]
			s.honestRight += r.Counts[traffic.HonestRight]
		}
	}
	for _, c := range s.running {
		// The hoarder holds what it has until now.
		c.Wait(s, gone)
	}
	s.endStock()
	for _, one := range s.endpoints {
		var r traffic.Report
		one.process.Ask(s, "report", &r)
		add(s.servers, r.Counts)
	}
}

// requireShare fails where too few are right: others' faults take some with them, but a balancer that refuses all would pass without this.
func (s *scene) requireShare(what string, right, made int64, least float64) {
	if float64(right) < least*float64(made) {
		s.poor = append(s.poor, fmt.Sprintf("of %s %d of %d were right, want at least %.0f %%", what, right, made, 100*least))
	}
}

// settle looks for what is left.
func (s *scene) settle(kilobytes int64) {
	if !s.isSevere() && !s.has(blindCloses) && !s.has(promptCloses) {
		s.requireShare("calm clients' exchanges", s.calm.Counts[traffic.Right], s.calm.Counts[traffic.Exchanges], calmestShare)
		s.requireShare("honest exchanges", s.honestRight, s.honest, honestShare)
	}
	// Another daemon has maps of its own.
	if grown := s.most - kilobytes; grown > messagesBound && !s.has(daemonReplaced) {
		s.poor = append(s.poor, fmt.Sprintf("the kernel had %d kB more of small objects", grown>>10))
	}
	endpoints := slices.Clone(s.nginxes)
	for _, one := range s.endpoints {
		endpoints = append(endpoints, one.address)
	}
	if s.stock != nil {
		endpoints = append(endpoints, s.stock.Address)
	}
	s.Logf("metrics that are not zero:\n%s", chaos.NonZero(s.balancer.Get(s, "/metrics")))
	var now []string
	for end := time.Now().Add(settles); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		residue := chaos.Look(s, s.balancer, endpoints)
		// Of TCP's memory others on this machine have a part.
		residue.TCPMemory = 0
		now = residue.Problems(&chaos.Residue{}, s.Fast)
		if n := s.balancer.Metric(s, "go_goroutines"); n > s.goroutines+moreGoroutines {
			now = append(now, fmt.Sprintf("the daemon has %.0f goroutines, at first %.0f", n, s.goroutines))
		}
		if grown := harness.Kilobytes(s) - kilobytes; grown > messagesBound {
			now = append(now, fmt.Sprintf("the kernel has %d kB more of small objects", grown>>10))
		}
		if len(now) == 0 {
			return
		}
	}
	s.left = append(s.left, now...)
	s.Logf("metrics that are not zero:\n%s", chaos.NonZero(s.balancer.Get(s, "/metrics")))
}
