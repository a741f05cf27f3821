// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// stage is a balancer between a client and an endpoint that the test moves.
type stage struct {
	// front is the client, back the endpoint.
	front, back *harness.Puppet
	service     netip.AddrPort
	// verdicts of XLB's kernel programs; nil for others.
	verdicts func() map[string]float64
	// retired are connections of the endpoint that an earlier case left in the midst of something.
	retired map[int]bool
}

// config leads everything to the endpoint, and lets it switch to WebSocket.
func (s *stage) config() harness.Config {
	config := harness.OneCluster(s.service, s.back.Address)
	config.Listeners[0].Upgrades = []harness.Upgrade{{Type: "websocket"}}
	return config
}

// patience ends a wait for what does not come. No whole answer depends on it.
const patience = 3 * time.Second

// dialogue is one case as it is played.
type dialogue struct {
	*stage
	t *testing.T
	// isHead tells that all requests are HEAD.
	isHead bool

	client   side
	upstream map[int]*side // connections that requests came on, by number
	current  *side         // the one that is spoken on
	finals   int           // final answers that the endpoint has given
	// over tells that the endpoint is not asked any more: the client has the end, or an answer of somebody else.
	over bool
	// hung tells that patience ran out.
	hung bool
	// lingers tells that the balancer did not close a connection to the endpoint.
	lingers bool
	// halfClosed tells that the client cannot send any more.
	halfClosed bool
}

// side is what came on one connection.
type side struct {
	// order in which the dialogue heard of it.
	order    int
	id       int
	received []byte
	ended    string
	answered int // requests that the endpoint has answered
	// requests end here, because a tunnel begins; 0: they do not.
	tunnel int
}

// step is one move of the client or the endpoint.
type step func(d *dialogue)

func (d *dialogue) look() {
	const turn = time.Millisecond
	d.pull(d.front, programs.Pull{Do: programs.PuppetLook, Patience: turn})
	d.pull(d.back, programs.Pull{Do: programs.PuppetLook, Patience: turn})
}

// heard notes what the client received; what comes on connections of earlier cases is theirs.
func (d *dialogue) heard(n programs.News) {
	if n.Conn == d.client.id {
		d.client.add(n)
	}
}

// asked notes what the endpoint received. The end of an idle connection is no request: it is to be closed, which asked reports.
func (d *dialogue) asked(n programs.News) (idle bool) {
	if d.retired[n.Conn] {
		return false
	}
	s := d.upstream[n.Conn]
	if s == nil && len(n.Bytes) == 0 {
		return true
	}
	if s == nil {
		s = &side{id: n.Conn, order: len(d.upstream)}
		d.upstream[n.Conn] = s
	}
	s.add(n)
	return false
}

func (s *side) add(n programs.News) {
	s.received = append(s.received, n.Bytes...)
	if n.Ended != "" {
		s.ended = n.Ended
	}
}

// pull makes a puppet do something, and notes what it tells.
func (d *dialogue) pull(p *harness.Puppet, pull programs.Pull) {
	var ended []int
	for _, n := range p.Pull(d.t, pull).News {
		switch {
		case p != d.back:
			d.heard(n)
		case d.asked(n):
			ended = append(ended, n.Conn)
		}
	}
	// Behind all of the news: a pull brings newer ones.
	for _, conn := range ended {
		d.pull(d.back, programs.Pull{Do: programs.PuppetClose, Conn: conn})
	}
}

// until plays on until something is so; false when it will not be.
func (d *dialogue) until(so func() bool) bool {
	for deadline := time.Now().Add(patience); !so(); d.look() {
		if time.Now().After(deadline) {
			d.hung = true
			return false
		}
	}
	return true
}

// endpointHas waits until the endpoint has something, or the client knows that it will not.
func (d *dialogue) endpointHas(so func() bool) bool {
	if d.over || d.hung {
		return false
	}
	d.until(func() bool {
		d.over = d.client.ended != "" || count(d.answers(), message.final) > d.finals
		return so() || d.over
	})
	if so() {
		d.over = false
		return true
	}
	return false
}

// answers are the responses that the client has so far.
func (d *dialogue) answers() []message {
	return messages(d.client.received, responseReader(d.isHead, d.client.ended == "eof"))
}

// requests are those that the endpoint has so far, on all connections in the order in which these were used: which of those that are open
// already a balancer takes first is its affair.
func (d *dialogue) requests() []message {
	var all []message
	for _, s := range d.sides() {
		all = append(all, s.requests()...)
	}
	return all
}

func (s *side) requests() []message {
	if s.tunnel > 0 {
		return messages(s.received[:s.tunnel], readRequest)
	}
	return messages(s.received, readRequest)
}

func (d *dialogue) sides() []*side {
	var all []*side
	for _, s := range d.upstream {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *side) int { return a.order - b.order })
	return all
}

