// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"slices"
	"time"

	"github.com/xlb-project/xlb/test/chaos/traffic"
	"github.com/xlb-project/xlb/test/e2e/harness"
)

// Times between what happens to processes and to the configuration.
const (
	shortestPeace  = 200 * time.Millisecond
	longestPeace   = 2 * time.Second
	longestAbsence = 800 * time.Millisecond
	progressEvery  = 10 * time.Second
)

// storm is the time in which everything fails.
func (r *run) storm() {
	for range clientProcesses {
		r.clients = append(r.clients, r.startClients())
	}
	r.began = time.Now()
	end := time.NewTimer(r.options.Duration)
	defer end.Stop()
	progress := time.NewTicker(progressEvery)
	defer progress.Stop()
	for {
		select {
		case <-end.C:
			return
		case <-progress.C:
			r.alive()
			r.progress()
		case <-time.After(r.between(shortestPeace, longestPeace)):
			r.strike()
		}
	}
}

func (r *run) between(shortest, longest time.Duration) time.Duration {
	return shortest + time.Duration(r.random.Int64N(int64(longest-shortest)))
}

// strike does one thing that operators and machines do.
func (r *run) strike() {
	switch r.random.IntN(4) {
	case 0:
		r.killClients(r.random.IntN(len(r.clients)))
	case 1:
		r.killServer(r.victim())
	default:
		r.reload()
	}
}

// killClients ends a process of clients in the middle of whatever they do.
func (r *run) killClients(i int) {
	if r.process+1 == traffic.FirstCalmProcess {
		// No number is left for another.
		return
	}
	r.clients[i].Kill(r)
	r.summary.ClientsKilled++
	r.clients[i] = r.startClients()
}

// victim returns a server that requests can do without: one that the configuration leaves out, if its neighbour is asked for.
func (r *run) victim() *server {
	s := r.servers[r.random.IntN(len(r.servers))]
	if r.left != nil && r.left.place == s.place {
		return r.left
	}
	return s
}

// killServer ends a server likewise, and starts another at its address.
func (r *run) killServer(s *server) {
	r.killed[s.fullName()] = true
	s.process.Kill(r)
	r.summary.ServersKilled++
	time.Sleep(r.between(0, longestAbsence))
	s.generation++
	r.startServer(s)
}

// reload changes the balancing, whether requests in flight are counted, and which endpoints there are: at least one of
// each host stays.
func (r *run) reload() {
	policies := []string{"ROUND_ROBIN", "LEAST_REQUEST", "RANDOM"}
	r.left = nil
	if r.random.IntN(2) == 0 {
		r.left = r.servers[r.random.IntN(len(r.servers))]
	}
	r.balancer.Reload(r, r.config(policies[r.random.IntN(len(policies))], r.random.IntN(4) > 0))
	r.summary.Reloads++
}

// calmDown lets the clients finish and puts the first configuration back.
func (r *run) calmDown() {
	for _, c := range r.clients {
		// They finish what they have begun, which may take as long as a hang.
		c.Output(r, 3*traffic.HangBound)
	}
	r.progress()
	r.left = nil
	r.balancer.Reload(r, r.config("", true))
	r.awaitEndpoints()
}

// endpointsBack bounds the time until all endpoints are in service again.
const endpointsBack = 30 * time.Second

func (r *run) awaitEndpoints() {
	// "both" has all of them, the other two half each.
	const want = 4 * serversPerHost
	harness.Eventually(r, endpointsBack, "all endpoints are in service", func() bool {
		return r.balancer.Metric(r, "envoy_cluster_membership_healthy") == want
	})
}

// alive checks what must never end.
func (r *run) alive() {
	if !r.balancer.Alive() {
		r.Fatalf("xlb has ended:\n%s", r.balancer.Stderr())
	}
	if i := slices.IndexFunc(r.servers, func(s *server) bool { return !s.process.Alive() }); i >= 0 {
		r.Fatalf("%s has ended:\n%s", r.servers[i].fullName(), r.servers[i].process.Stderr())
	}
}