// find makes a connection the current one on which a request waits for its answer: a whole one, or its head alone.
func (d *dialogue) find(ready func(message) bool) bool {
	for _, s := range d.sides() {
		if waiting := s.requests()[s.answered:]; len(waiting) > 0 && ready(waiting[0]) {
			d.current = s
			return true
		}
	}
	return false
}

// whole tells that nothing more is to come: there is an end, or none can be made out.
func whole(m message) bool { return m.whole || m.junk }

func headWhole(m message) bool { return m.headWhole }

func count(all []message, which func(message) bool) (n int) {
	for _, m := range all {
		if which(m) {
			n++
		}
	}
	return n
}

// sends is the client's, each text in one write.
func sends(texts ...string) step {
	return func(d *dialogue) {
		for _, text := range texts {
			d.pull(d.front, programs.Pull{Do: programs.PuppetSend, Conn: d.client.id, Bytes: []byte(text)})
		}
	}
}

// halfCloses is the client's.
func halfCloses() step {
	return func(d *dialogue) {
		d.halfClosed = true
		d.pull(d.front, programs.Pull{Do: programs.PuppetHalfClose, Conn: d.client.id})
	}
}

// replies is the endpoint's answer to a whole request, each text in one write.
func replies(texts ...string) step { return repliesWhen(whole, true, texts) }

// repliesEarly answers when the head is there.
func repliesEarly(texts ...string) step { return repliesWhen(headWhole, true, texts) }

// informs answers what is not final.
func informs(texts ...string) step { return repliesWhen(headWhole, false, texts) }

func repliesWhen(ready func(message) bool, final bool, texts []string) step {
	return func(d *dialogue) {
		if !d.endpointHas(func() bool { return d.find(ready) }) {
			return
		}
		if final {
			d.finals++
			d.current.answered++
		}
		d.says(texts...)
	}
}

func (d *dialogue) says(texts ...string) {
	for _, text := range texts {
		d.pull(d.back, programs.Pull{Do: programs.PuppetSend, Conn: d.current.id, Bytes: []byte(text)})
	}
}

// switches answers 101: from here on, bytes are no messages.
func switches(text string) step {
	return func(d *dialogue) {
		replies(text)(d)
		if d.current != nil {
			d.current.tunnel = len(d.current.received)
		}
	}
}

// adds is what the endpoint says on the connection it spoke on before.
func adds(texts ...string) step {
	return func(d *dialogue) {
		if !d.over && d.current != nil {
			d.says(texts...)
		}
	}
}

// ends makes the endpoint close the connection it spoke on, or reset it.
func ends(how string) step {
	return func(d *dialogue) {
		if !d.over && d.current != nil {
			d.pull(d.back, programs.Pull{Do: how, Conn: d.current.id})
		}
	}
}

// hangsUp makes the endpoint end the connection behind these texts instead of answering, as often as the request is tried.
func hangsUp(how string, texts ...string) step { return hangsUpOn(1, how, texts...) }

// hangsUpOn hangs up on the client's nth request.
func hangsUpOn(n int, how string, texts ...string) step {
	return func(d *dialogue) {
		d.until(func() bool {
			if d.find(whole) {
				d.current.answered++
				d.says(texts...)
				ends(how)(d)
			}
			return len(d.answers()) >= n || d.client.ended != ""
		})
	}
}

// evicted waits until the balancer has closed the connection to the endpoint.
func evicted() step {
	return func(d *dialogue) {
		if d.current == nil || d.over || d.hung {
			return
		}
		d.lingers = !d.until(func() bool { return d.current.ended != "" })
		d.hung = false
	}
}

// receives waits until the client has so many whole final answers, or the end.
func receives(n int) step {
	return func(d *dialogue) {
		d.clientHas(func() bool {
			return count(d.answers(), func(m message) bool { return m.final() && m.whole }) >= n
		})
	}
}

// receivesHeads waits for the heads of so many responses, informational ones among them.
func receivesHeads(n int) step {
	return func(d *dialogue) {
		d.clientHas(func() bool { return count(d.answers(), headWhole) >= n })
	}
}

// receivesText waits until what the client has ends like this.
func receivesText(text string) step {
	return func(d *dialogue) {
		d.clientHas(func() bool { return bytes.HasSuffix(d.client.received, []byte(text)) })
	}
}

// receivesEnd waits until the client's connection is closed.
func receivesEnd() step {
	return func(d *dialogue) { d.clientHas(func() bool { return false }) }
}

// looks takes what has come so far.
func looks() step { return (*dialogue).look }

// arrives waits until the endpoint has the head of a request.
func arrives() step {
	return func(d *dialogue) {
		d.endpointHas(func() bool { return d.find(headWhole) })
	}
}

func (d *dialogue) clientHas(so func() bool) {
	if !d.hung {
		d.until(func() bool { return so() || d.client.ended != "" })
	}
}

// hears waits until the endpoint has received this behind the head.
func hears(text string) step {
	return func(d *dialogue) {
		d.endpointHas(func() bool { return d.current != nil && bytes.HasSuffix(d.current.received, []byte(text)) })
	}
}

// waitsToContinue is a client that sends a body only when it is told to, by whomever; an endpoint that sees the expectation tells it.
func waitsToContinue() step {
	return func(d *dialogue) {
		told := false
		d.until(func() bool {
			if !told && d.find(func(m message) bool { return m.headWhole && m.header.Get("Expect") != "" }) {
				told = true
				d.says("HTTP/1.1 100 Continue\r\n\r\n")
			}
			return len(d.answers()) > 0 || d.client.ended != ""
		})
	}
}

// state is what became of the client's connection.
type state string

const (
	kept   state = "kept"
	closed state = "closed"
	tunnel state = "tunnel"
	// stuck: nothing came for as long as the test waits.
	stuck state = "hangs"
	// confused: the client got something else than the answer to its next request.
	confused state = "**out of step**"
)

const (
	probe       = "GET /probe HTTP/1.1\r\nHost: e2e.test\r\n\r\n"
	probeAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nprobe"
)

// probe tells what became of the client's connection, by one more request on it.
func (d *dialogue) probe() state {
	switch before := len(d.client.received); {
	case d.hung:
		return stuck
	case d.current != nil && d.current.tunnel > 0 && d.client.ended == "":
		return tunnel
	case d.halfClosed:
		receivesEnd()(d)
	case d.client.ended == "" && d.saidClose():
		// Some wait for the client to close first.
		halfCloses()(d)
		receivesEnd()(d)
		if len(d.client.received) > before {
			return confused
		}
	case d.client.ended == "":
		sends(probe)(d)
		d.until(func() bool {
			d.answerProbe()
			return d.client.ended != "" || len(d.client.received) > before && strings.HasSuffix(string(d.client.received), "probe")
		})
		return d.probed(d.client.received[before:])
	}
	if d.client.ended == "" {
		return stuck
	}
	return closed
}

// saidClose tells whether the last answer announces the end.
func (d *dialogue) saidClose() bool {
	all := d.answers()
	return len(all) > 0 && all[len(all)-1].last
}

// answerProbe answers whatever request waits: with the probe's answer, or with one that is not.
func (d *dialogue) answerProbe() {
	if !d.find(whole) {
		return
	}
	d.current.answered++
	if waiting := d.current.requests()[d.current.answered-1]; waiting.target == "/probe" {
		d.says(probeAnswer)
		return
	}
	d.says("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nunwanted")
}

func (d *dialogue) probed(received []byte) state {
	all := messages(received, responseReader(false, d.client.ended == "eof"))
	switch {
	case d.hung:
		return stuck
	case len(all) == 1 && all[0].status == 200 && all[0].body == "probe":
		return kept
	case len(all) == 0 || d.client.ended != "" && !strings.Contains(string(received), "unwanted"):
		return closed
	default:
		return confused
	}
}

// play plays a case on a new connection.
func (s *stage) play(t *testing.T, c exchange) observation {
	t.Helper()
	d := &dialogue{stage: s, t: t, isHead: c.isHead, upstream: map[int]*side{}}
	before := s.count()
	d.client.id = s.front.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: s.service.String()}).Conn
	for _, step := range c.steps {
		step(d)
	}
	o := observation{answers: d.answers(), requests: d.requests(), path: pathOf(before, s.count())}
	o.client, o.lingers = d.probe(), d.lingers
	d.pull(s.front, programs.Pull{Do: programs.PuppetClose, Conn: d.client.id})
	d.clear()
	return o
}

// clear ends the connections to the endpoint that the balancer has ended, or has a request on that nobody answers.
func (d *dialogue) clear() {
	for _, s := range d.sides() {
		if all := s.requests(); s.ended != "" || s.tunnel > 0 || len(all) != s.answered || !all[len(all)-1].whole {
			d.retired[s.id] = true
			d.pull(d.back, programs.Pull{Do: programs.PuppetClose, Conn: s.id})
		}
	}
}

func (s *stage) count() map[string]float64 {
	if s.verdicts == nil {
		return nil
	}
	return s.verdicts()
}

// pathOf tells from the verdicts before and after a case who served it.
func pathOf(before, after map[string]float64) string {
	var handed, spilled []string
	fast := false
	for verdict, n := range after {
		if n == before[verdict] {
			continue
		}
		if reason, ok := strings.CutPrefix(verdict, "handover_"); ok {
			handed = append(handed, reason)
		}
		if reason, ok := strings.CutPrefix(verdict, "spill_"); ok {
			spilled = append(spilled, reason)
		}
		fast = fast || verdict == "request_leased"
	}
	slices.Sort(handed)
	slices.Sort(spilled)
	switch {
	case len(handed) > 0:
		return fmt.Sprintf("handed over: %s", strings.Join(handed, ", "))
	case len(spilled) > 0:
		return fmt.Sprintf("spilled: %s", strings.Join(spilled, ", "))
	case fast:
		return "fast"
	}
	return "slow"
}
